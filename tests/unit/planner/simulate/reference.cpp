#include "tests/unit/planner/simulate/reference.h"

#include <algorithm>
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

  // Ends and begins tasks at the present time until nothing changes any more. A task that uses no
  // resource begins as soon as it is ready. A task without duration ends at the time at which it
  // begins.
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

}  // namespace

ReferenceTimeline Reference(const TaskGraph& graph) { return ReferenceSimulation(graph).Run(); }

}  // namespace ucudnn::simulate
