// Compares modelled solves on devices with schedules worked out by hand, and with general bounds.
// In the comments, F is F-relaxation, and Advance is LayerSystem::Advance, which computes a value
// for each C-point by the step before it. Unless stated, a layer takes 1 ms, a message 0.25 ms, and
// there are 8 layers, two devices and levels with c = 2.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <span>
#include <vector>

#include "planner/machine/presets.h"
#include "planner/multigrid/analysis/network_model.h"
#include "tests/support/must.h"
#include "tests/unit/planner/multigrid/unit_times.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

constexpr double kTiny = 1e-6;  // tolerance in ms, for the time of a message beyond its latency

struct Made {
  NetworkLayers layers;
  planner::Machine machine;
  UnitTimes times;

  Made(int steps, double latency_ms, int devices, bool one_at_a_time)
      : layers(PlainLayers(steps)),
        machine(LatencyMachine(latency_ms, devices, one_at_a_time ? 1 : 128)),
        times(one_at_a_time ? 1 : 1.0 / 1024) {}

  NetworkModel model() const { return {layers, times, machine}; }
};

MultigridSetting Setting(int coarsening, int levels, int c_sweeps, int cycles) {
  return {.coarsening = {coarsening}, .levels = levels, .c_sweeps = {c_sweeps}, .cycles = cycles};
}

ModelledRun Modelled(const Made& made, const MultigridSetting& setting, int devices,
                     Workload workload = Workload::kInference) {
  const NetworkModel model = made.model();
  return test::Must(
      test::Must(MultigridModel::Make(model, setting)).Run(workload, devices, setting));
}

TEST(AnalysisSchedules, SerialPropagationIsTheSumOfItsLayers) {
  const Made made(8, 0.25, 2, true);
  const NetworkModel model = made.model();
  EXPECT_DOUBLE_EQ(model.Serial(Workload::kInference, Launching::kEach)->ms, 8);
  // Training adds the adjoints and the gradients of all layers (8 ms each) and one update (1 ms).
  EXPECT_DOUBLE_EQ(model.Serial(Workload::kTraining, Launching::kEach)->ms, 8 + 8 + 8 + 1);
}

TEST(AnalysisSchedules, APartitionRunsSeriallyAndSendsAStatePerBoundary) {
  const Made made(8, 0.25, 4, true);
  const NetworkModel model = made.model();
  const auto inference = model.Partitioned(Workload::kInference, 4);
  EXPECT_NEAR(inference->ms, 8 + 3 * 0.25, kTiny);
  EXPECT_EQ(inference->messages, 3);
  EXPECT_NEAR(inference->computing_share, 2 / (8 + 3 * 0.25), kTiny);
  EXPECT_NEAR(inference->message_path_ms, 3 * 0.25, kTiny);
  // Training runs forward (with messages) and backward, and ends with the first device's update.
  const auto training = model.Partitioned(Workload::kTraining, 4);
  EXPECT_NEAR(training->ms, 8 + 2 * 8 + 6 * 0.25 + 1, kTiny);
}

// Each device has 2 of the 4 blocks. The first state reaches device 1 at 0.25 ms. The devices are
// busy in these ms:
//                                               device 0   device 1
//   F, Advance and a coarse step of each block  0..6       0.25..6.25
//   coarse steps in a row, with a message       6..8       8.25..10.25
//   F of each block                             8..10      10.25..12.25
TEST(AnalysisSchedules, OneCycleOfFRelaxationOnDevicesThatRunOneBlockAtATime) {
  const ModelledRun run = Modelled({8, 0.25, 2, true}, Setting(2, 2, 0, 1), 2);
  EXPECT_NEAR(run.ms, 12.25, kTiny);
  EXPECT_EQ(run.messages, 2);
  EXPECT_NEAR(run.computing_share, (10 + 10) / (2 * 12.25), kTiny);
}

// The phases are those of the test above, but all blocks of a device run at the same time. Device 0
// is busy in 0..3, 3..5 and 5..6 ms, and device 1 in 0.25..3.25, 5.25..7.25 and 7.25..8.25 ms.
TEST(AnalysisSchedules, OneCycleOfFRelaxationOnDevicesThatRunAllBlocksAtOnce) {
  EXPECT_NEAR(Modelled({8, 0.25, 2, false}, Setting(2, 2, 0, 1), 2).ms, 8.25, kTiny);
}

