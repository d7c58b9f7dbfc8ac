// Two ranks on threads of a program meet one fault: an allocation inside libucudnn, a resource of
// the device, a question to cuDNN or a convolution fails, on whichever rank meets it, after the
// ranks have met. Each call gives the result of the undivided convolution, or a result with NaN, or
// it fails; a call that fails on one rank alone is an error on both from then on. The rank's own
// call is never the answer. A job fails once, so every fault has a process of its own.
// INTERPOSER_TEST_FAULTS=every, which tools/check --full sets, meets many more faults.
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
constexpr char kWhere[] = "SPLIT_WHERE";  // in every call, or in this one alone
constexpr std::string_view kEvery = "every", kRefusal = "refusal", kPlan = "plan";
// So many processes compute in less time than ranks wait for each other.
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

  // Expects that each call of both ranks failed, or gave NaN or the rank's part.
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
  // Returns whether one rank failed in a call in which the other did not.
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

  // Meets faults of `site`, some at once. The first one occurs.
  static void MeetEvery(const std::string& site, long stride, std::string_view where = kEvery) {
    // Every fault has a process of its own, and there are thousands; with "every", about
    // twenty-four times as many are met.
    stride = EveryFault() ? (stride + 3) / 4 : 6 * stride;
    // Many processes wait for a rank that is late.
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
  // Expects that a fault occurred since the last call, in a process that has ended.
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
    // No other call fails while the fault is armed.
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

// The report times exchanges, with thousands of events that are made at the first one.
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
  // Exceptions were caught where they must be.
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
