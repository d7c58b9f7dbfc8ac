#include "tests/unit/planner/simulate/reference.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ucudnn::simulate {
namespace {

class ReferenceSimulation {
 public:
  explicit ReferenceSimulation(const TaskGraph& graph)
      : graph_(graph), states_(graph.tasks.size(), State::kBlocked), spans_(graph.tasks.size()) {
    for (const Task& task : graph.tasks) left_ms_.push_back(task.duration_ms);
  }

  ReferenceTimeline Run() {
    for (;;) {
      do {
        EndAndUnblock();
        BeginAll();
      } while (SomeCanEnd());
      if (!Advance()) break;
    }
    const bool is_over =
        std::all_of(states_.begin(), states_.end(), [](State s) { return s == State::kEnded; });
    return {!is_over, spans_};
  }

 private:
  enum class State { kBlocked, kWaiting, kRunning, kEnded };

  size_t Tasks() const { return graph_.tasks.size(); }

  bool IsBlocked(size_t id) const {
    const Task& task = graph_.tasks[id];
    for (const TaskId before : task.after) {
      if (states_[static_cast<size_t>(before)] != State::kEnded) return true;
    }
    for (size_t other = 0; other < id; ++other) {
      const bool is_ahead = task.queue != kNone && graph_.tasks[other].queue == task.queue;
      if (is_ahead && states_[other] != State::kEnded) return true;
    }
    return false;
  }

  // Ends and begins tasks until nothing changes any more: a task that uses no resource begins as
  // soon as it is ready, and if it takes no time, ends at the same moment.
  void EndAndUnblock() {
    std::vector<size_t> ready;
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (size_t id = 0; id < Tasks(); ++id) {
        if (states_[id] == State::kRunning && left_ms_[id] == 0) {
          states_[id] = State::kEnded;
          spans_[id].end_ms = now_ms_;
          is_changed = true;
        }
        if (states_[id] != State::kBlocked || IsBlocked(id)) continue;
        is_changed = true;
        if (graph_.tasks[id].resource == kNone) {
          Begin(id);
        } else {
          states_[id] = State::kWaiting;
          ready.push_back(id);
        }
      }
    }
    std::sort(ready.begin(), ready.end());
    waiting_.insert(waiting_.end(), ready.begin(), ready.end());
  }

  void BeginAll() {
    std::vector<size_t> still_waiting;
    for (const size_t id : waiting_) {
      const ResourceId resource = graph_.tasks[id].resource;
      if (RunningOn(resource) < graph_.resources[static_cast<size_t>(resource)].slots) {
        Begin(id);
      } else {
        still_waiting.push_back(id);
      }
    }
    waiting_ = still_waiting;
  }

  void Begin(size_t id) {
    states_[id] = State::kRunning;
    spans_[id].begin_ms = now_ms_;
  }

  int RunningOn(ResourceId resource) const {
    int running = 0;
    for (size_t id = 0; id < Tasks(); ++id) {
      running += states_[id] == State::kRunning && graph_.tasks[id].resource == resource ? 1 : 0;
    }
    return running;
  }

  bool SomeCanEnd() const {
    for (size_t id = 0; id < Tasks(); ++id) {
      if (states_[id] == State::kRunning && left_ms_[id] == 0) return true;
    }
    return false;
  }

  double Slowdown(size_t id) const {
    const ResourceId resource = graph_.tasks[id].resource;
    double shares = 0;
    for (size_t other = 0; other < Tasks(); ++other) {
      const bool is_beside = resource != kNone && graph_.tasks[other].resource == resource;
      if (is_beside && states_[other] == State::kRunning) shares += graph_.tasks[other].share;
    }
    return std::max(1.0, shares);
  }

  // Advances the time to the next end of a task. Returns false if no task runs.
  bool Advance() {
    double step_ms = std::numeric_limits<double>::infinity();
    std::vector<double> slowdowns;
    for (size_t id = 0; id < Tasks(); ++id) {
      slowdowns.push_back(Slowdown(id));
      if (states_[id] == State::kRunning) {
        step_ms = std::min(step_ms, left_ms_[id] * slowdowns[id]);
      }
    }
    if (step_ms == std::numeric_limits<double>::infinity()) return false;
    for (size_t id = 0; id < Tasks(); ++id) {
      if (states_[id] != State::kRunning) continue;
      const bool ends = left_ms_[id] * slowdowns[id] == step_ms;
      left_ms_[id] = ends ? 0 : left_ms_[id] - step_ms / slowdowns[id];
    }
    now_ms_ += step_ms;
    return true;
  }

  const TaskGraph& graph_;
  std::vector<State> states_;
  std::vector<Span> spans_;
  std::vector<double> left_ms_;
  std::vector<size_t> waiting_;  // in the order in which they get slots
  double now_ms_ = 0;
};

// Calls `visit` with the length of every interval between two moments and the tasks that run in it.
void ForEachInterval(const std::vector<Span>& tasks,
                     const std::function<void(double, const std::vector<size_t>&)>& visit) {
  std::vector<double> moments;
  for (const Span& span : tasks) {
    moments.push_back(span.begin_ms);
    moments.push_back(span.end_ms);
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  for (size_t i = 0; i + 1 < moments.size(); ++i) {
    std::vector<size_t> running;
    for (size_t id = 0; id < tasks.size(); ++id) {
      if (tasks[id].begin_ms <= moments[i] && tasks[id].end_ms >= moments[i + 1]) {
        running.push_back(id);
      }
    }
    visit(moments[i + 1] - moments[i], running);
  }
}

int CountOn(const TaskGraph& graph, const std::vector<size_t>& running, ResourceId resource) {
  return static_cast<int>(std::count_if(running.begin(), running.end(), [&](size_t id) {
    return graph.tasks[id].resource == resource;
  }));
}

}  // namespace

ReferenceTimeline Reference(const TaskGraph& graph) { return ReferenceSimulation(graph).Run(); }

double ReferenceBusyMs(const TaskGraph& graph, const std::vector<Span>& tasks,
                       ResourceId resource) {
  double busy_ms = 0;
  ForEachInterval(tasks, [&](double ms, const std::vector<size_t>& running) {
    if (CountOn(graph, running, resource) > 0) busy_ms += ms;
  });
  return busy_ms;
}

int ReferenceMostAtOnce(const TaskGraph& graph, const std::vector<Span>& tasks,
                        ResourceId resource) {
  int most = 0;
  ForEachInterval(tasks, [&](double, const std::vector<size_t>& running) {
    most = std::max(most, CountOn(graph, running, resource));
  });
  return most;
}

ActivityUse ReferenceActivity(const TaskGraph& graph, const std::vector<Span>& tasks,
                              Activity activity) {
  ActivityUse use;
  ForEachInterval(tasks, [&](double ms, const std::vector<size_t>& running) {
    const auto is_of_it = [&](size_t id) { return graph.tasks[id].activity == activity; };
    if (std::any_of(running.begin(), running.end(), is_of_it)) use.busy_ms += ms;
    const bool is_alone = std::all_of(running.begin(), running.end(), is_of_it);
    if (is_alone && !running.empty()) use.alone_ms += ms;
  });
  return use;
}

}  // namespace ucudnn::simulate