// If each device has only one stream, the blocks of a device run one after the other, and a cycle
// takes 12.25 ms as above. With kGrouped, all blocks are in one stream anyway, so the number of
// streams does not matter.
TEST(AnalysisSchedules, AStreamRunsItsBlocksOneAfterTheOther) {
  const Made made(8, 0.25, 2, false);
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.streams = 1;
  EXPECT_NEAR(Modelled(made, setting, 2).ms, 12.25, kTiny);
  setting.blocks = BlocksAtOnce::kGrouped;
  const double grouped_ms = Modelled(made, setting, 2).ms;
  setting.streams = 2;
  EXPECT_EQ(Modelled(made, setting, 2).ms, grouped_ms);
}

// Devices run one block at a time and are busy in these ms:
//                             device 0   device 1
//   F and Advance             0..4       0.25..4.25   (device 0 sends block 1's state at 2)
//   F, Advance, coarse step   4..10      4.25..10.25
//   coarse steps              10..12     12.25..14.25
//   F                         12..14     14.25..16.25
TEST(AnalysisSchedules, OneCycleOfFcfRelaxationSendsOneMoreState) {
  const ModelledRun run = Modelled({8, 0.25, 2, true}, Setting(2, 2, 1, 1), 2);
  EXPECT_NEAR(run.ms, 16.25, kTiny);
  EXPECT_EQ(run.messages, 3);
}

// Devices run one block at a time and are busy in these ms:
//                           device 0   device 1
//   Advance, coarse step    0..4       0.25..4.25
//   coarse steps            4..6       6.25..8.25
//   F                       6..8       8.25..10.25
TEST(AnalysisSchedules, AFirstCycleMayGoDownWithoutRelaxation) {
  MultigridSetting setting = Setting(2, 2, 1, 1);
  setting.skips_first_down = true;
  const ModelledRun run = Modelled({8, 0.25, 2, true}, setting, 2);
  EXPECT_NEAR(run.ms, 10.25, kTiny);
  EXPECT_EQ(run.messages, 2);
}

// F-points of the finest level are not kept, so the adjoint and the gradients compute them again.
// The devices are busy in these ms:
//                                                            device 0     device 1
//   forward: Advance through each block, with a coarse step  0..6         0.25..6.25
//            coarse steps                                    6..8         8.25..10.25
//   adjoint: a state of each block again, Advance, and a
//            coarse step                                     10.5..18.5   10.25..18.25
//            coarse steps                                    20.5..22.5   18.25..20.25
// Device 0 then takes 8 ms until 30.5: for the gradients of 4 layers, and to compute again a state
// and an adjoint of each of its 2 blocks. The update follows.
TEST(AnalysisSchedules, StatesThatAreNotKeptAreComputedAgain) {
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.storage = Storage::kCPoints;
  const Made made(8, 0.25, 2, true);
  EXPECT_NEAR(Modelled(made, setting, 2).ms, 10.25, kTiny);
  const ModelledRun training = Modelled(made, setting, 2, Workload::kTraining);
  EXPECT_NEAR(training.ms, 30.5 + 1, kTiny);
  // A device holds half of the 6 + 2 * 4 states, and in training as many adjoints. The device's
  // only stream also holds a state and an adjoint that were computed again.
  EXPECT_EQ(Modelled(made, setting, 2).memory_bytes, 4 * 40 + 28);
  EXPECT_EQ(training.memory_bytes, 4 * (3 * 40 + 4 * 3) + 2 * 28 + 2 * 4);
}

class CountingChain : public HostChain {
 public:
  using HostChain::HostChain;
  Status Step(int level, int step, State from, State to, int lane) override {
    ++steps;
    return HostChain::Step(level, step, from, to, lane);
  }

  int64_t steps = 0;
};

