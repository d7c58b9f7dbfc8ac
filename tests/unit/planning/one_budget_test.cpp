// Compares Workspace Division with Workspace Reuse on times of real engines: full tables of the CPU
// stand-in (tables/README.md). Workspace Division has one budget for all kernels. Workspace Reuse
// gives each kernel an equal part of the budget as its limit, and is never faster (mu-cuDNN,
// section IV-D). The tests expect this of plans that are made offline and of plans that are made in
// a run. The tables hold micro-batches of at most 32 images, and a mini-batch of 256 is divided
// into them.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "measured_tables.h"
#include "planning/desirable_set.h"
#include "planning/knapsack_solver.h"
#include "planning/network_division.h"
#include "planning/owned_promise.h"
#include "planning/workspace_division.h"

namespace ucudnn::planning {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr int kMostRecorded = 32;  // images; larger mini-batches have no times of undivided engines
constexpr WorkspaceDivision kDivisions[] = {
    WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent};

struct RecordedNetwork {
  const char* table;
  size_t kernels;
  int batch;
};

void PrintTo(const RecordedNetwork& network, std::ostream* out) {
  *out << network.table << " of " << network.batch;
}

class OneBudget : public ::testing::TestWithParam<RecordedNetwork> {
 protected:
  void SetUp() override {
    Result<std::vector<KernelTable>> read =
        ReadKernelTables(std::string(TABLES "/") + GetParam().table + ".csv");
    ASSERT_TRUE(read.ok()) << read.message();
    tables_ = std::move(*read);
    ASSERT_EQ(tables_.size(), GetParam().kernels);
    for (KernelTable& table : tables_) table.problem.n = GetParam().batch;
  }
  static PromiseRequest RequestOf(const KernelTable& table, size_t limit_bytes) {
    return RequestFor(table.problem, limit_bytes, false);
  }
  static DesirableConfigurations SetOf(const KernelTable& table, size_t limit_bytes) {
    std::vector<MicroConfiguration> rows;
    for (const Candidate& row : table.rows) rows.push_back(row.micro);
    return DesirableSet(rows, table.problem.n, LegalStep(table.problem), limit_bytes);
  }

  std::vector<KernelTable> tables_;
};

// Compares the time of all kernels, each with a limit of `each_bytes`, with their time in one
// budget that is the sum of these limits.
TEST_P(OneBudget, OfflineIsNeverSlowerThanALimitForEach) {
  KnapsackSolver solver;
  for (const size_t each_bytes : {size_t{0}, kMiB, 8 * kMiB, 64 * kMiB}) {
    const size_t budget = each_bytes * tables_.size();
    double limited_ms = 0;
    std::vector<DesirableConfigurations> sets;
    for (const KernelTable& table : tables_) {
      const auto best = FastestDivision(table.rows, RequestOf(table, each_bytes));
      ASSERT_TRUE(best.has_value());
      limited_ms += best->TimeMs();
      sets.push_back(SetOf(table, budget));
    }
    double disjoint_ms = 0;
    for (const WorkspaceDivision division : kDivisions) {
      SCOPED_TRACE(WorkspaceDivisionName(division) + std::string(" ") + std::to_string(budget));
      const auto divided = DivideWorkspace(sets, budget, division, solver);
      ASSERT_TRUE(divided.ok()) << divided.message();
      EXPECT_TRUE(divided->optimal);
      EXPECT_LE(divided->total_bytes, budget);
      double time_ms = 0;
      for (size_t i = 0; i < sets.size(); ++i) time_ms += sets[i][divided->chosen[i]].TimeMs();
      EXPECT_LE(time_ms, limited_ms * (1 + 1e-12));
      if (division == WorkspaceDivision::kDisjoint) disjoint_ms = time_ms;
      EXPECT_LE(time_ms, disjoint_ms * (1 + 1e-12));
    }
  }
}

// With `streams`, each of the three operations runs on its own stream. Otherwise all kernels run on
// one stream, as in most programs.
TEST_P(OneBudget, InARunIsNeverSlowerThanALimitForEach) {
  KnapsackSolver solver;
  for (const bool streams : {false, true}) {
    for (const size_t each_bytes : {size_t{0}, kMiB, 8 * kMiB, 64 * kMiB}) {
      const size_t budget = each_bytes * tables_.size();
      double limited_ms = 0;
      std::vector<NetworkKernel> kernels;
      for (const KernelTable& table : tables_) {
        const int lane = streams ? static_cast<int>(table.problem.operation) : 0;
        if (GetParam().batch > kMostRecorded) {
          limited_ms += FastestDivision(table.rows, RequestOf(table, each_bytes))->TimeMs();
          kernels.push_back({SetOf(table, budget), 1, {lane}});
        } else {
          limited_ms +=
              MakePromise(table.rows, RequestOf(table, each_bytes))->configuration.TimeMs();
          kernels.push_back({OwnedChoices(table.rows, RequestOf(table, budget)), 1, {lane}});
        }
      }
      double disjoint_ms = 0;
      for (const WorkspaceDivision division : kDivisions) {
        SCOPED_TRACE(WorkspaceDivisionName(division) + std::string(streams ? " streams " : " ") +
                     std::to_string(budget));
        const auto divided = DivideNetwork(kernels, budget, division, solver);
        ASSERT_TRUE(divided.ok()) << divided.message();
        EXPECT_TRUE(divided->optimal);
        EXPECT_LE(divided->total_bytes, budget);
        EXPECT_LE(divided->total_time_ms, limited_ms * (1 + 1e-12));
        if (division == WorkspaceDivision::kDisjoint) disjoint_ms = divided->total_time_ms;
        EXPECT_LE(divided->total_time_ms, disjoint_ms * (1 + 1e-12));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, OneBudget,
                         ::testing::Values(RecordedNetwork{"alexnet-32", 15, 256},
                                           RecordedNetwork{"alexnet-32", 15, 32},
                                           RecordedNetwork{"resnet18-32", 33, 32},
                                           RecordedNetwork{"vgg16-32", 27, 32}));

}  // namespace
}  // namespace ucudnn::planning
