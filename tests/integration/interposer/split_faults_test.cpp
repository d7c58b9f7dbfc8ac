// Tests two ranks, on threads of one process, while one call fails on one of them: an allocation
// inside libucudnn, a device resource, a query of cuDNN or a convolution.
//
// Each split call gives the result of the undivided convolution or a result with NaN, or it fails.
// If a call failed on one rank only, later calls fail on both ranks. No call silently gives the
// result of only the stripe. After a failure, a job keeps failing, so every fault needs a new
// process. INTERPOSER_TEST_FAULTS=every, which tools/check --full sets, tries many more faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "faults.h"
#include "split_rank.h"
#include "suites.h"
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr char kSite[] = "SPLIT_SITE", kOccurrence[] = "SPLIT_OCCURRENCE";
// SPLIT_WHERE says when the fault is armed: during all calls, during the refused call, or while the
// plan is made and called.
constexpr char kWhere[] = "SPLIT_WHERE";
constexpr std::string_view kEvery = "every", kRefusal = "refusal", kPlan = "plan";
// The number of processes that may run at the same time. With more, calls might take longer than
// ranks wait for each other.
#if defined(__SANITIZE_THREAD__)
constexpr long kMostAtOnce = 4;
#elif defined(__SANITIZE_ADDRESS__)
constexpr long kMostAtOnce = 6;
#else
constexpr long kMostAtOnce = 12;
#endif

class SplitFaults : public testing::Test {
 protected:
  static std::string FileOf(const std::string& what) { return Folder() + "/" + what; }
  static void Tell(const std::string& what) { std::ofstream(FileOf(what)) << "so\n"; }
  static bool WasTold(const std::string& what) { return std::filesystem::exists(FileOf(what)); }

  // Expects that each call of each rank failed, or gave a NaN, or gave the rank's part of the
  // result.
  static void CheckRound(const std::vector<Expected>& expected, const Round (&round)[kRanks]) {
    for (size_t i = 0; i < round[0].size(); ++i) {
      for (int rank = 0; rank < kRanks; ++rank) {
        const Given& given = round[rank][i];
        if (given.status != CUDNN_STATUS_SUCCESS) continue;
        const std::vector<double> part = expected[i % expected.size()].PartOf(rank);
        const bool has_nan = std::any_of(given.values.begin(), given.values.end(),
                                         [](double value) { return std::isnan(value); });
        EXPECT_TRUE(has_nan || given.values == part) << "call " << i << " of rank " << rank;
      }
    }
  }
  // Returns whether a call failed on one rank and succeeded on the other.
  static bool FailedOnOne(const Round (&round)[kRanks]) {
    for (size_t i = 0; i < round[0].size(); ++i) {
      if ((round[0][i].status == CUDNN_STATUS_SUCCESS) !=
          (round[1][i].status == CUDNN_STATUS_SUCCESS)) {
        return true;
      }
    }
    return false;
  }

  static TestProcess Process(const std::string& site, long at, std::string_view where,
                             const std::string& report) {
    return TestProcess(
        "SplitFaults.MeetsOne", report,
        {{kSite, site}, {kOccurrence, std::to_string(at)}, {kWhere, std::string(where)}});
  }

  // Starts processes, several at the same time. In each process, a later occurrence at `site` fails
  // than in the process started before it. Ends when a process has too few occurrences for its
  // fault. Expects that the first fault occurred.
  static void MeetEvery(const std::string& site, long stride, std::string_view where = kEvery) {
    // There are thousands of faults, so only every (6 * `stride`)-th fault is tried. With
    // INTERPOSER_TEST_FAULTS=every, every (`stride` / 4)-th (rounded up) is tried, which is up to
    // 24 times as many.
    stride = EveryFault() ? (stride + 3) / 4 : 6 * stride;
    // Processes mostly wait for a rank that failed, so many can run at the same time.
    const long at_once = EveryFault() ? kMostAtOnce : 4;
    for (long kth = 1; !WasTold("none so late") && !HasFailure(); kth += at_once * stride) {
      std::vector<std::pair<long, TestProcess>> processes;
      for (long i = 0; i < at_once; ++i) {
        const long at = kth + i * stride;
        processes.emplace_back(at, Process(site, at, where, ""));
      }
      for (auto& [at, process] : processes) {
        EXPECT_TRUE(process.Passed()) << site << " " << at;
      }
    }
    ExpectMet(site);
  }
  // Expects that a fault has occurred in some process since the last call of ExpectMet.
  static void ExpectMet(const std::string& site) {
    EXPECT_TRUE(std::filesystem::remove(FileOf("occurred"))) << site;
    std::filesystem::remove(FileOf("none so late"));
  }
};

