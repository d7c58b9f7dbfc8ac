// Tests stores of earlier schema versions: they are read as they are, and the first write brings
// them up to date, completely or not at all.
#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/inspection.h"
#include "faulty_files.h"
#include "fixture.h"
#include "tests/support/cases.h"

namespace ucudnn::db {
namespace {

using planning::Platform;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Platform kSomeGpu{"Some GPU", 91900, 13000};

// Returns the problem of the kernel in schema1.sql.
ConvolutionProblem StoredProblem() {
  ConvolutionProblem problem = Problem(256);
  problem.alignment = 16;
  return problem;
}

class SchemaMigrationTest : public StoreTest {
 protected:
  explicit SchemaMigrationTest(int version = 1) {
    std::ostringstream sql;
    sql << std::ifstream(SCHEMA_FOLDER "/schema" + std::to_string(version) + ".sql").rdbuf();
    RunSql(Path(), sql.str().c_str());
    EXPECT_EQ(Inspect(Path())->version, version);
  }
  // Adds rows, so that bringing the store up to date takes longer.
  void Enlarge(int rows) {
    const std::string sql =
        "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM i WHERE x<" +
        std::to_string(rows) +
        ") INSERT INTO measurements(kernel, device, cudnn, driver, engine, micro_batch, time_ms,"
        " workspace_bytes, deterministic, samples, verified, name, n)"
        " SELECT 1, 'Some GPU', 91900, 13000, 'legacy:2', x, 1, 0, 1, 5, 1, '', 0 FROM i";
    RunSql(Path(), sql.c_str());
  }
};

TEST_F(SchemaMigrationTest, AnOldStoreIsReadAsItIs) {
  const std::string before = Bytes(Path());
  SqliteStore store({Path()});
  const auto known = store.Read(StoredProblem(), kSomeGpu);
  ASSERT_TRUE(known.ok()) << known.message();
  ASSERT_EQ(known->rows.size(), 3u);
  EXPECT_EQ(known->rows[0].micro,
            (MicroConfiguration{"legacy:1", 32, 0.012345678901234567, 4096, true}));
  // This store's verified rows were imported, so they are not trusted.
  for (const planning::Measurement& row : known->rows) EXPECT_FALSE(row.verified);
  EXPECT_THAT(known->complete_sizes, ElementsAre(32, 256));
  EXPECT_EQ(store.List()->size(), 4u);
  EXPECT_EQ(Bytes(Path()), before);
}

TEST_F(SchemaMigrationTest, AnOldSharedStoreIsReadAndStaysAsItIs) {
  const std::string before = Bytes(Path());
  SqliteStore store({Path("own.db"), Path()});
  ASSERT_TRUE(store.Write(StoredProblem(), kSomeGpu, {Row("legacy:1", 16, 1)}, {}).ok());
  const auto known = store.Read(StoredProblem(), kSomeGpu);
  ASSERT_TRUE(known.ok()) << known.message();
  EXPECT_EQ(known->rows.size(), 4u);
  EXPECT_THAT(known->complete_sizes, ElementsAre(32, 256));
  EXPECT_EQ(Bytes(Path()), before);
}

TEST_F(SchemaMigrationTest, TheFirstWriteBringsItUpToDateAndLosesNothing) {
  SqliteStore reader({Path()});
  ASSERT_EQ(reader.Read(StoredProblem(), kSomeGpu)->rows.size(), 3u);
  const auto before = *reader.List();
  SqliteStore store({Path()});
  ASSERT_TRUE(store.Write(StoredProblem(), kSomeGpu, {Row("legacy:1", 16, 1)}, {}).ok());
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, kSchemaVersion);
  EXPECT_EQ(contents->rows, 5u);
  EXPECT_EQ(contents->verified, 1u);  // the row that was just written
  EXPECT_EQ(contents->incomplete_sizes, 1u);
  auto after = *store.List();
  ASSERT_EQ(after.size(), 5u);
  after.pop_back();
  EXPECT_EQ(after, before);
  // `reader`, which read the file before its upgrade, finds what the upgraded file has.
  EXPECT_EQ(reader.Read(StoredProblem(), kSomeGpu)->rows.size(), 4u);
  EXPECT_THAT(reader.Read(StoredProblem(), kSomeGpu)->complete_sizes, ElementsAre(32, 256));
}

TEST_F(SchemaMigrationTest, ProcessesThatBringItUpToDateAtOnceAgree) {
  Enlarge(2000);
  int start[2];
  ASSERT_EQ(pipe(start), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      char byte;
      // The read returns when the parent closes the pipe, after it has started all processes.
      if (close(start[1]) != 0 || read(start[0], &byte, 1) != 0) _exit(2);
      SqliteStore store({Path()});
      _exit(store.Write(Problem(), kPlatform, {Row("e", 1 + process, 1)}, {}).ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  close(start[0]);
  close(start[1]);
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, kSchemaVersion);
  EXPECT_EQ(contents->rows, 2008u);
}

// With ASan's run-time a process takes long to start and to end, so fewer processes are killed.
#ifdef __SANITIZE_ADDRESS__
constexpr int kBetweenKills = 29, kFewestUnfinished = 8;
#else
constexpr int kBetweenKills = 7, kFewestUnfinished = 20;
#endif

TEST_F(SchemaMigrationTest, OneThatIsKilledLeavesTheOldOrTheNew) {
  Enlarge(2000);
  const std::string old = Bytes(Path());
  const int thinning = test::Cases(1, 4);
  int unfinished = 0;
  for (const auto call :
       {test::FileCall::kWrite, test::FileCall::kShortWrite, test::FileCall::kSync}) {
    bool killed = true;
    for (int kth = 1; killed; kth += call == test::FileCall::kSync ? 1 : kBetweenKills * thinning) {
      SCOPED_TRACE("call " + std::to_string(kth));
      const std::string path = Path(std::to_string(kth) + ".db");
      std::ofstream(path, std::ios::binary) << old;
      const pid_t child = fork();
      if (child == 0) {
        test::DieAtFileCall(call, kth);
        SqliteStore store({path});
        _exit(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}, {}).ok() ? 0 : 1);
      }
      int status = -1;
      waitpid(child, &status, 0);
      killed = status == SIGKILL;
      EXPECT_EQ(status, killed ? SIGKILL : 0);
      SqliteStore survivor({path});
      EXPECT_EQ(survivor.Read(StoredProblem(), kSomeGpu)->rows.size(), 2003u);
      const auto contents = Inspect(path);
      ASSERT_TRUE(contents.ok()) << contents.message();
      EXPECT_THAT(contents->faults, IsEmpty());
      unfinished += contents->version == 1 ? 1 : 0;
      EXPECT_TRUE(survivor.Write(Problem(), kPlatform, {Row("e", 1, 1)}, {}).ok());
      EXPECT_EQ(Inspect(path)->version, kSchemaVersion);
      std::filesystem::remove(path);
    }
  }
  EXPECT_GE(unfinished, kFewestUnfinished / thinning);
}