// A layer takes 1 ms and a message no time, so the time on one device is the number of steps.
TEST(AnalysisSchedules, AModelledSolveTakesTheStepsOfARealOne) {
  constexpr int kSteps = 32;
  const Made made(kSteps, 0, 1, true);
  const WeightedChain chain = DrawCase(29, {.steps = kSteps, .extent = 4}, 1, 0.5).chain;
  for (int draw = 0; draw < 16; ++draw) {
    MultigridSetting setting = Setting(4, draw % 2 == 0 ? 2 : 3, draw / 2 % 2, 2);
    setting.skips_first_down = draw / 4 % 2 == 1;
    setting.storage = draw / 8 == 0 ? Storage::kAll : Storage::kCPoints;
    SCOPED_TRACE(draw);
    HostSolve host(chain, {.levels = setting.levels, .h = 0.03, .storage = setting.storage});
    const SolveOptions options = {.c_sweeps = setting.c_sweeps,
                                  .skips_first_down = setting.skips_first_down,
                                  .measures_cycles = false};
    CountingChain states(host.stage(), host.hierarchy(), setting.coarse, 0.03);
    BlockSystem forward = test::Must(BlockSystem::Make(states, host.hierarchy(), host.lanes(),
                                                       setting.storage, host.system().first()));
    ASSERT_TRUE(Solve(forward, host.hierarchy(), options).ok());
    const double inference_ms = Modelled(made, setting, 1).ms;
    EXPECT_NEAR(inference_ms, static_cast<double>(states.steps), kTiny);

    Trajectory trajectory =
        test::Must(Trajectory::Make(forward, host.hierarchy(), host.propagator(), 1));
    CountingChain adjoints(host.stage(), host.mirrored(), setting.coarse, 0.03);
    adjoints.LineariseAt(trajectory);
    BlockSystem adjoint = test::Must(BlockSystem::Make(adjoints, host.mirrored(), host.lanes(),
                                                       setting.storage, forward.last()));
    states.steps = 0;
    ASSERT_TRUE(Solve(adjoint, host.mirrored(), options).ok());
    Trajectory solved = test::Must(Trajectory::Make(adjoint, host.mirrored(), adjoints, 1));
    for (int layer = 0; layer < kSteps; ++layer) {
      test::Must(trajectory.At(layer, 0));
      test::Must(solved.At(kSteps - 1 - layer, 0));
    }
    // Training adds the gradient of each layer, and one update.
    EXPECT_NEAR(Modelled(made, setting, 1, Workload::kTraining).ms - inference_ms,
                static_cast<double>(states.steps + adjoints.steps + kSteps + 1), kTiny);
  }
}

// Passes all calls on to `system`, and RelaxF twice.
class RelaxingTwice : public LayerSystem {
 public:
  explicit RelaxingTwice(LayerSystem& system) : system_(system) {}

  Status Broadcast() override { return system_.Broadcast(); }
  Status StepLead(int level, Source source) override { return system_.StepLead(level, source); }
  Status RelaxF(int level, Source source) override {
    UCUDNN_RETURN_IF_ERROR(system_.RelaxF(level, source));
    return system_.RelaxF(level, source);
  }
  Status Advance(int level) override { return system_.Advance(level); }
  Status RelaxC(int level) override { return system_.RelaxC(level); }
  Status Restrict(int level) override { return system_.Restrict(level); }
  Status SolveSerially(int level, Source source) override {
    return system_.SolveSerially(level, source);
  }
  Status Correct(int level) override { return system_.Correct(level); }
  Status RunCycle(int kind, const std::function<Status()>& cycle) override {
    return system_.RunCycle(kind, cycle);
  }
  Result<std::span<const double>> Parts(NormParts parts) override { return system_.Parts(parts); }
  double UnitRoundoff() const override { return system_.UnitRoundoff(); }

 private:
  LayerSystem& system_;
};

// If the solver's cycle changes, the model of a solve changes with it. With c = 2, a cycle of F on
// 8 steps has 20 steps: 4 of F, 4 of Advance, 4 for right sides, 4 coarse steps, and 4 of F.
// RelaxingTwice adds 4 + 4 steps.
TEST(AnalysisSchedules, AChangedDescentChangesTheModel) {
  constexpr int kExpected = 20 + 8;
  const SolveOptions options = {.c_sweeps = {0}, .cycles = 1, .measures_cycles = false};
  const WeightedChain chain = DrawCase(29, {.steps = 8, .extent = 4}, 1, 0.5).chain;
  HostSolve host(chain, {.coarsening = {2}, .levels = 2, .h = 0.03});
  CountingChain states(host.stage(), host.hierarchy(), CoarseOperator::kInject, 0.03);
  BlockSystem forward = test::Must(BlockSystem::Make(states, host.hierarchy(), host.lanes(),
                                                     Storage::kAll, host.system().first()));
  RelaxingTwice real(forward);
  ASSERT_TRUE(RunCycles(real, host.hierarchy(), options).ok());
  EXPECT_EQ(states.steps, kExpected);

  const Made made(8, 0, 1, true);
  const LevelCosts costs(made.times, LayerPass::kForward, std::vector<int>(8, 0), host.hierarchy(),
                         CoarseOperator::kInject);
  Cluster cluster(made.machine, 1, Launching::kEach);
  SolveTasks tasks(cluster, made.machine.device, costs, Setting(2, 2, 0, 1), 4, BlockRuns{{0, 4}});
  RelaxingTwice modelled(tasks);
  ASSERT_TRUE(RunCycles(modelled, host.hierarchy(), options).ok());
  ASSERT_TRUE(tasks.Advance(1).ok());  // only after another call the last F-relaxation counts
  EXPECT_NEAR(test::Must(cluster.Simulate()).makespan_ms, kExpected, kTiny);
}

