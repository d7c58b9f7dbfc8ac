// Tests that a cycle allocates nothing, with any storage, lanes and coarse operator: a solve of
// many cycles allocates as often as a solve of few. Also tests that states need as many bytes as
// StateBytes predicts.
#include <gtest/gtest.h>

#include "planner/multigrid/host/network.h"
#include "tests/bench/allocation_count.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/digit_net.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

std::string TextOf(const SolveSetting& setting) {
  return std::string(setting.storage == Storage::kAll ? "all" : "C-points") + ", " +
         std::to_string(setting.lanes) + " lanes, " + NameOf(setting.coarse);
}

std::vector<SolveSetting> Settings() {
  std::vector<SolveSetting> all;
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int lanes : {1, 3}) {
      for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
        all.push_back(
            {.levels = 3, .coarse = coarse, .h = 1.0 / 130, .storage = storage, .lanes = lanes});
      }
    }
  }
  return all;
}

SolveOptions Cycles(int cycles) {
  return {.c_sweeps = {1, 0}, .start = Start::kPrevious, .cycles = cycles};
}

long AllocationsOf(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options) {
  const long before = bench::Allocations();
  EXPECT_GT(before, 0) << "allocations are not counted";
  const bool is_solved = Solve(system, hierarchy, options).ok();
  const long after = bench::Allocations();
  EXPECT_TRUE(is_solved);
  return after - before;
}

TEST(Allocation, ACycleAllocatesNothing) {
  const WeightedChain chain = DrawCase(1, {.steps = 130, .extent = 4}, 1, 0.5).chain;
  for (const SolveSetting& setting : Settings()) {
    SCOPED_TRACE(TextOf(setting));
    HostSolve forward(chain, setting);
    ASSERT_TRUE(forward.system().SolveSerially(0, LayerSystem::Source::kNone).ok());
    AdjointSolve adjoint(forward, setting, forward.Last());
    const auto expect_none = [](LayerSystem& system, const Hierarchy& hierarchy) {
      ASSERT_TRUE(system.Broadcast().ok());
      ASSERT_TRUE(Solve(system, hierarchy, Cycles(4)).ok());
      EXPECT_EQ(AllocationsOf(system, hierarchy, Cycles(9)),
                AllocationsOf(system, hierarchy, Cycles(2)));
    };
    expect_none(adjoint.system(), forward.mirrored());
    expect_none(forward.system(), forward.hierarchy());
  }
}

constexpr DigitNetShape kNet = {.steps = 50, .extent = 16};
constexpr int kImages = 4;
constexpr int64_t kStateBytes = int64_t{kNet.channels} * kNet.extent * kNet.extent * kImages * 8;
// A state may need 100 bytes in addition to its numbers: up to 24 because the allocator rounds, and
// the rest for pointers to the state. These are in the levels and in a list whose capacity doubles.
constexpr int64_t kBesideState = 100;
constexpr int64_t kBesideAll = 16384;  // bytes of a pass that do not belong to states

// Returns the largest number of bytes in use during `run`, minus the bytes in use before.
template <typename Run>
int64_t MostBytesOf(Run&& run) {
  const long before = bench::LiveBytes();
  bench::ResetMostBytes();
  run();
  return bench::MostBytes() - before;
}

TEST(Memory, StatesTakeWhatIsPredicted) {
  const ResidualChain chain = DigitNet(kNet);
  const Parameters parameters = DrawParameters(chain, 1);
  const Examples examples = DigitExamples(kNet, kImages, 1);
  Parameters gradient = ZerosLike(parameters);
  std::vector<double> logits_gradient(size_t{kImages} * kNet.classes);
  int64_t taken[2] = {0, 0};
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int lanes : {1, 3}) {
      for (const int levels : {1, 2, 3}) {
        SCOPED_TRACE(TextOf({.storage = storage, .lanes = lanes}) + ", " + std::to_string(levels));
        NetworkSettings settings;
        settings.batch = kImages;
        settings.lanes = lanes;
        settings.levels = levels;
        settings.time = 1;
        settings.storage = storage;
        const auto network = std::move(*NetworkSolver::Make(chain, parameters, settings));
        const auto forward = [&] {
          const double* logits = test::Must(network->Forward(examples.images.data()));
          CrossEntropy(logits, examples.labels, kNet.classes, logits_gradient.data());
        };
        const auto backward = [&] {
          ASSERT_TRUE(network->Backward(logits_gradient.data(), gradient).ok());
        };
        const int64_t most_forward = MostBytesOf(forward);
        const int64_t most_both = most_forward + MostBytesOf(backward);
        for (const auto& [passes, most] : {std::pair(Passes::kForward, most_forward),
                                           std::pair(Passes::kForwardAndBackward, most_both)}) {
          const int64_t predicted = StateBytes(chain, settings, passes);
          EXPECT_GE(most, predicted);
          EXPECT_LE(most, predicted + predicted / kStateBytes * kBesideState + kBesideAll);
        }
        // The second forward and backward passes allocate no state.
        EXPECT_LT(MostBytesOf(forward), kBesideAll);
        EXPECT_LT(MostBytesOf(backward), kBesideAll);
        if (lanes == 1 && levels == 2) taken[storage == Storage::kAll ? 0 : 1] = most_both;
      }
    }
  }
  // The forward and the backward pass have equally many states. Of the 51 states of the finest
  // level, Storage::kCPoints keeps 14 (u0, 12 C-points and the last one) and, for one block at a
  // time, 3 F-points.
  EXPECT_NEAR(static_cast<double>(taken[0] - taken[1]), 2.0 * (51 - 14 - 3) * kStateBytes,
              100.0 * kBesideState + kBesideAll);
}

}  // namespace
}  // namespace ucudnn::multigrid