planning::EnginePromise KeptPromise() {
  return {StoredProblem(), kSomeGpu, "graph:38", 8192, 4096, "graph:0", false};
}

class SecondSchemaTest : public SchemaMigrationTest {
 protected:
  SecondSchemaTest() : SchemaMigrationTest(2) {}
};

TEST_F(SecondSchemaTest, ItHoldsNoPromisesAndIsReadAsItIs) {
  const std::string before = Bytes(Path());
  SqliteStore store({Path()});
  const auto promise = store.FindPromise(KeptPromise());
  ASSERT_TRUE(promise.ok()) << promise.message();
  EXPECT_FALSE(promise->has_value());
  const auto rows = ReadStore(Path());
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(rows->measurements.size(), 4u);
  EXPECT_THAT(rows->promises, IsEmpty());
  const auto pruned = store.Prune("", true);
  EXPECT_TRUE(pruned.ok()) << pruned.message();
  EXPECT_EQ(Bytes(Path()), before);
}

TEST_F(SecondSchemaTest, TheFirstPromiseBringsItUpToDateAndLosesNothing) {
  SqliteStore reader({Path()});
  const auto before = *reader.List();
  const auto known = *reader.Read(StoredProblem(), kSomeGpu);
  ASSERT_TRUE(known.rows[2].verified);
  SqliteStore store({Path()});
  const auto kept = store.KeepPromise(KeptPromise());
  ASSERT_TRUE(kept.ok()) << kept.message();
  EXPECT_EQ(*kept, KeptPromise());
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, kSchemaVersion);
  EXPECT_EQ(contents->promises, 1u);
  EXPECT_EQ(*store.List(), before);
  EXPECT_EQ(*store.Read(StoredProblem(), kSomeGpu), known);
  // `reader`, which read the file before its upgrade, finds what the upgraded file has.
  EXPECT_EQ(**reader.FindPromise(KeptPromise()), KeptPromise());
}