// The levels have 16, 8 and 4 steps. With FCF instead of F only on level 1, that level has one more
// F and one more Advance.
TEST(AnalysisSchedules, LevelsMayHaveDifferentRelaxations) {
  MultigridSetting setting = Setting(2, 3, 0, 1);
  // The sum has F, Advance and right sides on level 0 (8 each) and on level 1 (4 each), the 4 steps
  // of level 2, and F on level 1 (4) and on level 0 (8).
  EXPECT_NEAR(Modelled({16, 0, 1, true}, setting, 1).ms, 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4 + 8, kTiny);
  setting.c_sweeps = {0, 1};
  EXPECT_NEAR(Modelled({16, 0, 1, true}, setting, 1).ms, 52 + 4 + 4, kTiny);
}

// Three devices run 4 blocks each, one block at a time, and a message takes 12 ms.
//   Devices 1 and 2 receive the first state at 12, and F and Advance take 12..20.
//   Device 1 runs its last block first and sends that block's state at 14, to device 2 at 26.
//   Device 2 runs the three blocks that do not need this state in 20..29, and then its first block
//   in 29..32.
//   The coarse solve on device 0 takes 44..56, its states reach device 2 at 68, and F takes 68..72.
TEST(AnalysisSchedules, AStateIsSentBeforeTheOtherBlocksAreRelaxed) {
  MultigridSetting setting = Setting(2, 2, 1, 1);
  setting.place = CoarsePlace::kCoarsestOnOne;
  EXPECT_NEAR(Modelled({24, 12, 3, true}, setting, 3).ms, 72, kTiny);
}

TEST(AnalysisSchedules, CoarseLevelsMayGoToOneDevice) {
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.place = CoarsePlace::kCoarsestOnOne;
  // F, Advance and coarse steps end at 6 on device 0 and at 6.25 on device 1. Two right-hand sides
  // reach device 0 at 6.5, and its 4 coarse steps end at 10.5. The states reach device 1 at 10.75.
  // F ends at 12.5 on device 0 and at 12.75 on device 1.
  EXPECT_NEAR(Modelled({8, 0.25, 2, true}, setting, 2).ms, 12.75, kTiny);
}

// One cycle of FCF on one device that runs one block at a time. The levels have 8, 4 and 2 layers.
// The parts of the cycle take these times, in ms:
//   level 0: F and Advance of 4 blocks take 8; a second F and Advance and 4 coarse steps take 12
//   level 1: F and Advance of 2 blocks take 4; a second F and Advance and 2 coarse steps take 6
//   level 2: the solve takes 2
//   on the way up: F takes 2 on level 1 and 4 on level 0
TEST(AnalysisSchedules, CoarserLevelsAreRelaxedOnTheWayUpToo) {
  EXPECT_NEAR(Modelled({8, 0.25, 2, true}, Setting(2, 3, 1, 1), 1).ms, 8 + 12 + 4 + 6 + 2 + 2 + 4,
              kTiny);
}

// The F that ends the first cycle is also the first F of the second cycle.
TEST(AnalysisSchedules, CyclesShareARelaxation) {
  const Made made(8, 0.25, 2, true);
  const double one = Modelled(made, Setting(2, 2, 0, 1), 1).ms;
  const double two = Modelled(made, Setting(2, 2, 0, 2), 1).ms;
  EXPECT_NEAR(one, 12 + 4 + 4, kTiny);
  EXPECT_NEAR(two - one, 12 + 4, kTiny);
}

