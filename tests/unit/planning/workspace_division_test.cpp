#include "planning/workspace_division.h"

#include <gmock/gmock.h>

#include <random>

#include "convolution/problem.h"
#include "measured.h"
#include "measured_tables.h"
#include "planning/desirable_set.h"
#include "planning/knapsack_solver.h"
#include "planning/workspace_reuse.h"
#include "tests/support/seeded_random.h"

namespace ucudnn::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double TimeMs(const std::vector<DesirableConfigurations>& kernels,
              const std::vector<size_t>& chosen) {
  double time_ms = 0;
  for (size_t i = 0; i < kernels.size(); ++i) time_ms += kernels[i].at(chosen[i]).TimeMs();
  return time_ms;
}

std::vector<size_t> Bytes(const std::vector<DesirableConfigurations>& kernels,
                          const std::vector<size_t>& chosen) {
  std::vector<size_t> bytes;
  for (size_t i = 0; i < kernels.size(); ++i)
    bytes.push_back(kernels[i][chosen[i]].WorkspaceBytes());
  return bytes;
}

TEST(WorkspaceDivision, DisjointReservesTheSumAndSharedTheLargest) {
  const std::vector<DesirableConfigurations> kernels = {{One(0, 9), One(6, 2)},
                                                        {One(1, 9), One(5, 1)}};
  KnapsackSolver solver;
  const auto divide = [&](WorkspaceDivision division) {
    return DivideWorkspace(kernels, 8, division, solver);
  };
  const auto disjoint = divide(WorkspaceDivision::kDisjoint);
  EXPECT_THAT(disjoint->chosen, ElementsAre(0, 1));
  EXPECT_EQ(disjoint->total_bytes, 5u);
  for (const auto division : {WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    const auto shared = divide(division);
    EXPECT_THAT(shared->chosen, ElementsAre(1, 1));
    EXPECT_EQ(shared->total_bytes, 6u);
    EXPECT_TRUE(shared->optimal);
  }
}

// If two layers run the first kernel, its workspace counts once, but makes both layers faster.
TEST(WorkspaceDivision, LayersOfOneKernelWeighItsTime) {
  const std::vector<DesirableConfigurations> kernels = {{One(0, 9), One(6, 5)},
                                                        {One(0, 9), One(6, 3)}};
  KnapsackSolver solver;
  const auto chosen = [&](std::vector<size_t> layers) {
    return DivideWorkspace(kernels, 8, WorkspaceDivision::kDisjoint, solver, layers)->chosen;
  };
  EXPECT_THAT(chosen({}), ElementsAre(0, 1));
  EXPECT_THAT(chosen({1, 1}), ElementsAre(0, 1));
  EXPECT_THAT(chosen({2, 1}), ElementsAre(1, 0));
}

TEST(WorkspaceDivision, ShortageSaysHowMuchIsMissingAndWhoWantsIt) {
  const std::vector<DesirableConfigurations> kernels = {
      {One(4, 1)}, {One(0, 1), One(9, 0)}, {One(7, 1)}};
  const auto disjoint = FindShortage(kernels, 10, WorkspaceDivision::kDisjoint);
  ASSERT_TRUE(disjoint);
  EXPECT_EQ(disjoint->missing_bytes, 1u);
  EXPECT_THAT(disjoint->kernels, ElementsAre(2, 0));
  EXPECT_FALSE(FindShortage(kernels, 11, WorkspaceDivision::kDisjoint));
  const auto shared = FindShortage(kernels, 5, WorkspaceDivision::kShared);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->missing_bytes, 2u);
  EXPECT_THAT(shared->kernels, ElementsAre(2));
  EXPECT_FALSE(FindShortage(kernels, 7, WorkspaceDivision::kConcurrent));
  KnapsackSolver solver;
  EXPECT_THAT(DivideWorkspace(kernels, 10, WorkspaceDivision::kDisjoint, solver).message(),
              HasSubstr("short of 1 bytes"));
}

TEST(WorkspaceDivision, HostileWorkspacesDoNotWrapAround) {
  const std::vector<DesirableConfigurations> kernels = {{One(kUnlimited, 1)}, {One(2, 1)}};
  EXPECT_TRUE(FindShortage(kernels, 64, WorkspaceDivision::kDisjoint));
  EXPECT_EQ(ReservedBytes(std::vector<size_t>{kUnlimited, 2}, WorkspaceDivision::kDisjoint),
            kUnlimited);
}

TEST(WorkspaceDivision, KernelWithoutConfigurationsIsAnError) {
  KnapsackSolver solver;
  for (const auto division : {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared}) {
    EXPECT_FALSE(
        DivideWorkspace(std::vector<DesirableConfigurations>{{}}, 8, division, solver).ok());
  }
}

class Overspending : public DivisionSolver {
 public:
  const char* Name() const override { return "overspending"; }
  Result<Selection> Solve(std::span<const Choices> kernels, size_t) override {
    Selection selection;
    for (const Choices& choices : kernels) selection.chosen.push_back(choices.size() - 1);
    return selection;
  }
};

