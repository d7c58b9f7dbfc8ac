// Tests processes of one job that measure at the same time and get different times. If they share a
// store, all of them end with the same plans.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "cuda/resources.h"
#include "db/sqlite_store.h"
#include "layer.h"
#include "libraries.h"
#include "options/options.h"
#include "queries.h"
#include "report_file.h"
#include "shim/host/hostgpu.h"
#include "suites.h"
#include "tuning/device_lock.h"
#include "tuning/measure.h"

namespace ucudnn::test {
namespace {

// The processes share these files in the test's folder.
constexpr char kMeetingFile[] = "/meeting";
constexpr char kIntervalFile[] = "/intervals";

int Number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

// --- A clock that differs between processes, and records when each measured ----------------------
struct Interval {
  long long from_ns, to_ns;
  long long process;
};

int interval_file = -1;

float NoisyTimer(long long from_ns, long long to_ns) {
  static std::mt19937 random(1000 + Number("RANK"));
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const Interval interval = {from_ns, to_ns, getpid()};
  EXPECT_EQ(write(interval_file, &interval, sizeof interval), ssize_t{sizeof interval});
  const double factor = std::uniform_real_distribution<double>(0.6, 1.6)(random);
  return static_cast<float>(static_cast<double>(to_ns - from_ns) * 1e-6 * factor);
}

void UseNoisyTimer() {
  interval_file = open((Folder() + kIntervalFile).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ASSERT_GE(interval_file, 0);
  hostgpuSetTimer(NoisyTimer);
}

std::vector<Interval> Intervals() {
  std::vector<Interval> intervals;
  std::ifstream file(Folder() + kIntervalFile, std::ios::binary);
  for (Interval one; file.read(reinterpret_cast<char*>(&one), sizeof one);)
    intervals.push_back(one);
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.from_ns < b.from_ns; });
  return intervals;
}

// --- A barrier for the processes of a job --------------------------------------------------------
class Meeting {
 public:
  Meeting() {
    const int file = open((Folder() + kMeetingFile).c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(std::atomic<int>)), 0);
    void* const page =
        mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(page, MAP_FAILED);
    arrived_ = static_cast<std::atomic<int>*>(page);
    close(file);
  }

  // Waits until every process of the job has called Wait as often as this process.
  void Wait() {
    ++*arrived_;
    ++times_;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(240);
    while (*arrived_ < times_ * Number("WORLD_SIZE")) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "a process never came";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  std::atomic<int>* arrived_;
  int times_ = 0;
};

// --- What every process runs --------------------------------------------------------------------
struct Work {
  explicit Work(Operation operation, int n, int algorithm)
      : convolution(LayerProblem(operation, n)),
        algorithm(algorithm),
        workspace(RealNeed(convolution, algorithm).value_or(0)) {
    convolution.FillIntegers(5);
    expected = convolution.Expected();
  }

  void Run() {
    SCOPED_TRACE(std::string(OperationName(convolution.problem().operation)) + " of " +
                 std::to_string(convolution.problem().n) + " images, algorithm " +
                 std::to_string(algorithm));
    EXPECT_EQ(convolution.Run(DropIn(), algorithm, workspace.data(), workspace.bytes()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  }

  Convolution convolution;
  const int algorithm;
  const GuardedMemory workspace;
  Bytes expected;
};

const std::vector<int> kAlgorithms = {0, 1};

std::vector<std::unique_ptr<Work>> AllWork(const std::vector<int>& batches) {
  std::vector<std::unique_ptr<Work>> all;
  for (const Operation operation : kOperations)
    for (const int n : batches)
      for (const int algorithm : kAlgorithms) {
        all.push_back(std::make_unique<Work>(operation, n, algorithm));
      }
  return all;
}

// Runs the steps of a training run, with mini-batches of each size in `batches`. The run has parts,
// and the processes wait for each other at the start of each part. Each number in `meetings` is the
// number of steps after which a part ends. After the same numbers of calls, ucudnn remakes the
// plans that are not final.
void RunSteps(const std::vector<int>& batches, const std::vector<int>& meetings) {
  if (Number("WORLD_SIZE") == 0) GTEST_SKIP() << "runs in the processes of other tests";
  UseNoisyTimer();
  Meeting meeting;
  const auto all = AllWork(batches);
  int step = 0;
  for (const int until : meetings) {
    meeting.Wait();
    for (; step < until; ++step) {
      for (const auto& work : all) work->Run();
      if (testing::Test::HasFailure()) return;
    }
  }
  for (const auto& work : all) {
    EXPECT_TRUE(work->convolution.NothingElseWasWritten());
    EXPECT_TRUE(work->workspace.GuardsAreIntact());
  }
}

Environment RankEnvironment(int rank, int ranks) {
  return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(ranks)}};
}

std::string ReportOf(int rank) { return "rank" + std::to_string(rank) + ".json"; }

// Runs `test` in `ranks` processes at the same time, with the additional variables `extra`.
void RunJob(const std::string& test, int ranks, const Environment& extra = {}) {
  std::vector<TestProcess> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    Environment environment = RankEnvironment(rank, ranks);
    environment.insert(environment.end(), extra.begin(), extra.end());
    processes.emplace_back(test, ReportOf(rank), environment);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(processes[rank].Passed()) << "rank " << rank;
  }
  std::remove((Folder() + kMeetingFile).c_str());
}