TEST(AnalysisSchedules, ANestedStartIsACoarseSolveInPlaceOfABroadcast) {
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.start = Start::kNested;
  // First the coarse steps take 0..2 on device 0 and 2.25..4.25 on device 1. Then the phases follow
  // as after a broadcast: device 0 is busy in 2..8, 8..10 and 10..12 ms, and device 1 in
  // 4.25..10.25, 10.25..12.25 and 12.25..14.25 ms.
  EXPECT_NEAR(Modelled({8, 0.25, 2, true}, setting, 2).ms, 14.25, kTiny);
}

TEST(AnalysisSchedules, AMeasuredResidualHoldsUpAllDevices) {
  // Until the last F, the phases are the same as without measuring. The last F and the Advance that
  // measuring adds take 8..12 on device 0 and 10.25..14.25 on device 1. Then device 1 sends its sum
  // to device 0, which sends the total back.
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.measures_residuals = true;
  EXPECT_NEAR(Modelled({8, 0.25, 2, true}, setting, 2).ms, 14.25 + 0.25 + 0.25, kTiny);
}

TEST(AnalysisSchedules, TrainingAddsTheAdjointGradientsAndAnUpdate) {
  const Made made(8, 0.25, 2, true);
  const MultigridSetting setting = Setting(2, 2, 0, 1);
  const double forward = Modelled(made, setting, 2).ms;
  // The adjoint solve begins on device 1 and takes as long as the forward solve. Device 0 ends it
  // last, then computes the gradients of its 4 layers and updates their parameters in 1 ms.
  EXPECT_NEAR(Modelled(made, setting, 2, Workload::kTraining).ms, 2 * forward + 4 + 1, kTiny);
}

TEST(AnalysisSchedules, LaunchesTakeTheHostsTimeUnlessCaptured) {
  Made made(8, 0.25, 2, false);
  made.machine.device.launch_us = 2000;
  // 8 launches take 2 ms each. Each kernel ends before the next launch does.
  EXPECT_NEAR(made.model().Serial(Workload::kInference, Launching::kEach)->ms, 16, kTiny);
  EXPECT_NEAR(made.model().Serial(Workload::kInference, Launching::kCaptured)->ms, 2 + 8, kTiny);
  MultigridSetting setting = Setting(2, 2, 0, 1);
  setting.launching = Launching::kCaptured;
  const double captured = Modelled(made, setting, 1).ms;
  setting.launching = Launching::kEach;
  // One launch fills the states. Then follow 3 launches for each of 4 blocks (F, Advance and a
  // coarse step), 4 launches for the coarse steps, and 4 launches for the last F-relaxation. The
  // last kernel runs for 1 ms after its launch.
  EXPECT_NEAR(Modelled(made, setting, 1).ms, 2 * (1 + 12 + 4 + 4) + 1, kTiny);
  // The graphs of the start and of the cycle are launched one after the other, in 2 ms each. The
  // start runs during the second launch. The cycle then takes 3 + 4 + 1 ms.
  EXPECT_NEAR(captured, 2 + 2 + 3 + 4 + 1, kTiny);
}

TEST(AnalysisSchedules, MemoryIsThatOfTheDeviceWithMost) {
  const Made made(8, 0.25, 2, true);
  const NetworkModel model = made.model();
  // In fp32: 10 parameters for each of 8 layers, and two states of one number.
  EXPECT_EQ(model.Serial(Workload::kInference, Launching::kEach)->memory_bytes, 4 * (80 + 2));
  // In training: 80 weights, gradients and velocities, 3 numbers that each layer keeps, and a state
  // for each layer.
  EXPECT_EQ(model.Serial(Workload::kTraining, Launching::kEach)->memory_bytes,
            4 * (3 * 80 + 8 * 3 + 8));
  EXPECT_EQ(model.Partitioned(Workload::kInference, 2)->memory_bytes, 4 * (40 + 2));
  // A device holds half of the 9 + 2 * 4 states.
  EXPECT_EQ(Modelled(made, Setting(2, 2, 0, 1), 2).memory_bytes, 4 * 40 + 34);
}

// With numbers of two bytes, training holds for each of 80 parameters a weight and a gradient of
// two bytes, and also a weight, a gradient and a velocity in fp32.
TEST(AnalysisSchedules, NumbersOfTwoBytesTakeHalfOfTheMemoryExceptInUpdates) {
  Made made(8, 0.25, 2, true);
  made.layers.element_bytes = 2;
  const NetworkModel model = made.model();
  EXPECT_EQ(model.Serial(Workload::kInference, Launching::kEach)->memory_bytes, 2 * (80 + 2));
  EXPECT_EQ(model.Serial(Workload::kTraining, Launching::kEach)->memory_bytes,
            (2 + 2 + 4 + 4 + 4) * 80 + 2 * (8 * 3 + 8));
}

