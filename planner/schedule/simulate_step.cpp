#include "planner/schedule/simulate_step.h"

#include <map>
#include <string>
#include <utility>

#include "planner/simulate/task_graph.h"

namespace ucudnn::planner {
namespace {

// Builds and simulates the tasks of one program on one machine.
class StepTasks {
 public:
  StepTasks(const StepProgram& program, const Machine& machine)
      : program_(program),
        machine_(machine),
        begins_(program.batches.size()),
        ends_(program.batches.size()) {}

  Result<simulate::Timeline> Simulate() {
    for (size_t level = 0; level < machine_.levels.size(); ++level) {
      const int size = machine_.PortDevices(static_cast<int>(level));
      ports_.push_back(static_cast<int>(graph_.resources.size()));
      for (int port = 0; port < machine_.Devices() / size; ++port) {
        const std::string name = machine_.levels[level].name + " port " + std::to_string(port);
        graph_.AddResource(name + ", out");
        graph_.AddResource(name + ", in");
      }
    }
    for (size_t device = 0; device < program_.devices.size(); ++device) {
      AddDevice(static_cast<int>(device));
    }
    for (size_t batch = 0; batch < program_.batches.size(); ++batch) AddMessages(batch);
    Result<simulate::Timeline> timeline = simulate::Simulate(graph_);
    if (!timeline.ok()) {
      return Status::Error("the devices' orders stall: " + timeline.message());
    }
    return timeline;
  }

 private:
  void AddDevice(int device) {
    const std::string called = "device " + std::to_string(device);
    const simulate::QueueId computes = graph_.AddQueue(called);
    std::vector<simulate::QueueId> streams;
    for (int communicator = 0; communicator < kCommunicators; ++communicator) {
      streams.push_back(graph_.AddQueue(called + ", communicator " + std::to_string(communicator)));
    }
    // The last task of the device's computations and waits.
    simulate::TaskId last = simulate::kNone;
    for (const DeviceAction& action : program_.devices[static_cast<size_t>(device)]) {
      if (action.kind == ActionKind::kCompute) {
        last = graph_.Add({.name = action.name, .duration_ms = action.ms, .queue = computes});
        continue;
      }
      const auto batch = static_cast<size_t>(action.batch);
      const std::string name = program_.batches[batch].name + " on " + called;
      if (action.kind == ActionKind::kWait) {
        last = graph_.Add(
            {.name = "wait for " + name, .queue = computes, .after = {ends_[batch].at(device)}});
        continue;
      }
      const simulate::QueueId stream = streams[static_cast<size_t>(action.communicator)];
      simulate::Task begin = {.name = "begin of " + name, .queue = stream};
      if (last != simulate::kNone) begin.after.push_back(last);
      begins_[batch][device] = graph_.Add(std::move(begin));
      ends_[batch][device] = graph_.Add({.name = "end of " + name, .queue = stream});
    }
  }

  void AddMessages(size_t batch) {
    for (const auto& [from, to, bytes] : program_.batches[batch].messages) {
      const std::vector<simulate::TaskId> begins = {begins_[batch].at(from), begins_[batch].at(to)};
      const int joining = machine_.JoiningLevel(from, to);
      simulate::Task arrival = {
          .name = program_.batches[batch].name + " from " + std::to_string(from) + " to " +
                  std::to_string(to),
          .duration_ms = machine_.levels[static_cast<size_t>(joining)].latency_us * 1e-3};
      for (int level = 0; level <= joining; ++level) {
        const int size = machine_.PortDevices(level);
        const double rate = machine_.levels[static_cast<size_t>(level)].gb_per_s * 1e6;
        const int ports = ports_[static_cast<size_t>(level)];
        for (const int port : {2 * (from / size), 2 * (to / size) + 1}) {
          arrival.after.push_back(graph_.Add({.name = arrival.name,
                                              .duration_ms = static_cast<double>(bytes) / rate,
                                              .resource = ports + port,
                                              .after = begins}));
        }
      }
      const simulate::TaskId arrived = graph_.Add(std::move(arrival));
      for (const int device : {from, to}) {
        graph_.tasks[static_cast<size_t>(ends_[batch].at(device))].after.push_back(arrived);
      }
    }
  }

  const StepProgram& program_;
  const Machine& machine_;
  simulate::TaskGraph graph_;
  std::vector<simulate::ResourceId> ports_;              // first port of each level
  std::vector<std::map<int, simulate::TaskId>> begins_;  // by batch and device
  std::vector<std::map<int, simulate::TaskId>> ends_;
};

}  // namespace

Result<simulate::Timeline> SimulateStep(const StepProgram& program, const Machine& machine) {
  return StepTasks(program, machine).Simulate();
}

}  // namespace ucudnn::planner