nlohmann::json ReadReportOf(const std::string& name) { return ReadReport(Folder() + "/" + name); }

// Returns the sorted kernels of a report without their numbers of calls, so that reports of several
// processes can be compared.
nlohmann::json Decided(const nlohmann::json& report) {
  std::vector<nlohmann::json> kernels;
  for (nlohmann::json kernel : report["kernels"]) {
    kernel.erase("calls");
    kernels.push_back(std::move(kernel));
  }
  std::sort(kernels.begin(), kernels.end());
  return kernels;
}

int Divided(const nlohmann::json& decided) {
  return static_cast<int>(std::count_if(decided.begin(), decided.end(),
                                        [](const auto& kernel) { return Pieces(kernel) > 1; }));
}

// Eight processes, each with its own device, share a store. They make equal plans, and a later
// process that only reads the store makes the same plans.
class Ranks : public testing::Test {
 protected:
  static constexpr int kRanks = 8;
  static inline const std::vector<int> kBatches = {16, 12};

  static Environment Sharing(const std::string& policy) {
    return {{"UCUDNN_BATCH_SIZE_POLICY", policy},
            {"UCUDNN_DATABASE", Folder() + "/" + policy + ".db"},
            {"HOSTGPU_DEVICES", std::to_string(kRanks)}};
  }
  static long Measured() {
    long measured = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      measured += ReadReportOf(ReportOf(rank))["measured"].get<long>();
    }
    return measured;
  }
  static void ExpectAllDecided(const nlohmann::json& expected) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(Decided(ReadReportOf(ReportOf(rank))), expected) << "rank " << rank;
    }
  }
  static void AgreeAndOneThatReadsToo(const std::string& policy) {
    RunJob("Ranks.Steps", kRanks, Sharing(policy));
    Environment reading = Sharing(policy);
    for (const auto& variable : RankEnvironment(0, 1)) reading.push_back(variable);
    reading.emplace_back("UCUDNN_TUNE", "off");
    ASSERT_TRUE(TestProcess("Ranks.Steps", "reader.json", reading).Passed());
    const nlohmann::json reader = ReadReportOf("reader.json");
    EXPECT_EQ(reader["measured"], 0);
    const nlohmann::json decided = Decided(reader);
    // NoisyTimer gives each process different times, so equal times must come from the store.
    for (const auto& kernel : decided) {
      EXPECT_TRUE(kernel["plan"][0]["piece_ms"].is_number()) << kernel.dump(1);
    }
    EXPECT_EQ(decided.size(), std::size(kOperations) * kBatches.size() * kAlgorithms.size());
    ExpectAllDecided(decided);
    EXPECT_GT(Measured(), 0);
  }
};

TEST_F(Ranks, Steps) { RunSteps(kBatches, {1, 8, 32, 128}); }

TEST_F(Ranks, AgreeUnderPolicyPowerOfTwo) { AgreeAndOneThatReadsToo("powerOfTwo"); }

TEST_F(Ranks, AgreeUnderPolicyAll) { AgreeAndOneThatReadsToo("all"); }

TEST_F(Ranks, AgreeUnderPolicyAuto) { AgreeAndOneThatReadsToo("auto"); }

// The ranks of the first job have too little time to measure everything. The ranks of a second job
// measure what the first job left unmeasured. Nothing is measured twice.
class HastyRanks : public Ranks {};

TEST_F(HastyRanks, LeaveTheRestToTheNextJob) {
  const std::string policy = "powerOfTwo";
  RunJob("Ranks.Steps", kRanks, Sharing(policy));
  const long measured = Measured();
  EXPECT_GT(measured, 0);
  Environment patient = Sharing(policy);
  patient.emplace_back("UCUDNN_TUNE_SECONDS", "600:6000");
  RunJob("Ranks.Steps", kRanks, patient);
  ExpectAllDecided(Decided(ReadReportOf(ReportOf(0))));
  const auto rows = db::SqliteStore({Folder() + "/" + policy + ".db"}).List();
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(static_cast<long>(rows->size()), measured + Measured());
}

