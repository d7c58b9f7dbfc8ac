// Compares simulated steps with closed forms, and tests orders of messages that stall.
#include "planner/schedule/simulate_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/machine/presets.h"
#include "planner/schedule/elements.h"
#include "tests/unit/planner/made_machine.h"
#include "tests/unit/planner/schedule/made_schedules.h"

namespace ucudnn::planner {
namespace {

using ::testing::HasSubstr;

DeviceAction Computes(double ms) { return {ActionKind::kCompute, "work", ms}; }
DeviceAction Posts(int batch, Communicator communicator = Communicator::kExchanges) {
  return {ActionKind::kPost, "", 0, batch, communicator};
}
DeviceAction Waits(int batch) { return {ActionKind::kWait, "", 0, batch}; }

constexpr int64_t kMegabyte = 1'000'000;  // takes 1 ms at 1 GB/s

// Rank 0 sends to 1 and then to 2, rank 1 receives from 2 and then from 0, and rank 2 receives from
// 0 and then sends to 1. Each rank waits for another one, so no message can begin, although the two
// ranks of each pair agree on the order of their messages.
TEST(SimulateStep, RefusesThreeRanksWhosePairsAgreeAndWhoStall) {
  StepProgram program;
  program.batches = {{"a", {{0, 1, 1}}}, {"b", {{0, 2, 1}}}, {"c", {{2, 1, 1}}}};
  program.devices = {{Posts(0), Posts(1)}, {Posts(2), Posts(0)}, {Posts(1), Posts(2)}};
  const auto stalled = SimulateStep(program, FlatMachine(3));
  ASSERT_FALSE(stalled.ok());
  EXPECT_THAT(stalled.message(), HasSubstr("the devices' orders stall: "));
  EXPECT_THAT(stalled.message(), HasSubstr("a on device 0"));
  // If all ranks follow one order of all messages, they do not stall.
  program.devices = {{Posts(0), Posts(1)}, {Posts(0), Posts(2)}, {Posts(1), Posts(2)}};
  EXPECT_TRUE(SimulateStep(program, FlatMachine(3)).ok());
  // Messages of two communicators do not block each other.
  program.devices = {{Posts(0), Posts(1)},
                     {Posts(2, Communicator::kSums), Posts(0)},
                     {Posts(1), Posts(2, Communicator::kSums)}};
  EXPECT_TRUE(SimulateStep(program, FlatMachine(3)).ok());
}

TEST(SimulateStep, MessagesRunWhileDevicesCompute) {
  const Machine machine = MadeMachine({{"bus", 2, 1, 0}});
  StepProgram program;
  program.batches = {{"a", {{0, 1, 3 * kMegabyte}}}};
  program.devices = {{Posts(0), Computes(5)}, {Posts(0), Computes(1), Waits(0), Computes(1)}};
  EXPECT_DOUBLE_EQ(SimulateStep(program, machine)->makespan_ms, 5);
  program.devices[0] = {Computes(2), Posts(0)};
  // Device 0 computes for 2 ms, the message takes 3 ms, and device 1 computes for 1 ms.
  EXPECT_DOUBLE_EQ(SimulateStep(program, machine)->makespan_ms, 6);
}

TEST(SimulateStep, MessagesShareThePortsOfTheLevelsBetweenThem) {
  // There are two nodes of two devices. Links between devices of a node have 8 GB/s. The link
  // between nodes has 1 GB/s and a latency of half a millisecond.
  const Machine machine = MadeMachine({{"inner", 2, 8, 0}, {"outer", 2, 1, 500}});
  StepProgram program;
  program.batches = {{"a", {{0, 2, kMegabyte}, {1, 3, kMegabyte}}}};
  program.devices = {{Posts(0)}, {Posts(0)}, {Posts(0)}, {Posts(0)}};
  EXPECT_DOUBLE_EQ(SimulateStep(program, machine)->makespan_ms, 2.5);
  program.batches[0].messages[1] = {2, 1, kMegabyte};  // each direction has its own ports
  EXPECT_DOUBLE_EQ(SimulateStep(program, machine)->makespan_ms, 1.5);
  program.batches[0].messages = {{0, 1, kMegabyte}};
  program.devices = {{Posts(0)}, {Posts(0)}, {}, {}};
  EXPECT_DOUBLE_EQ(SimulateStep(program, machine)->makespan_ms, 1.0 / 8);
}

// Without overlap and latency, and with equal parts, a step takes the time of DeePa's equation 1.
TEST(SimulateStep, OfAChainWithoutOverlapIsEquation1) {
  const Machine machine = MadeMachine({{"bus", 4, 2, 0}});
  GraphBuilder net("chain");
  NodeId last = net.Add("data", Input{4, {1, 16, 16}}, {});
  last = net.Add("conv", Convolution{8, {1, 1, 1}}, {last});
  last = net.Add("fc6", FullyConnected{64}, {last});
  net.Add("fc7", FullyConnected{32}, {last});
  const Graph graph = *net.Build();
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kOwner, roofline);
  PlanningOptions options;
  options.update = UpdateModel::kOwner;
  Planned planned{
      graph, machine, *BuildPlanningProblem(*BuildLayerGraph(graph, 8), 4, model, options), {}};
  for (const Strategy strategy : {Strategy::kImage, Strategy::kOwt}) {
    const auto layout = MakeLayout(planned.problem, 4, strategy);
    ASSERT_TRUE(layout.ok()) << layout.message();
    planned.assignment = layout->assignment;
    Result<Schedule> schedule = planned.Scheduled();
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    schedule->statistics.clear();  // equation 1 leaves statistics out
    std::erase_if(schedule->order,
                  [](const ScheduledStep& step) { return step.kind == StepKind::kStatistics; });
    const auto times = TimesOf(*schedule, planned.problem, planned.assignment);
    const auto step = SimulateStep(ProgramOf(*schedule, times, StepOverlap::kNone), machine);
    ASSERT_TRUE(step.ok()) << step.message();
    EXPECT_NEAR(step->makespan_ms, layout->cost.total_ms, 1e-9 * layout->cost.total_ms);
    const auto overlapped = SimulateStep(ProgramOf(*schedule, times, StepOverlap::kFull), machine);
    ASSERT_TRUE(overlapped.ok()) << overlapped.message();
    EXPECT_LE(overlapped->makespan_ms, step->makespan_ms);
    EXPECT_GE(overlapped->makespan_ms, layout->cost.compute_ms);
  }
}

// With any plan, schedules never stall, because all devices follow one order of all exchanges. A
// step is at least as long as the computing of each of its devices.
TEST(SimulateStep, NoScheduleStalls) {
  std::mt19937 random(41);
  const Machine machine = MadeMachine({{"inner", 3, 8, 2}, {"outer", 2, 1, 20}});
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  Planned planned = Pose(ManyOperators(), 8, machine, options);
  int simulated = 0;
  for (int trial = 0; trial < 40; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const auto update = trial % 2 == 0 ? UpdateModel::kOwner : UpdateModel::kHierarchical;
    const Result<Schedule> schedule = planned.Scheduled({update});
    if (!schedule.ok()) continue;
    const auto times = TimesOf(*schedule, planned.problem, planned.assignment);
    const StepProgram program = ProgramOf(*schedule, times, StepOverlap::kFull);
    const auto with = SimulateStep(program, machine);
    const auto without = SimulateStep(ProgramOf(*schedule, times, StepOverlap::kNone), machine);
    ASSERT_TRUE(with.ok() && without.ok()) << with.message() << without.message();
    double most = 0;
    for (const auto& device : program.devices) {
      double ms = 0;
      for (const DeviceAction& action : device) ms += action.ms;
      most = std::max(most, ms);
    }
    EXPECT_GE(with->makespan_ms, most * (1 - 1e-12)) << trial;
    ++simulated;
  }
  EXPECT_GE(simulated, 20);
}

// The messages of a program must have as many bytes as the schedule moves.
TEST(SimulateStep, ProgramsMoveWhatSchedulesDo) {
  for (const char scheme : {'a', 'b', 'c'}) {
    Planned planned = Pose(*BuildNetwork("alexnet"), 64, *MachineByName("k20x8"));
    const auto layout = MakeLayout(planned.problem, 8, Strategy::kOwt);
    ASSERT_TRUE(layout.ok()) << layout.message();
    planned.assignment = layout->assignment;
    ScheduleOptions options;
    options.scheme = scheme;
    const Result<Schedule> schedule = planned.Scheduled(options);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    const std::vector<NodeTimes> times(schedule->nodes.size(), NodeTimes{1, 2});
    for (const StepOverlap overlap : {StepOverlap::kFull, StepOverlap::kNone}) {
      const StepProgram program = ProgramOf(*schedule, times, overlap);
      int64_t bytes = 0;
      for (const MessageBatch& batch : program.batches) {
        for (const Message& message : batch.messages) bytes += message.bytes;
      }
      const ScheduleElements elements = ElementsOf(*schedule);
      EXPECT_EQ(bytes, 4 * (elements.transfer + elements.update + elements.statistics)) << scheme;
      // Every device computes each of its nodes once forward (1 ms) and once backward (2 ms).
      for (size_t device = 0; device < program.devices.size(); ++device) {
        double ms = 0;
        for (const DeviceAction& action : program.devices[device]) ms += action.ms;
        int nodes = 0;
        for (const ScheduledNode& node : schedule->nodes) {
          for (const DeviceBox& one : node.boxes) {
            nodes += !node.IsInput() && one.device == static_cast<int>(device) ? 1 : 0;
          }
        }
        EXPECT_NEAR(ms, 3 * nodes, 1e-9 * nodes) << scheme << " device " << device;
      }
      const auto step = SimulateStep(program, planned.machine);
      EXPECT_TRUE(step.ok()) << step.message();
    }
  }
}

}  // namespace
}  // namespace ucudnn::planner
