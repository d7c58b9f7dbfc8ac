#include "interposer/report/report.h"
#include "tests/support/becomes.h"
#include "tests/support/problem.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

namespace ucudnn::interposer {
namespace {

using nlohmann::json;

ConvolutionProblem Problem() {
  return test::ProblemWith(
      {.n = 10, .c = 3, .k = 5, .x = {1, 6, 7}, .w = {1, 3, 2}, .pad = {0, 1, 0}});
}

KernelRecord DividedRecord() {
  return {Problem(),
          "legacy:2",
          500,
          300,
          200,
          {{{{"legacy:1", 4, 1.5, 300, true}, 2}, {{"legacy:0", 2, 1, 0, true}, 1}}},
          {"legacy:0", 10, 6.5, 100, true},
          {"graph:5[k2=1]", 10, 5.25, 200, true},
          "divided into 3 micro-batches",
          "legacy"};
}

CountedKernel* Divided(Report& report) {
  bool fresh = false;
  return report.Record(DividedRecord(), nullptr, fresh);
}

class ReportFile : public ::testing::Test {
 protected:
  ReportFile() {
    std::string pattern = ::testing::TempDir() + "/report_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~ReportFile() override { std::filesystem::remove_all(folder_); }
  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  std::string folder_;
  Report report_;
};

TEST(Report, HasTheDocumentedShape) {
  Report report;
  report.SetPlatform({"a device", 91900, 13000});
  Divided(report)->calls = 7;
  report.AddFallback("forward 10x3", "a piece failed");
  report.AddFallback("forward 10x3", "a piece failed");
  const json found = json::parse(report.Json("on", 12));
  EXPECT_TRUE(found["ucudnn"].is_string());
  ASSERT_EQ(found["kernels"].size(), 1u);
  ASSERT_EQ(found["fallbacks"].size(), 1u);
  EXPECT_EQ(found["fallbacks"][0]["count"], 2);
  const auto expect = [](const json& all, const char* some) {
    json merged = all;
    merged.merge_patch(json::parse(some));
    EXPECT_EQ(all, merged);
  };
  expect(found, R"({"format": "ucudnn-report", "version": 2, "cudnn": 91900, "device": "a device",
                    "mode": "on", "measured": 12})");
  // The plan takes 4 ms for 10 images.
  expect(
      found["kernels"][0],
      R"({"op": "forward", "api": "legacy", "calls": 7, "limit_bytes": 500, "workspace_bytes": 300,
             "owned_workspace_bytes": 200, "reason": "divided into 3 micro-batches",
             "asked": "legacy:2", "total_ms": 4.0,
             "undivided": {"engine": "legacy:0", "workspace_bytes": 100, "total_ms": 6.5},
             "best_undivided": {"engine": "graph:5[k2=1]", "workspace_bytes": 200, "total_ms": 5.25},
             "plan": [{"engine": "legacy:1", "micro_batch": 4, "count": 2, "workspace_bytes": 300,
                       "piece_ms": 1.5},
                      {"engine": "legacy:0", "micro_batch": 2, "count": 1, "workspace_bytes": 0,
                       "piece_ms": 1.0}],
             "problem": {"n": 10, "c": 3, "h": 6, "w": 7, "k": 5, "r": 3, "s": 2, "pad_h": 1,
                         "pad_w": 0}})");
}

TEST(Report, WhatIsUnknownIsNull) {
  Report report;
  KernelRecord record = DividedRecord();
  record.undivided = record.best_undivided = {};
  record.configuration.runs[1].micro.time_ms = kUnknownTime;
  bool fresh = false;
  report.Record(record, nullptr, fresh);
  const json kernel = json::parse(report.Json("on", 0))["kernels"][0];
  for (const char* name : {"undivided", "best_undivided", "total_ms"}) {
    EXPECT_TRUE(kernel.contains(name) && kernel[name].is_null()) << name;
  }
  EXPECT_EQ(kernel["plan"][0]["piece_ms"], 1.5);
  EXPECT_TRUE(kernel["plan"][1]["piece_ms"].is_null());
}

TEST(Report, AnotherAlgorithmAskedForIsAnotherRecord) {
  Report report;
  KernelRecord other = DividedRecord();
  other.asked = "legacy:3";
  bool fresh = false;
  CountedKernel* const first = Divided(report);
  EXPECT_NE(report.Record(other, nullptr, fresh), first);
  const json kernels = json::parse(report.Json("on", 0))["kernels"];
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[1]["asked"], "legacy:3");
}