TEST(AnalysisSchedules, NothingTakesLessThanItsBound) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int models = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const int steps = pick(8, 200);
    MultigridSetting setting = Setting(pick(2, 4), pick(2, 3), pick(0, 2), pick(1, 3));
    setting.c_sweeps.push_back(pick(0, 2));
    setting.skips_first_down = pick(0, 3) == 0;
    setting.coarse = pick(0, 1) == 0 ? CoarseOperator::kInject : CoarseOperator::kSum;
    setting.start = pick(0, 1) == 0 ? Start::kBroadcast : Start::kNested;
    setting.blocks = pick(0, 1) == 0 ? BlocksAtOnce::kStreams : BlocksAtOnce::kGrouped;
    if (setting.blocks == BlocksAtOnce::kStreams && pick(0, 1) == 0) {
      setting.storage = Storage::kCPoints;
    }
    setting.place = static_cast<CoarsePlace>(pick(0, 2));
    setting.measures_residuals = pick(0, 1) == 0;
    setting.launching = Launching::kCaptured;
    const Made made(steps, pick(0, 3) / 4.0, 16, pick(0, 1) == 0);
    const NetworkModel model = made.model();
    const auto multigrid = MultigridModel::Make(model, setting);
    if (!multigrid.ok()) continue;
    ++models;
    const int devices = pick(1, std::min(16, multigrid->MostDevices()));
    for (const Workload workload : {Workload::kInference, Workload::kTraining}) {
      const auto run = test::Must(multigrid->Run(workload, devices, setting));
      // With kGrouped, LeastMs is no bound, because UnitTimes gives grouped blocks less work than
      // the sum over their layers.
      if (setting.blocks == BlocksAtOnce::kStreams) {
        const double least = multigrid->LeastMs(workload, devices, setting.cycles);
        EXPECT_GE(run.ms, least * (1 - 1e-12)) << "draw " << draw;
      }
      EXPECT_GE(run.computing_share, 0);
      EXPECT_LE(run.computing_share, 1 + 1e-12);
      EXPECT_LE(run.message_path_ms, run.ms * (1 + 1e-12));
    }
  }
  EXPECT_GT(models, 100);
}

TEST(AnalysisSchedules, LongerMessagesAndMoreCyclesTakeNoLess) {
  for (const int c_sweeps : {0, 1}) {
    for (const int devices : {2, 3, 5}) {
      double before = 0;
      for (const double latency_ms : {0.0, 0.125, 0.5, 2.0}) {
        double fewer = 0;
        for (const int cycles : {1, 2, 4}) {
          const double ms =
              Modelled({96, latency_ms, 8, true}, Setting(4, 3, c_sweeps, cycles), devices).ms;
          EXPECT_GT(ms, fewer);
          fewer = ms;
        }
        EXPECT_GE(fewer, before);
        before = fewer;
      }
    }
  }
}

TEST(AnalysisSchedules, AFullDeviceGainsNothingByMultigrid) {
  const Made made(64, 0, 2, true);
  const NetworkModel model = made.model();
  const double serial = model.Serial(Workload::kInference, Launching::kEach)->ms;
  for (const int coarsening : {2, 4, 8, 16}) {
    EXPECT_GT(Modelled(made, Setting(coarsening, 2, 0, 1), 1).ms, serial) << coarsening;
  }
}

TEST(AnalysisSchedules, StagesFollowEachOtherAndShortOnesRunSerially) {
  Made made(8, 0.25, 2, true);
  // The network has a section of one layer, the stage, another section of one layer, and a stage
  // that is too short for two levels with c = 2.
  made.layers.sections = {
      {false, {0}, 1}, made.layers.sections[0], {false, {0}, 1}, {true, {0, 0, 0}, 1}};
  const ModelledRun run = Modelled(made, Setting(2, 2, 0, 1), 2);
  // The first layer runs on device 0, then the stage takes 12.25 ms. The last two sections run on
  // the device with the stage's end.
  EXPECT_NEAR(run.ms, 1 + 12.25 + 1 + 3, kTiny);
}

}  // namespace
}  // namespace ucudnn::multigrid