TEST(WorkspaceDivision, SolverThatExceedsTheBudgetIsNotBelieved) {
  Overspending solver;
  const std::vector<DesirableConfigurations> kernels = {{One(0, 9), One(6, 2)}};
  EXPECT_THAT(DivideWorkspace(kernels, 5, WorkspaceDivision::kDisjoint, solver).message(),
              HasSubstr("exceeds the budget"));
}

struct Network {
  std::vector<DesirableConfigurations> kernels;
  std::vector<KernelTable> tables;
};

Network Recorded(const std::string& name) {
  auto tables = ReadKernelTables(std::string(TABLES) + "/" + name + ".csv");
  EXPECT_TRUE(tables.ok()) << tables.message();
  Network network;
  for (const KernelTable& table : *tables) {
    std::vector<MicroConfiguration> rows;
    for (const Candidate& row : table.rows) rows.push_back(row.micro);
    network.kernels.push_back(
        DesirableSet(rows, table.problem.n, LegalStep(table.problem), kUnlimited));
  }
  network.tables = std::move(*tables);
  return network;
}

// One budget for all kernels, of `limit` bytes per kernel, is never slower than a limit of `limit`
// bytes for each kernel.
TEST(WorkspaceDivision, OfRecordedNetworksIsNeverSlowerThanWorkspaceReuse) {
  for (const char* name : {"alexnet", "alexnet-again", "alexnet-32", "resnet18-32"}) {
    const Network network = Recorded(name);
    for (const size_t limit : {1 * kMiB, 8 * kMiB, 64 * kMiB}) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(limit / kMiB) + " MiB");
      double reuse_ms = 0;
      for (const KernelTable& table : network.tables) {
        std::vector<MicroConfiguration> rows;
        for (const Candidate& row : table.rows) rows.push_back(row.micro);
        const auto configuration =
            OptimizeWorkspaceReuse(rows, table.problem.n, LegalStep(table.problem), limit);
        ASSERT_TRUE(configuration);
        reuse_ms += configuration->TimeMs();
      }
      KnapsackSolver solver;
      const auto divided = DivideWorkspace(network.kernels, network.kernels.size() * limit,
                                           WorkspaceDivision::kDisjoint, solver);
      ASSERT_TRUE(divided.ok()) << divided.message();
      EXPECT_TRUE(divided->optimal);
      EXPECT_LE(divided->total_bytes, network.kernels.size() * limit);
      const double divided_ms = TimeMs(network.kernels, divided->chosen);
      // The tolerance allows for sums of hundreds of times, and for the solver's rounding of each
      // time to 2^-30 ms.
      EXPECT_LE(divided_ms, reuse_ms * (1 + 1000 * kEpsilon) + 100 * 0x1p-30);
    }
  }
}

TEST(WorkspaceDivision, OfAlexNetGainsBySpendingWhereItPays) {
  const Network network = Recorded("alexnet-32");
  ASSERT_EQ(network.kernels.size(), 15u);
  KnapsackSolver solver;
  const auto even = DivideWorkspace(network.kernels, 1 * kMiB, WorkspaceDivision::kShared, solver);
  const auto divided =
      DivideWorkspace(network.kernels, 15 * kMiB, WorkspaceDivision::kDisjoint, solver);
  ASSERT_TRUE(even.ok() && divided.ok());
  EXPECT_LT(TimeMs(network.kernels, divided->chosen), TimeMs(network.kernels, even->chosen));
}

TEST(WorkspaceDivision, SharedIsNeverSlowerThanDisjoint) {
  test::SeededRandom random;
  const Network alexnet = Recorded("alexnet");
  int compared = 0;
  for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
    std::vector<DesirableConfigurations> kernels = alexnet.kernels;
    std::shuffle(kernels.begin(), kernels.end(), random);
    kernels.resize(static_cast<size_t>(Draw(random, 1, 15)));
    const size_t budget = static_cast<size_t>(Draw(random, 0, 200)) << 18;
    KnapsackSolver solver;
    const auto disjoint = DivideWorkspace(kernels, budget, WorkspaceDivision::kDisjoint, solver);
    const auto shared = DivideWorkspace(kernels, budget, WorkspaceDivision::kShared, solver);
    if (!disjoint.ok()) continue;
    ASSERT_TRUE(shared.ok()) << shared.message();
    EXPECT_LE(TimeMs(kernels, shared->chosen), TimeMs(kernels, disjoint->chosen));
    EXPECT_EQ(shared->total_bytes,
              ReservedBytes(Bytes(kernels, shared->chosen), WorkspaceDivision::kShared));
    EXPECT_LE(shared->total_bytes, budget);
    ++compared;
  }
  EXPECT_GE(compared, 100);
}

}  // namespace
}  // namespace ucudnn::planning
