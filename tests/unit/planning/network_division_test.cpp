#include "planning/network_division.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "measured.h"
#include "planning/knapsack_solver.h"

namespace ucudnn::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DividedNetwork Divide(const std::vector<NetworkKernel>& kernels, size_t budget,
                      WorkspaceDivision division) {
  KnapsackSolver solver;
  const auto divided = DivideNetwork(kernels, budget, division, solver);
  EXPECT_TRUE(divided.ok()) << divided.message();
  return *divided;
}

double TimeWithin(const NetworkKernel& kernel, size_t bytes) {
  double time_ms = 0;
  for (const Configuration& choice : kernel.choices) {
    if (choice.WorkspaceBytes() <= bytes) time_ms = choice.TimeMs();
  }
  return kernel.calls * time_ms;
}

TEST(NetworkDivision, KernelsOfOneLaneShareASlotOrHaveTheirOwn) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(6, 2)}, 1, {0}},
                                              {{One(0, 9), One(5, 1)}, 1, {0}}};
  const DividedNetwork disjoint = Divide(kernels, 8, WorkspaceDivision::kDisjoint);
  EXPECT_THAT(disjoint.share_bytes, ElementsAre(0, 5));
  EXPECT_THAT(disjoint.slots, ElementsAre(Slot{1, 0, 5}));
  EXPECT_EQ(disjoint.total_bytes, 5u);
  for (const auto division : {WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    const DividedNetwork shared = Divide(kernels, 8, division);
    EXPECT_THAT(shared.share_bytes, ElementsAre(6, 6));
    EXPECT_THAT(shared.slots, ElementsAre(Slot{Slot::kEveryKernel, 0, 6}));
    EXPECT_EQ(shared.total_bytes, 6u);
    EXPECT_DOUBLE_EQ(shared.total_time_ms, 3);
  }
}

TEST(NetworkDivision, LanesTogetherStayInTheBudget) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(6, 2)}, 1, {0}},
                                              {{One(0, 9), One(5, 1)}, 1, {1}}};
  const DividedNetwork divided = Divide(kernels, 10, WorkspaceDivision::kConcurrent);
  EXPECT_THAT(divided.slots, ElementsAre(Slot{Slot::kEveryKernel, 1, 5}));
  EXPECT_THAT(Divide(kernels, 11, WorkspaceDivision::kConcurrent).slots.size(), 2);
}

TEST(NetworkDivision, AKernelOnTwoLanesCountsTwice) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(6, 2)}, 2, {0, 1}}};
  for (const auto division : {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared}) {
    EXPECT_THAT(Divide(kernels, 11, division).slots, IsEmpty());
    const DividedNetwork divided = Divide(kernels, 12, division);
    EXPECT_EQ(divided.slots.size(), 2u);
    EXPECT_EQ(divided.total_bytes, 12u);
  }
}

// If the budget is divided by lane, each of the two lanes has 12 / 2 = 6 bytes. The fast
// configuration of the first kernel needs 10 bytes.
TEST(NetworkDivision, LanesThatShareAKernelAreDividedByKernelWhereThatIsFaster) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(10, 1)}, 1, {0}},
                                              {{One(0, 9), One(1, 1)}, 1, {0, 1}}};
  for (const auto division : {WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    const DividedNetwork divided = Divide(kernels, 12, division);
    EXPECT_TRUE(divided.by_kernel);
    EXPECT_TRUE(divided.optimal);
    EXPECT_THAT(divided.share_bytes, ElementsAre(10, 1));
    EXPECT_THAT(divided.slots, ElementsAre(Slot{0, 0, 10}, Slot{1, 0, 1}, Slot{1, 1, 1}));
    EXPECT_DOUBLE_EQ(divided.total_time_ms, 2);
    EXPECT_FALSE(Divide(kernels, 20, division).by_kernel);
  }
}

// Chooses as KnapsackSolver does, but does not claim that selections of `of` kernels are optimal.
class UnsureSolver : public KnapsackSolver {
 public:
  explicit UnsureSolver(size_t of) : of_(of) {}
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override {
    Result<Selection> selection = KnapsackSolver::Solve(kernels, budget_bytes);
    if (selection.ok() && kernels.size() == of_) selection->optimal = false;
    return selection;
  }