TEST_F(Ranks, AreToldThatPlansMayDifferWithoutACommonStore) {
  const std::string told = "ranks that share no store may choose different plans";
  const auto causes = [&](const Environment& environment, const std::string& report) {
    EXPECT_TRUE(TestProcess("Ranks.Steps", report, environment).Passed());
    int count = 0;
    const nlohmann::json written = ReadReportOf(report);
    for (const auto& fallback : written["fallbacks"]) {
      if (fallback["cause"].get<std::string>().find(told) != std::string::npos) {
        count += fallback["count"].get<int>();
      }
    }
    return count;
  };
  const std::pair<std::string, std::string> none = {"UCUDNN_DATABASE", "none"};
  const std::pair<std::string, std::string> unwritable = {"UCUDNN_DATABASE", "/dev/null/no.db"};
  const std::pair<std::string, std::string> alone = {"WORLD_SIZE", "1"}, rank = {"RANK", "0"};
  EXPECT_EQ(causes({alone, rank, none}, "none.json"), 1);
  EXPECT_EQ(causes({alone, rank, unwritable}, "unwritable.json"), 1);
  EXPECT_EQ(causes({alone, rank}, "shared.json"), 0);
  EXPECT_EQ(causes({alone, none}, "no-job.json"), 0);
}

// --- Many processes that measure at the same time ------------------------------------------------
class Crowd : public testing::Test {
 protected:
  static constexpr int kProcesses = 32;
  static long StoredRows() {
    const auto rows = db::SqliteStore({DatabasePath()}).List();
    EXPECT_TRUE(rows.ok()) << rows.message();
    return rows.ok() ? static_cast<long>(rows->size()) : -1;
  }
};

// Every process runs one mini-batch size that all processes run, and one that no other process
// runs.
TEST_F(Crowd, Steps) { RunSteps({16, 17 + Number("RANK")}, {1, 8, 16}); }

TEST_F(Crowd, MeasuresOneAtATimeAndLosesNoRow) {
  RunJob("Crowd.Steps", kProcesses);
  long measured = 0;
  for (int rank = 0; rank < kProcesses; ++rank) {
    measured += ReadReportOf(ReportOf(rank))["measured"].get<long>();
  }
  // There are as many rows as measurements, so no process repeated another's measurement.
  EXPECT_EQ(StoredRows(), measured);
  const std::vector<Interval> intervals = Intervals();
  std::set<long long> measuring;
  for (size_t i = 0; i < intervals.size(); ++i) {
    measuring.insert(intervals[i].process);
    if (i == 0) continue;
    ASSERT_LE(intervals[i - 1].to_ns, intervals[i].from_ns)
        << intervals[i - 1].process << " and " << intervals[i].process << " measured at once";
  }
  EXPECT_GT(measuring.size(), 1u);
}

// --- A device on which another process measures all the time -------------------------------------
class Waiting : public testing::Test {
 protected:
  static constexpr int kProcesses = 8;
};

TEST_F(Waiting, Steps) { RunSteps({16}, {2, 3, 64}); }

TEST_F(Waiting, EndsInsideTheBudgetAndWhatOthersMeasuredIsUsedLater) {
  CUdevice device;
  CUcontext context;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  const Result<std::string> name =
      tuning::DeviceName({cuda::GetDriver(), &Undivided(), context, CurrentPlatform()});
  ASSERT_TRUE(name.ok()) << name.message();
  const auto lock = tuning::DeviceLock::Acquire(ProcessOptions().lock_folder, *name,
                                                tuning::Clock::now() + std::chrono::minutes(1));
  ASSERT_TRUE(lock.has_value());

  std::vector<TestProcess> processes;
  for (int rank = 0; rank < kProcesses; ++rank) {
    // The job has one more rank than processes, because this process also waits in the job's
    // meetings.
    processes.emplace_back("Waiting.Steps", ReportOf(rank), RankEnvironment(rank, kProcesses + 1));
  }
  setenv("WORLD_SIZE", std::to_string(kProcesses + 1).c_str(), 1);
  Meeting meeting;
  meeting.Wait();
  meeting.Wait();
  for (int rank = 0; rank < kProcesses; ++rank) {
    const nlohmann::json report = ReadReportOf(ReportOf(rank));
    for (const auto& kernel : report["kernels"]) {
      EXPECT_EQ(Pieces(kernel), 1) << kernel.dump(1);
    }
  }
  PrimeLayer();
  meeting.Wait();
  for (int rank = 0; rank < kProcesses; ++rank) {
    EXPECT_TRUE(processes[rank].Passed()) << "rank " << rank;
    const nlohmann::json report = ReadReportOf(ReportOf(rank));
    EXPECT_EQ(report["measured"], 0);
    EXPECT_GE(Divided(Decided(report)), 3) << report.dump(1);
    EXPECT_EQ(Decided(report), Decided(ReadReportOf(ReportOf(0))));
    bool waited = false;
    for (const auto& fallback : report["fallbacks"]) {
      waited |= fallback["cause"].get<std::string>().find("others measure on the device") !=
                std::string::npos;
    }
    EXPECT_TRUE(waited) << report["fallbacks"].dump(1);
  }
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Ranks", {}},
       {"HastyRanks", {{"UCUDNN_TUNE_SECONDS", "0.02:0.2"}}},
       {"Crowd", {}},
       {"Waiting", {{"UCUDNN_TUNE_SECONDS", "0.05:0.5"}}}},
      {{"UCUDNN_WORKSPACE_LIMIT", std::to_string(ucudnn::test::kTightBytes)}});
}
