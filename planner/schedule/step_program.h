// What each device does in one step, in its own order. Plain values and pure functions.
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

// Messages that every device concerned posts together.
struct MessageBatch {
  std::string name;
  std::vector<Message> messages;
};

// Each has an order of its own: a device's batches of one communicator run one after the other,
// each of them whole, as NCCL runs them on one stream.
enum class Communicator { kExchanges, kSums };
inline constexpr int kCommunicators = 2;

enum class ActionKind { kCompute, kPost, kWait };

struct DeviceAction {
  ActionKind kind = ActionKind::kCompute;
  std::string name;                                      // of a computation
  double ms = 0;                                         // likewise
  int batch = 0;                                         // posted or waited for
  Communicator communicator = Communicator::kExchanges;  // of a batch that is posted
};

struct StepProgram {
  std::vector<MessageBatch> batches;
  std::vector<std::vector<DeviceAction>> devices;
};

// Of a layer, with what follows it; 0 of other nodes. By NodeId.
struct NodeTimes {
  double forward_ms = 0;
  double backward_ms = 0;
};

// How long the layers of `schedule`, which was made of `assignment`, compute on any of their
// devices. A cost model's time is shared alike by the forward pass and each gradient that a layer
// computes.
std::vector<NodeTimes> TimesOf(const Schedule& schedule, const PlanningProblem& problem,
                               const Assignment& assignment);

enum class Overlap {
  kFull,  // messages are posted when their numbers are ready, and waited for where they are needed
  kNone,  // each message is waited for as it is posted, those of sums, too
};

// One step: forward, backward, all sums.
StepProgram ProgramOf(const Schedule& schedule, const std::vector<NodeTimes>& times,
                      Overlap overlap);

}  // namespace ucudnn::planner