class ThirdSchemaTest : public SchemaMigrationTest {
 protected:
  ThirdSchemaTest() : SchemaMigrationTest(3) {}
  // Returns StoredProblem() with one more row of padding at the bottom and one more column at the
  // right.
  static ConvolutionProblem UnevenProblem() {
    ConvolutionProblem problem = StoredProblem();
    problem.extra_pad = {0, 1, 1};
    SetPackedStrides(problem);
    return problem;
  }
};

TEST_F(ThirdSchemaTest, ItsPadsAreEvenAndItIsReadAsItIs) {
  const std::string before = Bytes(Path());
  SqliteStore store({Path()});
  EXPECT_EQ(store.Read(StoredProblem(), kSomeGpu)->rows.size(), 3u);
  EXPECT_EQ(store.Read(UnevenProblem(), kSomeGpu)->rows.size(), 0u);
  EXPECT_EQ(**store.FindPromise(KeptPromise()), KeptPromise());
  const auto rows = ReadStore(Path());
  ASSERT_TRUE(rows.ok()) << rows.message();
  ASSERT_EQ(rows->measurements.size(), 4u);
  EXPECT_EQ(rows->measurements[0].problem, StoredProblem());
  EXPECT_THAT(rows->promises, ElementsAre(KeptPromise()));
  EXPECT_TRUE(store.Prune("", true).ok());
  EXPECT_EQ(Bytes(Path()), before);
}

// A program of schema version 3 checks the file's version only when it opens the file.
TEST_F(ThirdSchemaTest, AProgramOfItsVersionThatHasItOpenCannotWriteToTheNewOne) {
  sqlite3* old = nullptr;
  ASSERT_EQ(sqlite3_open(Path().c_str(), &old), SQLITE_OK);
  const auto run = [&](const char* sql) {
    return sqlite3_exec(old, sql, nullptr, nullptr, nullptr);
  };
  ASSERT_EQ(run("SELECT id FROM kernels"), SQLITE_OK);
  SqliteStore store({Path()});
  ASSERT_TRUE(store.Write(StoredProblem(), kSomeGpu, {Row("graph:1", 16, 1)}, {16}).ok());
  EXPECT_EQ(run("INSERT OR IGNORE INTO kernels(op) VALUES('forward')"), SQLITE_ERROR);
  EXPECT_EQ(run("SELECT id FROM kernels WHERE op='forward'"), SQLITE_ERROR);
  sqlite3_close(old);
}

TEST_F(ThirdSchemaTest, AKernelWithOtherPadsBehindIsAnother) {
  SqliteStore reader({Path()});
  const auto known = *reader.Read(StoredProblem(), kSomeGpu);
  const auto before = *reader.List();
  SqliteStore store({Path()});
  ASSERT_TRUE(store.Write(UnevenProblem(), kSomeGpu, {Row("graph:1", 16, 1)}, {16}).ok());
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, kSchemaVersion);
  EXPECT_EQ(contents->kernels, 3u);
  EXPECT_EQ(contents->promises, 1u);
  auto after = *store.List();
  ASSERT_EQ(after.size(), before.size() + 1);
  EXPECT_EQ(after.back().problem.extra_pad, (Spatial{0, 1, 1}));
  after.pop_back();
  EXPECT_EQ(after, before);
  for (SqliteStore* from : {&store, &reader}) {
    EXPECT_EQ(*from->Read(StoredProblem(), kSomeGpu), known);
    EXPECT_EQ(from->Read(UnevenProblem(), kSomeGpu)->rows.size(), 1u);
    EXPECT_EQ(**from->FindPromise(KeptPromise()), KeptPromise());
  }
}

}  // namespace
}  // namespace ucudnn::db
