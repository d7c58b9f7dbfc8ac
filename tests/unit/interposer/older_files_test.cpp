// Tests files that ucudnn wrote before it had tiles (tests/support/before_tiles), on the stand-in's
// real arithmetic. Programs follow the files' divisions of the mini-batch, and measure nothing.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "db/measurements_csv.h"
#include "db/sqlite_store.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

// Returns the content of a file in the folder BEFORE_TILES. The platform of these tests replaces
// the file's own platform.
std::string Content(const std::string& name) {
  std::ostringstream content;
  content << std::ifstream(BEFORE_TILES "/" + name).rdbuf();
  std::string text = content.str();
  test::MakeContextCurrent();
  const planning::Platform here = PlatformOf(test::StandInGraphs());
  for (const auto& [theirs, ours] : {std::pair{std::string("Some GPU"), here.device},
                                     {"91900", std::to_string(here.cudnn)},
                                     {"13000", std::to_string(here.driver)}}) {
    for (size_t at = 0; (at = text.find(theirs, at)) != text.npos; at += ours.size()) {
      text.replace(at, theirs.size(), ours);
    }
  }
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

// A program with a plan of engine 0, which needs no workspace. If `store` is null, the program's
// own store says that pieces were compared and are slow.
class Older : public OnePlan {
 public:
  explicit Older(const Options& options, planning::MeasurementStore* store = nullptr)
      : OnePlan(Problem(Operation::kForward), false, options, nullptr, store) {
    if (store == nullptr) PartsMeasured(0, 1000);
    undivided_ = whole_.Plan(0);
    plan_ = hooked_.Plan(0);
    EXPECT_TRUE(plan_ && undivided_);
  }
  // Expects the right result, computed in four pieces, and `reason` in the report.
  void ExpectPieces(const std::string& reason) {
    ExpectRight();
    EXPECT_EQ(Kernel()["plan"][0]["count"], 4) << Kernel();
    EXPECT_EQ(Kernel()["reason"], reason);
    EXPECT_EQ(program_.Report()["measured"], 0);
    EXPECT_EQ(Fallbacks(), "[]");
  }
};

// A program with a plan of kEngine under a limit. `store` has a promise for such a plan.
class Promised : public OnePlan {
 public:
  explicit Promised(planning::MeasurementStore* store)
      : OnePlan(Problem(Operation::kForward), false, test::Within(4096), nullptr, store) {
    MakePlans();
  }
};

class OlderFiles : public ::testing::Test {
 protected:
  OlderFiles() { std::filesystem::create_directory(folder_); }
  ~OlderFiles() override { std::filesystem::remove_all(folder_); }
  // Makes a store of schema version 3 in a file, and returns its path.
  std::string OldStore() const {
    sqlite3* connection = nullptr;
    EXPECT_EQ(sqlite3_open((folder_ + "/old.db").c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, Content("store.sql").c_str(), nullptr, nullptr, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(connection);
    sqlite3_close(connection);
    return folder_ + "/old.db";
  }

  const std::string folder_ = ::testing::TempDir() + "older" + std::to_string(getpid());
};

TEST_F(OlderFiles, AStoreIsFollowedAndItsPromiseKept) {
  db::SqliteStore store({OldStore()});
  Older(test::Planned(), &store).ExpectPieces("divided into 4 micro-batches");
  Promised plan(&store);
  EXPECT_EQ(plan.ToldBytes(), 1024u);
  plan.ExpectRight();
  EXPECT_EQ(plan.Fallbacks(), "[]");
}

TEST_F(OlderFiles, RowsOfACsvFileAreFollowed) {
  const auto rows = db::ParseMeasurementsCsv(Content("rows.csv"), "rows.csv", "");
  ASSERT_TRUE(rows.ok()) << rows.message();
  db::SqliteStore store({folder_ + "/new.db"});
  ASSERT_EQ(*store.Add(rows->measurements), 4u);
  Options options = test::Planned();
  options.tuning.on = true;  // only to compare, since all is measured
  Older(options, &store).ExpectPieces("divided into 4 micro-batches");
}

TEST_F(OlderFiles, AWorkspacePlanIsFollowed) {
  Options options = test::Planned();
  options.workspace_plan = folder_ + "/plan.json";
  std::ofstream(options.workspace_plan) << Content("plan.json");
  Older(options).ExpectPieces("divided into 4 micro-batches, as the workspace plan says");
}

}  // namespace
}  // namespace ucudnn::interposer