 private:
  const size_t of_;
};

TEST(NetworkDivision, IsProvenWhereBothWaysAre) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(10, 1)}, 1, {0}},
                                              {{One(0, 9), One(1, 1)}, 1, {0, 1}}};
  for (const size_t unsure : {1, 2}) {  // Solve gets 1 item if divided by lane, 2 if by kernel
    UnsureSolver solver(unsure);
    for (const size_t budget : {12, 20}) {
      const auto divided = DivideNetwork(kernels, budget, WorkspaceDivision::kConcurrent, solver);
      ASSERT_TRUE(divided.ok());
      EXPECT_FALSE(divided->optimal);
    }
  }
}

TEST(NetworkDivision, WhatIsCalledOftenCountsOften) {
  const std::vector<NetworkKernel> kernels = {{{One(0, 9), One(6, 5)}, 1, {0}},
                                              {{One(0, 9), One(6, 7)}, 3, {0}}};
  EXPECT_THAT(Divide(kernels, 6, WorkspaceDivision::kDisjoint).share_bytes, ElementsAre(0, 6));
}

TEST(NetworkDivision, WhatAKernelCannotDoWithoutComesFirst) {
  KnapsackSolver solver;
  const std::vector<NetworkKernel> kernels = {{{One(2, 9), One(6, 8)}, 1, {0, 1}},
                                              {{One(3, 9), One(5, 1)}, 1, {0}}};
  // If the budget is divided by kernel, the kernels need 2 * 2 + 3 bytes, since the first kernel
  // runs on two lanes. If it is divided by lane, they need 2 * 3.
  EXPECT_FALSE(FindShortage(kernels, 6, WorkspaceDivision::kConcurrent));
  EXPECT_THAT(Divide(kernels, 6, WorkspaceDivision::kConcurrent).share_bytes, ElementsAre(3, 3));
  EXPECT_THAT(Divide(kernels, 9, WorkspaceDivision::kConcurrent).share_bytes, ElementsAre(2, 5));
  for (const auto& [division, missing] :
       {std::pair{WorkspaceDivision::kDisjoint, 2u}, {WorkspaceDivision::kConcurrent, 1u}}) {
    const auto shortage = FindShortage(kernels, 5, division);
    ASSERT_TRUE(shortage);
    EXPECT_EQ(shortage->missing_bytes, missing);
    EXPECT_THAT(shortage->kernels, ElementsAre(1, 0));
    EXPECT_EQ(DivideNetwork(kernels, 5, division, solver).message(),
              "the budget is short of " + std::to_string(missing) + " bytes");
  }
}

TEST(NetworkDivision, AShortageOfMoreThanCanBeCountedIsOne) {
  constexpr size_t kHuge = std::numeric_limits<size_t>::max() - 1;
  const std::vector<NetworkKernel> kernels = {{{One(kHuge, 9)}, 1, {0, 1, 2}},
                                              {{One(kHuge, 9)}, 1, {1}}};
  for (const auto division : {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared}) {
    const auto shortage = FindShortage(kernels, 64, division);
    ASSERT_TRUE(shortage);
    EXPECT_EQ(shortage->missing_bytes, std::numeric_limits<size_t>::max());
  }
}

TEST(NetworkDivision, AKernelThatCannotRunIsAnError) {
  KnapsackSolver solver;
  for (const std::vector<NetworkKernel>& kernels :
       {std::vector<NetworkKernel>{{{}, 1, {0}}},
        std::vector<NetworkKernel>{{{One(0, 1)}, 1, {}}}}) {
    EXPECT_FALSE(DivideNetwork(kernels, 10, WorkspaceDivision::kShared, solver).ok());
  }
  EXPECT_TRUE(DivideNetwork({}, 10, WorkspaceDivision::kShared, solver).ok());
}