TEST(Report, EveryDevicesBudgetIsTold) {
  Report report;
  const int devices[3] = {};
  ReportedBudget idle;
  idle.total_bytes = 1000;
  ReportedBudget some = idle, most = idle;
  some.kernels = 2;
  most.kernels = 3;
  report.SetBudget(&devices[0], idle);
  report.SetBudget(&devices[1], some);
  report.SetBudget(&devices[2], some);
  report.SetBudget(&devices[2], most);
  const auto total = nlohmann::json::parse(report.Json("on", 0))["total_workspace"];
  EXPECT_EQ(total["kernels"], 3);
  ASSERT_EQ(total["other_devices"].size(), 1u);
  EXPECT_EQ(total["other_devices"][0]["kernels"], 2);
  EXPECT_EQ(total["optimal"], nullptr);
}

TEST(Report, EqualDecisionsShareARecord) {
  Report report;
  EXPECT_TRUE(report.empty());
  bool fresh = false;
  CountedKernel* const kernel = report.Record(DividedRecord(), nullptr, fresh);
  EXPECT_TRUE(fresh);
  EXPECT_EQ(report.Record(DividedRecord(), nullptr, fresh), kernel);
  EXPECT_FALSE(fresh);
  KernelRecord other = DividedRecord();
  other.limit_bytes = 501;
  EXPECT_NE(report.Record(other, nullptr, fresh), kernel);
  EXPECT_TRUE(fresh);
  EXPECT_FALSE(report.empty());
}

TEST(Report, ADecisionTakenAnewTakesOverTheCalls) {
  Report report;
  bool fresh = false;
  CountedKernel* const first = Divided(report);
  first->calls = 5;
  KernelRecord other = DividedRecord();
  other.reason = "a faster engine that fits";
  CountedKernel* const second = report.Record(other, first, fresh);
  EXPECT_TRUE(fresh);
  ASSERT_NE(second, first);
  EXPECT_EQ(second->calls, 5);
  const auto kernels = [&] { return json::parse(report.Json("on", 0))["kernels"]; };
  ASSERT_EQ(kernels().size(), 1u);
  EXPECT_EQ(kernels()[0]["reason"], "a faster engine that fits");
  first->calls = 1;  // counted by another thread, which still uses the old decision
  EXPECT_EQ(kernels().size(), 2u);
  // The next decision equals the first one, so it continues the first one's record, which takes
  // over the calls.
  EXPECT_EQ(report.Record(DividedRecord(), second, fresh), first);
  EXPECT_FALSE(fresh);
  EXPECT_EQ(first->calls, 6);
  ASSERT_EQ(kernels().size(), 1u);
  EXPECT_EQ(kernels()[0]["calls"], 6);
  EXPECT_EQ(report.Record(DividedRecord(), first, fresh), first);
  EXPECT_EQ(first->calls, 6);
  EXPECT_EQ(kernels().size(), 1u);
}

TEST(Report, KernelsNameTheLanesTheyWereCalledOn) {
  Report report;
  bool fresh = false;
  CountedKernel* const first = Divided(report);
  KernelRecord record = DividedRecord();
  record.limit_bytes = 1;
  CountedKernel* const second = report.Record(record, nullptr, fresh);
  const auto lanes = [&] {
    std::vector<json> all;
    const json found = json::parse(report.Json("on", 0));
    for (const json& kernel : found["kernels"]) all.push_back(kernel["lanes"]);
    return all;
  };
  EXPECT_EQ(lanes(), (std::vector<json>{json::array(), json::array()}));
  for (const uint64_t lane : {8, 2, 8}) first->Count(lane);
  second->Count(8);
  second->Count(32);
  EXPECT_EQ(first->calls, 3);
  EXPECT_EQ(lanes(), (std::vector<json>{{0, 1}, {1, 2}})) << "numbered anew";
  second->Count(uint64_t{1} << 63);
  second->Count(0);
  EXPECT_EQ(second->calls, 4);
  EXPECT_EQ(lanes(), (std::vector<json>{{0, 1}, {1, 2, 63}})) << "63 is any number of them";
  record.limit_bytes = 2;
  report.Record(record, second, fresh);
  EXPECT_EQ(lanes(), (std::vector<json>{{0, 1}, {1, 2, 63}})) << "as the calls do";
}

