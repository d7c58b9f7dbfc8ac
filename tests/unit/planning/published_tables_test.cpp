// Tests Workspace Reuse, desirable sets and Workspace Division on times that others measured on
// GPUs (tables/miopen/README.md), against optima that this file finds in another way. Times in the
// tables have at most seven decimals of a millisecond, so in ticks of a tenth of a nanosecond they
// are whole numbers and their sums are exact.
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "measured.h"
#include "measured_tables.h"
#include "planner/graph/layers.h"
#include "planner/graph/networks.h"
#include "planning/desirable_set.h"
#include "planning/knapsack_solver.h"
#include "planning/micro_batch_sizes.h"
#include "planning/plugin_solver.h"
#include "planning/preferred_solver.h"
#include "planning/workspace_division.h"
#include "planning/workspace_reuse.h"

namespace ucudnn::planning {
namespace {

using Ticks = int64_t;

constexpr double kTicksInMs = 1e7;
constexpr Ticks kNever = std::numeric_limits<Ticks>::max() / 2;
constexpr int kBatch = 256;
constexpr size_t kLimits[] = {0, kMiB, 8 * kMiB, 64 * kMiB, kUnlimited};  // rising
constexpr BatchSizePolicy kPolicies[] = {BatchSizePolicy::kUndivided, BatchSizePolicy::kPowerOfTwo,
                                         BatchSizePolicy::kAll};  // by rising number of sizes
constexpr const char* kDevices[] = {"gfx906-60cu", "gfx908-120cu", "gfx90a-104cu"};
constexpr const char* kNetworks[] = {"alexnet", "vgg16", "resnet18", "resnet50", "inception-v3"};

const std::vector<KernelTable>& Tables() {
  static const std::vector<KernelTable> tables = [] {
    Result<std::vector<KernelTable>> read = ReadKernelTables(PUBLISHED_TABLES);
    EXPECT_TRUE(read.ok()) << read.message();
    return read.ok() ? std::move(*read) : std::vector<KernelTable>();
  }();
  return tables;
}

Ticks TicksOf(double time_ms) { return std::llround(time_ms * kTicksInMs); }

Ticks TicksOf(const Configuration& division) {
  Ticks ticks = 0;
  for (const Run& run : division.runs) ticks += run.count * TicksOf(run.micro.time_ms);
  return ticks;
}

std::string NameOf(const KernelTable& table) {
  return table.device + ", " + Describe(table.problem);
}

// Returns the rows that `ucudnn workspace` considers under `policy`.
std::vector<MicroConfiguration> Considered(const KernelTable& table, BatchSizePolicy policy) {
  const std::vector<int> sizes = MicroBatchSizes(policy, table.problem.n, LegalStep(table.problem));
  std::vector<MicroConfiguration> rows;
  for (const Candidate& row : table.rows) {
    if (std::binary_search(sizes.begin(), sizes.end(), row.micro.micro_batch)) {
      rows.push_back(row.micro);
    }
  }
  return rows;
}

bool MayUse(BatchSizePolicy policy, int size) {
  if (size == kBatch || policy == BatchSizePolicy::kAll) return size <= kBatch;
  return policy == BatchSizePolicy::kPowerOfTwo && std::has_single_bit(static_cast<unsigned>(size));
}

// Returns the least time of the mini-batch. For each number of images, tries all rows as the last
// piece.
Ticks LeastTicks(const KernelTable& table, BatchSizePolicy policy, size_t limit_bytes) {
  std::vector<std::pair<int, Ticks>> rows;
  for (const auto& [micro, numeric, native] : table.rows) {
    if (micro.workspace_bytes > limit_bytes || !MayUse(policy, micro.micro_batch)) continue;
    rows.emplace_back(micro.micro_batch, TicksOf(micro.time_ms));
  }
  std::vector<Ticks> least(kBatch + 1, kNever);
  least[0] = 0;
  for (int images = 1; images <= kBatch; ++images) {
    for (const auto& [size, ticks] : rows) {
      if (size > images) continue;
      least[images] = std::min(least[images], least[images - size] + ticks);
    }
  }
  return least[kBatch];
}

Ticks LeastWholeTicks(const KernelTable& table, size_t limit_bytes) {
  Ticks least = kNever;
  for (const auto& [micro, numeric, native] : table.rows) {
    if (micro.micro_batch != kBatch || micro.workspace_bytes > limit_bytes) continue;
    least = std::min(least, TicksOf(micro.time_ms));
  }
  return least;
}

// Checks that all pieces are rows of the table.
void ExpectMeasured(const Configuration& division, const KernelTable& table) {
  for (const Run& run : division.runs) {
    EXPECT_TRUE(std::any_of(table.rows.begin(), table.rows.end(),
                            [&](const Candidate& row) { return row.micro == run.micro; }))
        << run.micro.engine << " at " << run.micro.micro_batch;
  }
}

TEST(PublishedTables, HoldEveryKernelOfThreeGpus) {
  size_t rows = 0;
  std::map<std::string, int> kernels;
  for (const KernelTable& table : Tables()) {
    ++kernels[table.device];
    rows += table.rows.size();
    EXPECT_EQ(table.problem.n, kBatch) << NameOf(table);
    EXPECT_EQ(LegalStep(table.problem), 1) << NameOf(table);
    for (const Candidate& row : table.rows) {
      EXPECT_GT(row.micro.time_ms, 0) << NameOf(table);
      // The number of ticks is whole up to the rounding of the double.
      EXPECT_NEAR(row.micro.time_ms * kTicksInMs, TicksOf(row.micro.time_ms),
                  4 * kEpsilon * kTicksInMs * row.micro.time_ms);
    }
  }
  EXPECT_EQ(rows, 45225u);
  for (const char* device : kDevices) EXPECT_EQ(kernels[device], 258) << device;
  EXPECT_EQ(kernels.size(), std::size(kDevices));
}

TEST(PublishedTables, WorkspaceReuseIsOptimalForEveryKernelPolicyAndLimit) {
  for (const KernelTable& table : Tables()) {
    SCOPED_TRACE(NameOf(table));
    for (const BatchSizePolicy policy : kPolicies) {
      const std::vector<MicroConfiguration> rows = Considered(table, policy);
      const std::vector<Configuration> set = DesirableSet(rows, kBatch, 1, kUnlimited);
      for (const size_t limit : kLimits) {
        SCOPED_TRACE(std::string(BatchSizePolicyName(policy)) + " within " + std::to_string(limit));
        const Ticks least = LeastTicks(table, policy, limit);
        const auto plan = OptimizeWorkspaceReuse(rows, kBatch, 1, limit);
        const auto past = std::find_if(set.begin(), set.end(), [&](const Configuration& one) {
          return one.WorkspaceBytes() > limit;
        });
        ASSERT_EQ(plan.has_value(), least < kNever);
        ASSERT_EQ(past != set.begin(), least < kNever);
        if (!plan) continue;
        EXPECT_EQ(TicksOf(*plan), least);
        EXPECT_EQ(TicksOf(*std::prev(past)), least);
        ExpectLegalDivision(*plan, kBatch, 1, limit);
        ExpectMeasured(*plan, table);
      }
    }
  }
}

TEST(PublishedTables, DividedIsNeverSlowerThanWholeAndMoreRoomOrSizesNeverSlowDown) {
  int faster = 0;
  for (const KernelTable& table : Tables()) {
    SCOPED_TRACE(NameOf(table));
    for (const size_t limit : kLimits) {
      Ticks fewer_sizes = LeastWholeTicks(table, limit);
      const Ticks whole = fewer_sizes;
      for (const BatchSizePolicy policy : kPolicies) {
        const auto plan = OptimizeWorkspaceReuse(Considered(table, policy), kBatch, 1, limit);
        const Ticks ticks = plan ? TicksOf(*plan) : kNever;
        EXPECT_LE(ticks, fewer_sizes) << limit;
        fewer_sizes = ticks;
      }
      faster += fewer_sizes < whole ? 1 : 0;
    }
    for (const BatchSizePolicy policy : kPolicies) {
      Ticks less_room = kNever;
      const std::vector<MicroConfiguration> rows = Considered(table, policy);
      for (const size_t limit : kLimits) {
        const auto plan = OptimizeWorkspaceReuse(rows, kBatch, 1, limit);
        const Ticks ticks = plan ? TicksOf(*plan) : kNever;
        EXPECT_LE(ticks, less_room) << limit;
        less_room = ticks;
      }
    }
  }
  EXPECT_GT(faster, 1000);  // of 258 kernels * 3 GPUs * 5 limits: dividing often gains
}

TEST(PublishedTables, DesirableSetsAreWhatNoDivisionBeats) {
  for (const KernelTable& table : Tables()) {
    SCOPED_TRACE(NameOf(table));
    std::set<size_t> workspaces;
    for (const Candidate& row : table.rows) workspaces.insert(row.micro.workspace_bytes);
    std::vector<std::pair<size_t, Ticks>> front, found;
    for (const size_t workspace_bytes : workspaces) {
      const Ticks least = LeastTicks(table, BatchSizePolicy::kAll, workspace_bytes);
      if (least < (front.empty() ? kNever : front.back().second)) {
        front.emplace_back(workspace_bytes, least);
      }
    }
    for (const Configuration& one :
         DesirableSet(Considered(table, BatchSizePolicy::kAll), kBatch, 1, kUnlimited)) {
      found.emplace_back(one.WorkspaceBytes(), TicksOf(one));
      ExpectLegalDivision(one, kBatch, 1, kUnlimited);
      ExpectMeasured(one, table);
    }
    EXPECT_EQ(found, front);
  }
}

// Tries, one after the other, all ways to make up `images` from pieces of the size at index `at`
// and later sizes. Returns the least sum.
Ticks LeastOfAllCompositions(const std::vector<std::pair<int, Ticks>>& fastest, size_t at,
                             int images) {
  if (images == 0) return 0;
  Ticks least = kNever;
  for (size_t piece = at; piece < fastest.size(); ++piece) {
    const auto& [size, ticks] = fastest[piece];
    if (size > images) continue;
    least = std::min(least, ticks + LeastOfAllCompositions(fastest, piece, images - size));
  }
  return least;
}

TEST(PublishedTables, WorkspaceReuseOfSixteenImagesIsTheBestOfAllCompositions) {
  constexpr int kFew = 16;
  for (const KernelTable& table : Tables()) {
    SCOPED_TRACE(NameOf(table));
    const std::vector<MicroConfiguration> rows = Considered(table, BatchSizePolicy::kAll);
    for (const size_t limit : kLimits) {
      std::map<int, Ticks> of_size;
      for (const MicroConfiguration& row : rows) {
        if (row.workspace_bytes > limit) continue;
        const auto at = of_size.emplace(row.micro_batch, kNever).first;
        at->second = std::min(at->second, TicksOf(row.time_ms));
      }
      const std::vector<std::pair<int, Ticks>> fastest(of_size.begin(), of_size.end());
      const auto plan = OptimizeWorkspaceReuse(rows, kFew, 1, limit);
      EXPECT_EQ(plan ? TicksOf(*plan) : kNever, LeastOfAllCompositions(fastest, 0, kFew)) << limit;
    }
  }
}

// Holds a network's distinct kernels on a device.
struct NetworkSets {
  std::vector<DesirableConfigurations> kernels;
  std::vector<size_t> layers;  // number of layers that run each kernel
};

NetworkSets SetsOf(const std::string& device, const std::string& name) {
  NetworkSets sets;
  const auto graph = planner::BuildNetwork(name);
  EXPECT_TRUE(graph.ok()) << graph.message();
  const auto layers = planner::ConvolutionLayers(
      *graph, kBatch, {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter});
  EXPECT_TRUE(layers.ok()) << layers.message();
  std::map<const KernelTable*, size_t> numbers;
  for (const Layer& layer : *layers) {
    const auto table =
        std::find_if(Tables().begin(), Tables().end(), [&](const KernelTable& known) {
          return known.device == device && known.problem == layer.problem;
        });
    if (table == Tables().end()) {
      ADD_FAILURE() << layer.name << " of " << name << " is missing on " << device;
      continue;
    }
    const auto [at, added] = numbers.try_emplace(&*table, sets.kernels.size());
    if (added) {
      sets.kernels.push_back(
          DesirableSet(Considered(*table, BatchSizePolicy::kAll), kBatch, 1, kUnlimited));
      sets.layers.push_back(0);
    }
    ++sets.layers[at->second];
  }
  return sets;
}

Ticks TicksOf(const NetworkSets& sets, const std::vector<size_t>& chosen) {
  Ticks ticks = 0;
  for (size_t i = 0; i < sets.kernels.size(); ++i) {
    ticks += static_cast<Ticks>(sets.layers[i]) * TicksOf(sets.kernels[i].at(chosen[i]));
  }
  return ticks;
}

// Returns the least total time of the kernels if each has a workspace of its own and the workspaces
// together fit the budget. Kernel after kernel, it keeps every pair of a total workspace and a
// total time that no other pair beats.
Ticks LeastTotalTicks(const NetworkSets& sets, size_t budget_bytes) {
  std::vector<std::pair<size_t, Ticks>> sums = {{0, 0}};
  for (size_t i = 0; i < sets.kernels.size(); ++i) {
    std::vector<std::pair<size_t, Ticks>> longer;
    for (const Configuration& choice : sets.kernels[i]) {
      const size_t bytes = choice.WorkspaceBytes();
      const Ticks ticks = static_cast<Ticks>(sets.layers[i]) * TicksOf(choice);
      for (const auto& [sum_bytes, sum_ticks] : sums) {
        if (bytes > budget_bytes || sum_bytes > budget_bytes - bytes) break;
        longer.emplace_back(sum_bytes + bytes, sum_ticks + ticks);
      }
    }
    std::sort(longer.begin(), longer.end());
    sums.clear();
    for (const auto& sum : longer) {
      if (sums.empty() || sum.second < sums.back().second) sums.push_back(sum);
    }
  }
  return sums.empty() ? kNever : sums.back().second;
}

class PublishedNetworks : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const NetworkSets sets_ = SetsOf(std::get<0>(GetParam()), std::get<1>(GetParam()));
};

TEST_P(PublishedNetworks, DisjointDivisionIsOptimal) {
  KnapsackSolver solver;
  Ticks less_room = kNever;
  for (const size_t budget : {0 * kMiB, 64 * kMiB, 512 * kMiB, 4096 * kMiB}) {
    const auto divided =
        DivideWorkspace(sets_.kernels, budget, WorkspaceDivision::kDisjoint, solver, sets_.layers);
    ASSERT_TRUE(divided.ok()) << divided.message();
    EXPECT_TRUE(divided->optimal) << budget;
    EXPECT_LE(divided->total_bytes, budget);
    const Ticks ticks = TicksOf(sets_, divided->chosen);
    // The solver rounds each time to 2^-30 ms. So each time of its selection, and each time of the
    // optimum, is off by up to 2^-31 ms.
    const double rounding = 2.0 * sets_.kernels.size() * std::ldexp(kTicksInMs, -31);
    EXPECT_NEAR(ticks, LeastTotalTicks(sets_, budget), rounding) << budget;
    EXPECT_LT(ticks, less_room) << budget;
    less_room = ticks;
  }
}

TEST_P(PublishedNetworks, SharedDivisionGivesEachKernelItsOptimumWithinTheBudget) {
  KnapsackSolver solver;
  for (const size_t budget : {64 * kMiB, 512 * kMiB, kUnlimited}) {
    const auto divided =
        DivideWorkspace(sets_.kernels, budget, WorkspaceDivision::kShared, solver, sets_.layers);
    ASSERT_TRUE(divided.ok()) << divided.message();
    Ticks ticks = 0;
    for (size_t i = 0; i < sets_.kernels.size(); ++i) {
      Ticks least = kNever;
      for (const Configuration& one : sets_.kernels[i]) {
        if (one.WorkspaceBytes() <= budget) least = std::min(least, TicksOf(one));
      }
      ticks += static_cast<Ticks>(sets_.layers[i]) * least;
    }
    EXPECT_EQ(TicksOf(sets_, divided->chosen), ticks);
  }
}

#ifdef GLPK_PLUGIN
// Sizes are rounded up to MiB, the unit in which the plug-in states the problem, so both solvers
// solve the same problem.
TEST_P(PublishedNetworks, GlpkDividesNoFaster) {
  std::vector<Choices> kernels;
  size_t least = 0;
  for (size_t i = 0; i < sets_.kernels.size(); ++i) {
    Choices& choices = kernels.emplace_back();
    for (const Configuration& one : sets_.kernels[i]) {
      choices.push_back({(one.WorkspaceBytes() + kMiB - 1) / kMiB * kMiB,
                         static_cast<double>(sets_.layers[i]) * one.TimeMs()});
    }
    least += choices.front().workspace_bytes;
  }
  const auto total_ms = [&](const Selection& selection) {
    double time_ms = 0;
    for (size_t i = 0; i < kernels.size(); ++i) time_ms += kernels[i][selection.chosen[i]].time_ms;
    return time_ms;
  };
  auto glpk = OpenPluginSolver(GLPK_PLUGIN, "glpk", PreferredSolver::kOffline);
  ASSERT_TRUE(glpk.ok()) << glpk.message();
  for (const size_t room : {64 * kMiB, 512 * kMiB}) {
    const auto other = (*glpk)->Solve(kernels, least + room);
    const auto exact = KnapsackSolver().Solve(kernels, least + room);
    ASSERT_TRUE(other.ok() && exact.ok()) << other.message() << exact.message();
    EXPECT_TRUE(other->optimal && exact->optimal);
    // GLPK treats two totals as equal if they differ by less than 1e-7 of the total.
    EXPECT_NEAR(total_ms(*other), total_ms(*exact), 1e-7 * total_ms(*exact)) << room;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Gpus, PublishedNetworks,
                         ::testing::Combine(::testing::ValuesIn(kDevices),
                                            ::testing::ValuesIn(kNetworks)));

}  // namespace
}  // namespace ucudnn::planning
