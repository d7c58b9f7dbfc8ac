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

// Messages that all their devices post together.
struct MessageBatch {
  std::string name;
  std::vector<Message> messages;
};

// A device's batches of one communicator run one after the other, each of them whole, as NCCL runs
// them on one stream. Different communicators are not ordered.
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

// Times of a layer and its followers, by NodeId; 0 for other nodes.
struct NodeTimes {
  double forward_ms = 0;
  double backward_ms = 0;
};

// Returns how long the layers of `schedule` compute on any of their devices. REQUIRES: `schedule`
// was made from `assignment`. A cost model's time is divided equally among the forward pass and
// each gradient that a layer computes.
std::vector<NodeTimes> TimesOf(const Schedule& schedule, const PlanningProblem& problem,
                               const Assignment& assignment);

enum class Overlap {
  kFull,  // messages are posted when their numbers are ready, and awaited where they are needed
  kNone,  // each message is awaited when it is posted, those of sums too
};

// Returns the program of one step: forward, backward, all sums.
StepProgram ProgramOf(const Schedule& schedule, const std::vector<NodeTimes>& times,
                      Overlap overlap);

}  // namespace ucudnn::planner