// Exhaustive returns the least time over all assignments of a size to each kernel. Unless
// `disjoint`, a lane has the largest size of its kernels, and lanes that share a kernel have one
// size. Returns kNone if no assignment fits the budget.
constexpr double kNone = 1e300;
double Exhaustive(const std::vector<NetworkKernel>& kernels, size_t budget, bool disjoint) {
  std::vector<size_t> share(kernels.size(), 0);
  double best = kNone;
  const std::function<void(size_t)> choose = [&](size_t kernel) {
    if (kernel < kernels.size()) {
      for (const Configuration& choice : kernels[kernel].choices) {
        share[kernel] = choice.WorkspaceBytes();
        choose(kernel + 1);
      }
      return;
    }
    double time_ms = 0;
    size_t total = 0;
    std::map<int, size_t> lanes;
    for (size_t i = 0; i < kernels.size(); ++i) {
      for (const int lane : kernels[i].lanes) lanes[lane] = std::max(lanes[lane], share[i]);
      if (disjoint) total += share[i] * kernels[i].lanes.size();
    }
    for (size_t round = 0; round < kernels.size(); ++round) {
      for (const NetworkKernel& kernel : kernels) {
        size_t most = 0;
        for (const int lane : kernel.lanes) most = std::max(most, lanes[lane]);
        for (const int lane : kernel.lanes) lanes[lane] = most;
      }
    }
    for (size_t i = 0; i < kernels.size(); ++i) {
      time_ms += TimeWithin(kernels[i], disjoint ? share[i] : lanes[kernels[i].lanes[0]]);
    }
    if (!disjoint) {
      for (const auto& [lane, bytes] : lanes) total += bytes;
    }
    if (total <= budget) best = std::min(best, time_ms);
  };
  choose(0);
  return best;
}

TEST(NetworkDivision, IsTheLeastTimeOfAll) {
  int divisions = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return random() % n; };
    std::vector<NetworkKernel> kernels(1 + below(5));
    for (NetworkKernel& kernel : kernels) {
      size_t bytes = below(3) == 0 ? below(6) : 0;
      double time_ms = 64;
      for (unsigned choices = 1 + below(4); choices > 0; --choices) {
        kernel.choices.push_back(One(bytes, time_ms));
        bytes += 1 + below(9);
        time_ms -= 1 + below(15);
      }
      kernel.calls = 1 + below(3);
      for (int lane = 0; lane < 3; ++lane) {
        if (below(3) == 0) kernel.lanes.push_back(lane);
      }
      if (kernel.lanes.empty()) kernel.lanes.push_back(static_cast<int>(below(3)));
    }
    const size_t budget = below(40);
    for (const auto division : {WorkspaceDivision::kDisjoint, WorkspaceDivision::kConcurrent}) {
      const bool disjoint = division == WorkspaceDivision::kDisjoint;
      const double disjoint_ms = Exhaustive(kernels, budget, true);
      const double least_ms =
          disjoint ? disjoint_ms : std::min(disjoint_ms, Exhaustive(kernels, budget, false));
      EXPECT_EQ(FindShortage(kernels, budget, division).has_value(), least_ms == kNone);
      if (least_ms == kNone) continue;
      ++divisions;
      const DividedNetwork divided = Divide(kernels, budget, division);
      EXPECT_LE(divided.total_bytes, budget);
      size_t slots = 0;
      for (const Slot& slot : divided.slots) slots += slot.bytes;
      EXPECT_EQ(slots, divided.total_bytes);
      size_t in_groups = 0, grouped = 0;
      for (const DividedNetwork::Group& group : divided.groups) {
        std::set<int> lanes;
        for (const size_t kernel : group.kernels) {
          lanes.insert(kernels[kernel].lanes.begin(), kernels[kernel].lanes.end());
          EXPECT_EQ(divided.share_bytes[kernel], divided.share_bytes[group.kernels[0]]);
        }
        EXPECT_EQ(lanes.size(), group.lanes);
        in_groups += group.lanes * divided.share_bytes[group.kernels[0]];
        grouped += group.kernels.size();
      }
      EXPECT_EQ(in_groups, divided.total_bytes);
      EXPECT_EQ(grouped, kernels.size());
      EXPECT_EQ(divided.gap_ms, 0);
      double time_ms = 0;
      for (size_t i = 0; i < kernels.size(); ++i) {
        time_ms += TimeWithin(kernels[i], divided.share_bytes[i]);
      }
      EXPECT_DOUBLE_EQ(time_ms, divided.total_time_ms);
      EXPECT_TRUE(divided.optimal);
      EXPECT_DOUBLE_EQ(time_ms, least_ms);
    }
  }
  EXPECT_GT(divisions, 300);
}

}  // namespace
}  // namespace ucudnn::planning
