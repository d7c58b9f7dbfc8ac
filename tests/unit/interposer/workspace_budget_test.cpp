// Tests WorkspaceBudget alone, on the stand-in's driver: which owner has which segment, and that no
// segment is lost when its owner leaves.
#include "interposer/budget/workspace_budget.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "interposer/session/ordered_handles.h"
#include "tests/support/device.h"

namespace ucudnn::interposer {
namespace {

using Progress = KernelSequence::Progress;

// Returns a different kernel for each `number`.
BudgetKernel Kernel(int number) {
  BudgetKernel kernel;
  kernel.problem.n = 1;
  kernel.problem.k = number + 1;
  return kernel;
}

// Returns a slow choice without workspace, and a fast one with `bytes`.
std::vector<Configuration> Choices(size_t bytes) {
  return {{{{{"legacy:0", 1, 10, 0, true}, 1}}}, {{{{"legacy:1", 1, 1, bytes, true}, 1}}}};
}

class WorkspaceBudgetTest : public test::DeviceTest {
 protected:
  static constexpr int kHandles = 6, kStreams = 3;

  void SetUp() override {
    for (CUstream& stream : streams) {
      ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
  }
  void TearDown() override {
    budget.reset();
    for (const CUstream stream : streams) EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
  void Make(size_t budget_bytes, WorkspaceDivision division) {
    budget.reset();
    order.clear();
    ordered = {};
    budget = std::make_unique<WorkspaceBudget>(driver, context, budget_bytes, division);
  }
  void Destroy(int handle) {
    budget->Closed(budget->Close(&handles[handle], ordered.Leave(&handles[handle])));
  }
  // Declares the order of two handles, as Sessions::DeclareOrder does: they become one owner.
  void Declare(int first, int second) {
    const void *const one = &handles[first], *const other = &handles[second];
    const Status may = budget->MayOrder({one, ordered.NameOf(one), other, ordered.NameOf(other)});
    ASSERT_TRUE(may.ok()) << may.message();
    const OrderedHandles::Lane lane = ordered.Join(one, other);
    for (const void* const handle : lane.handles) order[handle] = lane.name;
  }
  ArenaOwner Owner(int handle, int stream) const {
    const auto declared = order.find(&handles[handle]);
    if (declared == order.end()) return *OwnerOf(driver, &handles[handle], streams[stream]);
    ArenaOwner owner{declared->second};
    owner.capturable = true;
    return owner;
  }
  struct Call {
    int handle = 0, stream = 0, kernel = 0;
  };
  // Runs the kernels of `calls` until their network is known, and then divides the budget. Kernel i
  // needs bytes[i].
  void Learn(const std::vector<Call>& calls, const std::vector<size_t>& bytes) {
    Progress known = Progress::kNotYet;
    for (int iteration = 0; iteration < 300 && known == Progress::kNotYet; ++iteration) {
      for (const Call& call : calls) {
        if (known != Progress::kNotYet) break;
        known = budget->Run(Kernel(call.kernel), Owner(call.handle, call.stream));
      }
    }
    ASSERT_EQ(known, Progress::kRepeated);
    Divide(bytes, known);
  }
  void Divide(const std::vector<size_t>& bytes, Progress known) {
    const std::vector<BudgetKernel> kernels = budget->Kernels();
    std::vector<std::vector<Configuration>> choices;
    for (const BudgetKernel& kernel : kernels) {
      choices.push_back(Choices(bytes[kernel.problem.k - 1]));
    }
    const Status status = budget->Divide(kernels, std::move(choices), known);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Makes a budget that follows a workspace plan. Kernels 0 and 1 share a segment of 1000 bytes, of
  // which there are `copies` copies. Kernel 2 has a segment of 300 bytes.
  void Follow(size_t budget_bytes, size_t copies) {
    budget.reset();
    plan = {};
    for (int number = 0; number < 3; ++number) {
      plan.kernels.push_back({Kernel(number).problem});
      plan.kernels.back().segment = number / 2;
      plan.legacy_positions[Kernel(number).problem] = number;
    }
    plan.segments = {{1000, false, copies}, {300}};
    plan.total_bytes = budget_bytes;
    plan.reserved_bytes = 1000 * copies + 300;
    budget = std::make_unique<WorkspaceBudget>(
        driver, context, budget_bytes, WorkspaceDivision::kConcurrent, std::string(), &plan);
  }
  // Takes a segment of `bytes` for the call's kernel. Returns an empty segment if the kernel's
  // share of the budget is smaller.
  WorkspaceBudget::Segment Take(const Call& call, size_t bytes) {
    const ArenaOwner owner = Owner(call.handle, call.stream);
    const WorkspaceBudget::Share share = budget->ShareOf(Kernel(call.kernel), owner);
    if (share.bytes < bytes) return {};
    return budget->Take(owner, {bytes, share.kernel, budget->epoch()}, streams[call.stream]);
  }

  const cuda::Driver& driver = *cuda::GetDriver();
  CUstream streams[kStreams] = {};
  const char handles[kHandles] = {};
  OrderedHandles ordered;
  std::map<const void*, const void*> order;
  planning::WorkspacePlan plan;  // outlives `budget`
  std::unique_ptr<WorkspaceBudget> budget;
};

// A segment, and the lane that took it. A lane is a set of calls that the program knows to run in
// order.
struct Taken {
  WorkspaceBudget::Segment segment;
  std::pair<int, int> lane;  // a declared group, or a handle and a stream
  int kernel = 0;            // the kernel's number in the division; -1 if it came later

  bool Shares(const Taken& other) const {
    const auto* const begin = static_cast<const char*>(segment.memory.data);
    const auto* const others = static_cast<const char*>(other.segment.memory.data);
    return begin < others + other.segment.memory.bytes && others < begin + segment.memory.bytes;
  }
};

TEST_F(WorkspaceBudgetTest, SegmentsAreSharedWhereOrderIsDeclaredAndNowhereElse) {
  size_t shared_by_declaration = 0;
  int apart = 0, together = 0;
  std::atomic<bool> held = false;
  const auto wait = [](void* on) {
    while (static_cast<std::atomic<bool>*>(on)->load()) std::this_thread::yield();
  };
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    const auto division = static_cast<WorkspaceDivision>(any(0, 2));
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + WorkspaceDivisionName(division));
    const size_t budget_bytes = size_t(any(1, 40)) * 1000;
    Make(budget_bytes, division);
    for (const char& handle : handles) budget->Open(&handle);
    // Declares the order of random pairs of handles. Finds by brute force which handles are
    // ordered.
    int group[kHandles];
    bool declared[kHandles] = {};
    std::iota(group, group + kHandles, 0);
    for (int pair = any(0, 4); pair > 0; --pair) {
      const int first = any(0, kHandles - 1), second = any(0, kHandles - 1);
      Declare(first, second);
      declared[first] = declared[second] = true;
      std::replace(group, group + kHandles, int(group[second]), int(group[first]));
    }
    const int kernels = any(1, 6);
    std::vector<size_t> bytes;
    for (int kernel = 0; kernel < kernels; ++kernel) bytes.push_back(size_t(any(1, 6)) * 500);
    std::vector<Call> calls;
    for (int call = any(1, 12); call > 0; --call) {
      calls.push_back({any(0, kHandles - 1), any(0, kStreams - 1), any(0, kernels - 1)});
    }
    const auto lane_of = [&](const Call& call) {
      const bool ordered = declared[call.handle];
      return std::pair(ordered ? group[call.handle] : call.handle, ordered ? -1 : call.stream);
    };
    const auto taken_by = [&](const Call& call) {
      return Taken{Take(call, bytes[call.kernel]), lane_of(call),
                   budget->ShareOf(Kernel(call.kernel), Owner(call.handle, call.stream)).kernel};
    };
    const auto check = [&](std::vector<Taken>& all) {
      std::erase_if(all, [](const Taken& one) { return one.segment.memory.data == nullptr; });
      for (const Taken& one : all) {
        for (const Taken& other : all) {
          if (!one.Shares(other)) continue;
          EXPECT_EQ(one.lane, other.lane) << "kernels " << one.kernel << ", " << other.kernel;
          shared_by_declaration += one.lane.second < 0;
        }
      }
      EXPECT_LE(budget->bytes(), budget_bytes);
    };
    // While the network is learned, all calls of one iteration hold their segments at the same
    // time.
    std::vector<Taken> lent;
    for (const Call& call : calls) lent.push_back(taken_by(call));
    check(lent);
    for (const Taken& one : lent) {
      EXPECT_TRUE(one.segment.lent);
      budget->GiveBack(one.segment.memory, streams[0]);
    }
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    Learn(calls, bytes);
    // If lanes have a kernel in common, one segment per kernel (`own`) may be faster than one
    // segment per lane. If each lane has its own kernels, it never is.
    const bool own = budget->SlotOwner({}, 0).kernel == 0;
    const bool in_common = std::any_of(calls.begin(), calls.end(), [&](const Call& one) {
      return std::any_of(calls.begin(), calls.end(), [&](const Call& other) {
        return one.kernel == other.kernel && lane_of(one) != lane_of(other);
      });
    });
    if (division == WorkspaceDivision::kDisjoint) {
      EXPECT_TRUE(own);
    } else {
      EXPECT_LE(own, in_common);
      (own ? apart : together) += in_common;
    }
    // Adds calls that were not made while the network was learned.
    for (int call = any(0, 6); call > 0; --call) {
      calls.push_back({any(0, kHandles - 1), any(0, kStreams - 1), any(0, kernels - 1)});
    }
    std::vector<Taken> kept;
    for (const bool earlier_is_over : {false, false, true, true, true, true, true, true}) {
      if (earlier_is_over) {
        held = false;
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      }
      // An owner that takes a larger segment gives up its old one. No other owner can get the old
      // segment while the streams are held up.
      held = true;
      for (const CUstream stream : streams) {
        ASSERT_EQ(cuLaunchHostFunc(stream, wait, &held), CUDA_SUCCESS);
      }
      kept.clear();
      for (const Call& call : calls) kept.push_back(taken_by(call));
      check(kept);
    }
    held = false;
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    for (const Taken& one : kept) {
      EXPECT_FALSE(one.segment.lent);
      for (const Taken& other : kept) {
        if (one.lane != other.lane) continue;
        EXPECT_EQ(one.Shares(other), !own || one.kernel == other.kernel) << "of one lane";
      }
    }
  }
  EXPECT_GT(shared_by_declaration, 100u);
  EXPECT_GT(apart, 0) << "both kinds were met";
  EXPECT_GT(together, 100);
}

TEST_F(WorkspaceBudgetTest, ALaneWhoseHandleIsGoneHasNoPartOfTheDivision) {
  for (const bool before : {false, true}) {
    SCOPED_TRACE(before ? "before it is known" : "while its memory is waited for");
    Make(3000, WorkspaceDivision::kConcurrent);
    for (const int handle : {0, 1}) budget->Open(&handles[handle]);
    const std::vector<Call> both = {{0, 0, 0}, {0, 0, 1}, {1, 1, 2}, {1, 1, 3}};
    const std::vector<size_t> bytes = {1000, 1000, 2000, 2000};
    if (before) {
      for (const Call& call : both) budget->Run(Kernel(call.kernel), Owner(call.handle, 1));
      Destroy(1);
      Learn({both[0], both[1]}, bytes);
      EXPECT_EQ(budget->summary().kernels, 2u);
    } else {
      const WorkspaceBudget::Segment lent = Take(both[0], 500);
      Learn(both, bytes);
      EXPECT_EQ(budget->summary().shares_bytes, 3000u);
      Destroy(1);
      budget->GiveBack(lent.memory, streams[0]);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    EXPECT_NE(Take(both[0], 1000).memory.data, nullptr);
    EXPECT_LE(budget->bytes(), 2000u) << "and what it leaves is ready for a capture";
  }
}

TEST_F(WorkspaceBudgetTest, KernelsOfOneProblemAreToldApartByApiAndPlan) {
  Make(3000, WorkspaceDivision::kConcurrent);
  BudgetKernel legacy = Kernel(0), plan = Kernel(0), other = Kernel(0);
  plan.api = other.api = Api::kGraph;
  plan.plan = 1;
  other.plan = 2;
  for (const BudgetKernel& kernel : {legacy, plan, other, plan, legacy}) budget->Ask(kernel);
  const std::vector<BudgetKernel> kernels = budget->Kernels();
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].api, Api::kLegacy);
  EXPECT_EQ(kernels[1].plan, 1u);
  EXPECT_EQ(kernels[2].plan, 2u);
}

TEST_F(WorkspaceBudgetTest, HandlesThatComeAndGoAlwaysHaveTheirShare) {
  Make(3000, WorkspaceDivision::kConcurrent);
  for (const int handle : {0, 1}) budget->Open(&handles[handle]);
  Learn({{0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {1, 1, 1}}, {500, 1000});
  for (int time = 0; time < 20; ++time) {
    Destroy(1);
    budget->Open(&handles[1]);
    const int stream = time % kStreams;
    // The smaller kernel runs first. Its segment is already large enough for the lane's larger
    // kernel.
    const WorkspaceBudget::Segment small = Take({1, stream, 0}, 500),
                                   large = Take({1, stream, 1}, 1000);
    ASSERT_NE(small.memory.data, nullptr) << time;
    EXPECT_EQ(small.memory.data, large.memory.data);
    ASSERT_NE(Take({0, 0, 1}, 1000).memory.data, nullptr);
    EXPECT_LE(budget->bytes(), 3000u);
  }
}

TEST_F(WorkspaceBudgetTest, AHandleMadeAnewGoesOnWhereTheLastOneOnItsStreamWas) {
  Make(3000, WorkspaceDivision::kConcurrent);
  Progress known = Progress::kNotYet;
  for (int iteration = 0; iteration < 2; ++iteration) {
    budget->Open(&handles[iteration]);
    for (const int kernel : {0, 1}) known = budget->Run(Kernel(kernel), Owner(iteration, 0));
    if (iteration == 0) Destroy(0);
  }
  EXPECT_EQ(known, Progress::kRepeated);
}

TEST_F(WorkspaceBudgetTest, KernelsThatAreMetLaterRunInWhatIsLeftOneAfterTheOther) {
  Make(5000, WorkspaceDivision::kDisjoint);
  budget->Open(&handles[0]);
  Learn({{0, 0, 0}, {0, 0, 1}}, {1000, 1000});
  std::set<void*> planned;
  for (const int kernel : {0, 1}) planned.insert(Take({0, 0, kernel}, 1000).memory.data);
  EXPECT_THAT(planned, testing::SizeIs(2));
  for (int kernel = 2; kernel < 100; ++kernel) {
    void* const later = Take({0, 0, kernel}, 1500).memory.data;
    ASSERT_NE(later, nullptr) << kernel;
    EXPECT_FALSE(planned.contains(later));
    EXPECT_LE(budget->bytes(), 5000u);
  }
}

// A copy that is kept for a stream is given neither to captures nor to kernels that the file lacks
// nor to a third stream, even if they ask first.
TEST_F(WorkspaceBudgetTest, CopiesOfAFilesSegmentAreKeptForTheirStreams) {
  for (const size_t left : {size_t{0}, size_t{400}, size_t{1000}}) {
    SCOPED_TRACE(left);
    Follow(2300 + left, 2);
    budget->Open(&handles[0]);
    budget->Open(&handles[1]);
    void* const first = Take({0, 0, 0}, 1000).memory.data;
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(Take({0, 0, 1}, 1000).memory.data, first) << "kernels of one stream take turns";
    EXPECT_EQ(budget->summary().capture_bytes, left);
    EXPECT_EQ(Take({0, 0, 9}, 1).memory.data, nullptr) << "what the file lacks has what is left";
    void* const second = Take({0, 1, 1}, 1000).memory.data;
    ASSERT_NE(second, nullptr);
    EXPECT_NE(second, first);
    EXPECT_EQ(Take({0, 2, 0}, 1000).memory.data, nullptr) << "a third stream";
    EXPECT_NE(Take({0, 2, 2}, 300).memory.data, nullptr) << "another segment";
    EXPECT_EQ(budget->bytes(), 2300 + left);
    // Once a handle is destroyed, its copies are kept for the file's kernels again.
    Destroy(0);
    EXPECT_EQ(budget->bytes(), 0u);
    EXPECT_EQ(Take({1, 0, 9}, 1).memory.data != nullptr, left > 0);
    for (const int stream : {1, 2}) EXPECT_NE(Take({1, stream, 0}, 1000).memory.data, nullptr);
    EXPECT_NE(Take({1, 0, 2}, 300).memory.data, nullptr);
    EXPECT_EQ(budget->bytes(), 2300 + left);
  }
}

TEST_F(WorkspaceBudgetTest, CopiesAreKeptWhileAKernelOfTheirSegmentHolds) {
  Follow(2300, 2);
  budget->Open(&handles[0]);
  budget->Drop(Kernel(0).problem);
  budget->Drop(Kernel(0).problem);
  EXPECT_EQ(Take({0, 0, 0}, 1).memory.data, nullptr) << "it has what is left: nothing";
  ASSERT_NE(Take({0, 0, 1}, 1000).memory.data, nullptr);
  budget->Drop(Kernel(1).problem);
  EXPECT_NE(Take({0, 1, 1}, 1000).memory.data, nullptr) << "the second copy is nobody's";
  EXPECT_NE(Take({0, 1, 2}, 300).memory.data, nullptr);
  EXPECT_EQ(budget->bytes(), 2300u);
}

TEST_F(WorkspaceBudgetTest, TheCapturesSegmentIsReadyAgainForHandlesThatComeAfterTheLast) {
  Make(3000, WorkspaceDivision::kConcurrent);
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured ? "after a capture" : "unused");
    budget->Open(&handles[0]);
    if (!captured) Learn({{0, 0, 0}, {0, 0, 1}}, {1000, 1000});
    ASSERT_NE(Take({0, 0, 0}, 1000).memory.data, nullptr);
    EXPECT_EQ(budget->bytes(), 2000u);
    if (captured) {
      EXPECT_NE(budget->TakeForCapture({1}, Owner(0, 0), {1000}).data, nullptr);
    }
    Destroy(0);
    EXPECT_EQ(budget->bytes(), captured ? 1000u : 0u);
  }
  budget->Open(&handles[0]);
  ASSERT_NE(Take({0, 0, 0}, 1000).memory.data, nullptr);
  EXPECT_NE(budget->TakeForCapture({2}, Owner(0, 0), {1000}).data, nullptr);
}

}  // namespace
}  // namespace ucudnn::interposer
