// Tests several connections, processes and forks on one file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "db/inspection.h"
#include "faulty_files.h"
#include "fixture.h"
#include "tests/support/cases.h"

namespace ucudnn::db {
namespace {

using ::testing::ElementsAre;

using StoreProcessesTest = StoreTest;

pid_t Start(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a child that hangs fails the test instead of outliving it
    action();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

void ExpectSuccess(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreProcessesTest, TwoConnectionsSeeEachOthersRowsAndAgree) {
  RowStore a({Path()});
  RowStore b({Path()});
  ASSERT_TRUE(a.Write(Problem(), kPlatform, {Row("legacy:1", 8, 1)}).ok());
  ASSERT_TRUE(b.Write(Problem(), kPlatform, {Row("legacy:1", 8, 2), Row("legacy:1", 4, 3)}).ok());
  EXPECT_THAT(*a.Rows(Problem(), kPlatform),
              ElementsAre(Row("legacy:1", 4, 3), Row("legacy:1", 8, 1)));
  EXPECT_EQ(*a.Rows(Problem(), kPlatform), *b.Rows(Problem(), kPlatform));
}

TEST_F(StoreProcessesTest, ProcessesThatCreateAndWriteAtOnceLoseNoRow) {
  constexpr int kProcesses = 4;
  constexpr int kWrites = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(Start([&, p] {
      RowStore store({Path("new/folder/measurements.db")});
      for (int i = 1; i <= kWrites; ++i) {
        const Status status = store.Write(
            Problem(), kPlatform, {Row("own:" + std::to_string(p), i, p), Row("contested", i, p)});
        EXPECT_TRUE(status.ok()) << status.message();
      }
    }));
  }
  for (const pid_t child : children) ExpectSuccess(child);
  RowStore store({Path("new/folder/measurements.db")});
  EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), size_t{(kProcesses + 1) * kWrites});
  EXPECT_FALSE(std::filesystem::exists(Path("new/folder/measurements-2.db")));
}

TEST_F(StoreProcessesTest, AChildOfAForkUsesAConnectionOfItsOwn) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("parent", 1, 1)}).ok());
  ExpectSuccess(Start([&] {
    EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), 1u);
    EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("child", 2, 2)}).ok());
    ExpectSuccess(Start(
        [&] { EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("grandchild", 3, 3)}).ok()); }));
  }));
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("parent", 4, 4)}).ok());
  EXPECT_THAT(*store.Rows(Problem(), kPlatform),
              ElementsAre(Row("parent", 1, 1), Row("child", 2, 2), Row("grandchild", 3, 3),
                          Row("parent", 4, 4)));
}

TEST_F(StoreProcessesTest, AForkDuringAWriteLosesNothingOfParentOrChild) {
  constexpr int kForks = 12;
  constexpr int kWritesOfAChild = 3;
  RowStore store({Path()});
  std::atomic<bool> stop = false;
  int written = 0;
  std::thread writer([&] {
    while (!stop) {
      ++written;
      EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("writer", written, written)}).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // others need the lock
    }
  });
  std::vector<pid_t> children;
  for (int i = 0; i < kForks; ++i) {
    children.push_back(Start([&] {
      for (int row = 1; row <= kWritesOfAChild; ++row) {
        const Status status =
            store.Write(Problem(), kPlatform, {Row("child " + std::to_string(i), row, row)});
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(store.Rows(Problem(), kPlatform).ok());
      }
    }));
    // While the child writes, `writer` and this thread write as well.
    EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("forker", i + 1, i)}).ok());
    if (children.size() == 3) {
      for (const pid_t child : children) ExpectSuccess(child);
      children.clear();
    }
  }
  stop = true;
  writer.join();
  for (const pid_t child : children) ExpectSuccess(child);
  // Another connection reads what is in the file.
  const auto rows = RowStore({Path()}).Rows(Problem(), kPlatform);
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(rows->size(), static_cast<size_t>(written + kForks + kForks * kWritesOfAChild));
  EXPECT_THAT(Inspect(Path())->faults, ::testing::IsEmpty());
}

// In three of four rounds the writer is killed at a write or a synchronisation. SQLite makes these
// two kinds of calls only while the journal exists. In every fourth round the writer is killed at
// any moment, even while it starts.
TEST_F(StoreProcessesTest, AWriterKilledAtAnyTimeLosesNoCommittedRow) {
#ifdef __SANITIZE_ADDRESS__  // with its run-time a process takes long to start and to end
  const int rounds = test::Cases(60, 20);
#else
  const int rounds = test::Cases(200, 60);
#endif
  constexpr int kRows = 20;
  const std::pair<test::FileCall, int> kMoments[] = {
      {test::FileCall::kWrite, 40}, {test::FileCall::kShortWrite, 40}, {test::FileCall::kSync, 12}};
  const unsigned seed = 3;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto any = [&](int last) { return std::uniform_int_distribution<int>(1, last)(random); };
  int inside = 0;       // writers killed within a transaction, whose journal was left
  size_t reported = 0;  // transactions that writers knew to be committed
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    int commits[2];
    ASSERT_EQ(pipe(commits), 0);
    const bool at_any_moment = round % 4 == 0;
    const auto& [call, last] = kMoments[round % 4 % 3];
    const int kth = any(last);
    const pid_t child = Start([&, call = call] {
      if (!at_any_moment) test::DieAtFileCall(call, kth);
      RowStore store({Path()});
      for (int i = 0;; ++i) {
        std::vector<planning::Measurement> rows;
        const std::string engine = std::to_string(round) + ":" + std::to_string(i);
        for (int b = 1; b <= kRows; ++b) rows.push_back(Row(engine, b, b));
        EXPECT_TRUE(store.Write(Problem(64, 1 + round), kPlatform, rows).ok());
        EXPECT_EQ(write(commits[1], "x", 1), 1);
      }
    });
    close(commits[1]);
    if (at_any_moment) {
      usleep(static_cast<useconds_t>(any(40000)));
      kill(child, SIGKILL);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, SIGKILL);
    inside += std::filesystem::exists(Path() + "-journal") ? 1 : 0;
    size_t committed = 0;
    for (char byte; read(commits[0], &byte, 1) == 1;) ++committed;
    close(commits[0]);
    RowStore store({Path()});
    const auto rows = store.Rows(Problem(64, 1 + round), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    EXPECT_EQ(rows->size() % kRows, 0u);
    EXPECT_GE(rows->size(), committed * kRows);
    reported += committed;
  }
  EXPECT_GE(inside, rounds / 2);
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_TRUE(contents->faults.empty()) << contents->faults.front();
  EXPECT_GE(contents->rows, reported * kRows);
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
  RecordProperty("killed_inside_a_transaction", inside);
}

TEST_F(StoreProcessesTest, ALockedFileIsAnErrorAfterTheTimeoutNotAHang) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).ok());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = Start([&] {
    Connection connection;
    EXPECT_TRUE(connection.Open(Path(), Connection::Access::kWrite).ok());
    EXPECT_TRUE(connection.Execute("BEGIN EXCLUSIVE").ok());
    EXPECT_EQ(write(ready[1], "x", 1), 1);
    pause();
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(store.Write(Problem(), kPlatform, {Row("e", 2, 2)}).message(),
              ::testing::HasSubstr("database is locked"));
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("e", 2, 2)}).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
}

}  // namespace
}  // namespace ucudnn::db