TEST_F(SplitFaults, MeetsOne) {
  const char* const site = std::getenv(kSite);
  if (site == nullptr) GTEST_SKIP() << "runs for the others";
  Fault fault(site, std::atol(std::getenv(kOccurrence)));
  const std::string_view where = std::getenv(kWhere);
  std::vector<Expected> expected;
  for (const Operation operation : kOperations) expected.emplace_back(operation);
  Round faulty[kRanks], later[kRanks];
  cudnnStatus_t refused[kRanks] = {};
  std::array<bool, kRanks> has_plan = {};
  std::barrier meet(kRanks);
  OnThreads(kRanks, [&](int number) {
    SplitRank rank(number);
    // The ranks wait for each other before and after the fault is armed.
    const auto arm_before = [&](std::string_view what) {
      meet.arrive_and_wait();
      if (number == 0 && where == what) fault.Arm();
      meet.arrive_and_wait();
    };
    arm_before(kEvery);
    rank.Call(faulty[number]);
    arm_before(kRefusal);
    refused[number] = rank.CallRefused();
    meet.arrive_and_wait();
    if (number == 0 && where == kRefusal) fault.Disarm();
    arm_before(kPlan);
    has_plan[static_cast<size_t>(number)] = rank.MakePlan();
    meet.arrive_and_wait();
    const bool on_both = has_plan[0] && has_plan[1];
    if (on_both) rank.CallPlan(faulty[number]);
    meet.arrive_and_wait();
    if (number == 0 && where != kRefusal) fault.Disarm();
    meet.arrive_and_wait();
    rank.Read(faulty[number]);
    rank.Call(later[number]);
    if (on_both) rank.CallPlan(later[number]);
    rank.Read(later[number]);
  });
  const bool occurred = fault.occurred();
  CheckRound(expected, faulty);
  CheckRound(expected, later);
  EXPECT_FALSE(FailedOnOne(later));
  const bool broken = FailedOnOne(faulty) || refused[0] != refused[1];
  for (const Given& given : later[0]) {
    EXPECT_FALSE(broken && given.status == CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(occurred || given.status == CUDNN_STATUS_SUCCESS) << given.status;
  }
  for (const cudnnStatus_t status : refused) {
    EXPECT_TRUE(status == CUDNN_STATUS_NOT_SUPPORTED ||
                (occurred && status != CUDNN_STATUS_SUCCESS));
    if (status == CUDNN_STATUS_EXECUTION_FAILED && !FailedOnOne(faulty)) Tell("refusal failed");
  }
  EXPECT_TRUE(occurred || (has_plan[0] && has_plan[1]));
  Tell(occurred ? "occurred" : "none so late");
  if (has_plan[0] != has_plan[1]) Tell("plan failed");
  for (const std::string& line : LogLines()) {
    if (line.find("out of memory in a split call") != std::string::npos) Tell("call failed");
  }
}

TEST_F(SplitFaults, OfResourcesAndQueries) {
  for (const char* site : {"alloc", "stream", "event", "synchronize", "query", "plan"}) {
    MeetEvery(site, 3);
  }
}

// With a report, exchanges are timed. For these times, the first exchange creates thousands of
// events.
TEST_F(SplitFaults, OfTheReport) {
  for (const char* site : {"event", "alloc", "query"}) {
    for (const long at : {1, 9, 30, 60, 100, 1000, 4150, 8190}) {
      EXPECT_TRUE(Process(site, at, kEvery, "report.json").Passed()) << site << " " << at;
    }
    ExpectMet(site);
  }
}

TEST_F(SplitFaults, OfConvolutions) { MeetEvery("convolution", 2); }

TEST_F(SplitFaults, OfAllocations) {
  if (!AllocationsCanFail()) GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail";
  const std::string site(kHostMemory);
  MeetEvery(site, 97);
  MeetEvery(site, 5, kRefusal);
  MeetEvery(site, 23, kPlan);
  // Failed allocations must have caused each of these errors at least once.
  for (const char* what : {"call failed", "refusal failed", "plan failed"}) {
    EXPECT_TRUE(WasTold(what)) << what;
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv,
                                 {{"SplitFaults",
                                   {{"UCUDNN_TUNE", "off"},
                                    {"UCUDNN_SPATIAL", "h2"},
                                    {"UCUDNN_SPATIAL_TRANSPORT", "loopback"},
                                    {"UCUDNN_SPATIAL_TIMEOUT", "3"},
                                    {"UCUDNN_REPORT", ""}}}});
}
