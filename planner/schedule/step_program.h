// The actions of each device in one step, in the device's own order. Plain values and pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/layout/planning_problem.h"
#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

struct Message {
  int from = 0;
  int to = 0;
  int64_t bytes = 0;
};

// Messages that a device posts together. Every device that sends or receives one of them posts the
// batch.
struct MessageBatch {
  std::string name;
  std::vector<Message> messages;
};

// A device runs the batches of one communicator one after the other, each to its end, as NCCL does
// on one stream. Batches of different communicators are not ordered.
enum class Communicator { kExchanges, kSums };
inline constexpr int kCommunicators = 2;

enum class ActionKind { kCompute, kPost, kWait };

struct DeviceAction {
  ActionKind kind = ActionKind::kCompute;
  std::string name;                                      // for a computation
  double ms = 0;                                         // for a computation
  int batch = 0;                                         // batch that is posted or waited for
  Communicator communicator = Communicator::kExchanges;  // for a batch that is posted
};

struct StepProgram {
  std::vector<MessageBatch> batches;
  std::vector<std::vector<DeviceAction>> devices;
};

// Times of a layer and its followers. NodeTimes of nodes that are no layers are 0.
struct NodeTimes {
  double forward_ms = 0;
  double backward_ms = 0;
};

// Returns by NodeId how long the layers of `schedule` compute on each of their devices. The cost
// model's time is divided equally among the forward pass and each gradient that a layer computes.
// REQUIRES: `schedule` was made from `assignment`.
std::vector<NodeTimes> TimesOf(const Schedule& schedule, const PlanningProblem& problem,
                               const Assignment& assignment);

enum class StepOverlap {
  kFull,  // a message is posted when its numbers are ready, and awaited where it is needed
  kNone,  // every message is awaited where it is posted
};

// Returns the program of one step: the forward pass, the backward pass and all sums.
StepProgram ProgramOf(const Schedule& schedule, const std::vector<NodeTimes>& times,
                      StepOverlap overlap);

}  // namespace ucudnn::planner