// Up to 512 records, each new record is a reason to write the report. Beyond that, the report is
// written again once a sixteenth of all records is unwritten.
TEST(Report, ManyRecordsAreWrittenByShares) {
  Report report;
  KernelRecord record = DividedRecord();
  bool fresh = false;
  size_t last = 0;
  for (size_t records = 1; records <= 4000; ++records) {
    record.limit_bytes = records;
    CountedKernel* const kernel = report.Record(record, nullptr, fresh);
    const size_t unwritten = records - last;
    EXPECT_EQ(fresh, records <= 512 || unwritten >= records / 16) << records;
    if (fresh) last = records;
    report.Record(record, kernel, fresh);
    EXPECT_FALSE(fresh) << "an old record";
  }
}

TEST(Report, BytesThatAreNoTextStayJson) {
  Report report;
  report.SetPlatform({"caf\xe9 \"GPU\"\n", 0, 0});
  report.AddFallback("kernel\xff", "cause\xc3");
  EXPECT_TRUE(json::accept(report.Json("on", 0)));
}

TEST_F(ReportFile, ReplacesTheProcessId) {
  ASSERT_TRUE(report_.Write(folder_ + "/a%p-%p.json", "on", 0).ok());
  const std::string pid = std::to_string(getpid());
  EXPECT_EQ(Files(), std::set{"a" + pid + "-" + pid + ".json"});
}

TEST_F(ReportFile, IsReadableByOthersAndLeavesNothingBehind) {
  const std::string path = folder_ + "/report.json";
  ASSERT_TRUE(report_.Write(path, "on", 0).ok());
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
  EXPECT_EQ(Files(), std::set<std::string>{"report.json"});
  EXPECT_TRUE(json::accept(Text(path)));
}

TEST_F(ReportFile, ReadersSeeAWholeReportAtAnyTime) {
  const std::string path = folder_ + "/report.json";
  for (int i = 0; i < 50; ++i) report_.AddFallback("kernel " + std::to_string(i), "cause");
  ASSERT_TRUE(report_.Write(path, "on", 0).ok());
  std::atomic<bool> done = false;
  std::atomic<int> read = 0;
  std::thread reader([&] {
    for (; !done; ++read) EXPECT_TRUE(json::accept(Text(path)));
  });
  EXPECT_TRUE(test::Becomes([&] { return read > 0; }));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(report_.Write(path, "on", i).ok());
  done = true;
  reader.join();
}

// While this object lives, no file can grow beyond `bytes`: writes fail as on a full disk.
class NoRoomBeyond {
 public:
  explicit NoRoomBeyond(size_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~NoRoomBeyond() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST_F(ReportFile, ADiskThatIsFullAtAnyByteKeepsTheOldOne) {
  const std::string path = folder_ + "/report.json";
  ASSERT_TRUE(report_.Write(path, "on", 0).ok());
  const std::string old = Text(path);
  Divided(report_);
  const size_t bytes = report_.Json("on", 0).size();
  ASSERT_GT(bytes, old.size());
  for (size_t room = 0; room <= bytes; ++room) {
    Status status;
    {
      const NoRoomBeyond limit(room);
      status = report_.Write(path, "on", 0);
    }
    ASSERT_EQ(status.ok(), room == bytes) << room;
    if (status.ok()) break;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
    ASSERT_EQ(Text(path), old) << room;
    ASSERT_EQ(Files(), std::set<std::string>{"report.json"}) << room;
  }
  EXPECT_EQ(Text(path), report_.Json("on", 0));
}

TEST_F(ReportFile, AnUnwritablePathIsNamed) {
  std::ofstream(folder_ + "/file") << "no folder";
  const std::string path = folder_ + "/file/report.json";
  const Status status = report_.Write(path, "on", 0);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
}

TEST_F(ReportFile, MakesTheFoldersThatAreMissing) {
  const std::string path = folder_ + "/missing/deeper/report.json";
  const Status status = report_.Write(path, "on", 0);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Text(path), report_.Json("on", 0));
}

TEST_F(ReportFile, AFolderInItsPlaceIsNamedAndNothingIsLeftBehind) {
  const std::string path = folder_ + "/report.json";
  std::filesystem::create_directory(path);
  const Status status = report_.Write(path, "on", 0);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  EXPECT_EQ(Files(), std::set<std::string>{"report.json"});
}

}  // namespace
}  // namespace ucudnn::interposer
