// Tests disks that fill up, break or cannot lock: each file operation of a write and of a read
// fails once. A store returns an error or does its work, and nothing that was there is lost.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "db/inspection.h"
#include "faulty_files.h"
#include "fixture.h"
#include "tests/support/cases.h"

namespace ucudnn::db {
namespace {

using planning::Measurement;
using test::FileCall;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Measurement> ManyRows(const std::string& engine, int rows) {
  std::vector<Measurement> all;
  for (int i = 1; i <= rows; ++i) all.push_back(Row(engine, i, i));
  return all;
}

struct DiskFault {
  const char* name;
  FileCall call;
  int code;
  bool stays;
};

void PrintTo(const DiskFault& fault, std::ostream* out) { *out << fault.name; }

class FaultyDisk : public StoreTest, public ::testing::WithParamInterface<DiskFault> {
 protected:
  static constexpr int kOld = 400;
  static constexpr int kNew = 300;

  FaultyDisk() {
    EXPECT_TRUE(RowStore({Path()}).Write(Problem(), kPlatform, ManyRows("old", kOld)).ok());
    sound_ = Bytes(Path());
  }
  ~FaultyDisk() override { test::StopFailing(); }

  void Restore() {
    std::filesystem::remove(Path() + "-journal");
    std::ofstream(Path(), std::ios::binary) << sound_;
  }
  static void Arm(int kth) {
    test::FailFileCall(GetParam().call, kth, GetParam().code, GetParam().stays);
  }

  std::string sound_;
};

TEST_P(FaultyDisk, AWriteIsWholeOrAnErrorAndOldRowsStay) {
  int failures = 0;
  // In each round the `kth` call fails. `kth` is 1 to 6 and then every `thinning`th number, because
  // later calls resemble each other.
  const int thinning = test::Cases(1, 4);
  for (int kth = 1;; kth += kth < 6 ? 1 : thinning) {
    SCOPED_TRACE("call " + std::to_string(kth));
    Restore();
    Arm(kth);
    Status status;
    {
      RowStore store({Path()});
      status = store.Write(Problem(), kPlatform, ManyRows("new", kNew));
      failures += status.ok() ? 0 : 1;
      EXPECT_TRUE(status.ok() || !status.message().empty());
    }
    const int happened = test::StopFailing();
    // A process that cannot lock gives up soon. For a lock that somebody holds, it would try 1,000
    // times.
    EXPECT_LE(happened, 20);
    RowStore later({Path()});
    const auto rows = later.Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    const size_t all = kOld + kNew;
    EXPECT_TRUE(rows->size() == all || (!status.ok() && rows->size() == kOld)) << rows->size();
    EXPECT_THAT(Inspect(Path())->faults, IsEmpty());
    EXPECT_TRUE(later.Write(Problem(), kPlatform, ManyRows("new", kNew)).ok());
    EXPECT_EQ(later.Rows(Problem(), kPlatform)->size(), all);
    EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
    if (happened == 0) break;
  }
  EXPECT_GE(failures, 1);
}

TEST_P(FaultyDisk, AReadIsWholeOrAnError) {
  int failures = 0;
  for (int kth = 1;; ++kth) {
    SCOPED_TRACE("call " + std::to_string(kth));
    Restore();
    Arm(kth);
    {
      RowStore store({Path()});
      const auto rows = store.Rows(Problem(), kPlatform);
      if (rows.ok()) {
        EXPECT_EQ(rows->size(), size_t{kOld});
      } else {
        EXPECT_THAT(rows.message(), HasSubstr(Path()));
        ++failures;
      }
    }
    const int happened = test::StopFailing();
    EXPECT_LE(happened, 20);
    EXPECT_EQ(RowStore({Path()}).Rows(Problem(), kPlatform)->size(), size_t{kOld});
    EXPECT_EQ(Bytes(Path()), sound_);
    if (happened == 0) break;
  }
  // A read neither writes nor syncs.
  const FileCall call = GetParam().call;
  const bool fails = call == FileCall::kRead || call == FileCall::kLock;
  EXPECT_EQ(failures > 0, fails || call == FileCall::kFcntlLock);
}

INSTANTIATE_TEST_SUITE_P(
    Store, FaultyDisk,
    ::testing::Values(DiskFault{"FullOnce", FileCall::kWrite, SQLITE_FULL, false},
                      DiskFault{"FullForGood", FileCall::kWrite, SQLITE_FULL, true},
                      DiskFault{"ShortWrite", FileCall::kShortWrite, SQLITE_FULL, true},
                      DiskFault{"WriteFails", FileCall::kWrite, SQLITE_IOERR_WRITE, true},
                      DiskFault{"SyncFails", FileCall::kSync, SQLITE_IOERR_FSYNC, true},
                      DiskFault{"LockFails", FileCall::kLock, SQLITE_IOERR_LOCK, true},
                      DiskFault{"NoLocks", FileCall::kFcntlLock, ENOLCK, true},
                      DiskFault{"NoLockOnce", FileCall::kFcntlLock, ENOLCK, false},
                      DiskFault{"ReadFails", FileCall::kRead, SQLITE_IOERR_READ, true}),
    [](const auto& info) { return info.param.name; });

class StoreDiskTest : public StoreTest {
 protected:
  ~StoreDiskTest() override { test::StopFailing(); }

  // Leaves a journal that is needed to undo a transaction which made the file longer.
  void DieWhileWriting() {
    const pid_t child = fork();
    if (child == 0) {
      RowStore store({Path()});
      EXPECT_TRUE(store.Rows(Problem(), kPlatform).ok());
      test::DieAtFileCall(FileCall::kSync, 3);  // syncs 1 and 2 wrote the journal and its header
      static_cast<void>(store.Write(Problem(), kPlatform, ManyRows("lost", 4000)));
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, SIGKILL);
    EXPECT_TRUE(std::filesystem::exists(Path() + "-journal"));
  }
};

TEST_F(StoreDiskTest, AFileSystemWithoutLocksIsNamedAndNotWaitedFor) {
  ASSERT_TRUE(RowStore({Path()}).Write(Problem(), kPlatform, ManyRows("old", 100)).ok());
  RowStore store({Path()});
  ASSERT_EQ(store.Rows(Problem(), kPlatform)->size(), 100u);
  test::FailFileCall(FileCall::kFcntlLock, 1, ENOLCK, true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(store.Write(Problem(), kPlatform, ManyRows("new", 10)).message(),
                HasSubstr("the file system has no locks (ENOLCK)"));
    EXPECT_THAT(store.Rows(Problem(), kPlatform).message(), HasSubstr(Path() + ": "));
  }
  EXPECT_LE(test::StopFailing(), 20);
  // Locking works again, and the earlier failures are not remembered.
  EXPECT_TRUE(store.Write(Problem(), kPlatform, ManyRows("new", 10)).ok());
  EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), 110u);
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
}

// SQLite truncates the file to undo a transaction that made the file longer, and to give space
// back.
TEST_F(StoreDiskTest, AFileThatCannotBeCutLosesNothing) {
  ASSERT_TRUE(RowStore({Path()}).Write(Problem(), kPlatform, ManyRows("old", 400)).ok());
  DieWhileWriting();
  test::FailFileCall(FileCall::kTruncate, 1, SQLITE_IOERR_TRUNCATE, true);
  EXPECT_FALSE(RowStore({Path()}).Rows(Problem(), kPlatform).ok());
  EXPECT_FALSE(RowStore({Path()}).Write(Problem(), kPlatform, ManyRows("new", 10)).ok());
  EXPECT_GE(test::StopFailing(), 1);
  EXPECT_EQ(RowStore({Path()}).Rows(Problem(), kPlatform)->size(), 400u);
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));

  planning::Platform newer = kPlatform;
  ++newer.cudnn;
  ASSERT_TRUE(RowStore({Path()}).Write(Problem(), newer, ManyRows("new", 10)).ok());
  test::FailFileCall(FileCall::kTruncate, 1, SQLITE_IOERR_TRUNCATE, true);
  EXPECT_FALSE(RowStore({Path()}).Prune("", false).ok());
  EXPECT_GE(test::StopFailing(), 1);
  EXPECT_THAT(Inspect(Path())->faults, IsEmpty());
  EXPECT_EQ(RowStore({Path()}).Rows(Problem(), newer)->size(), 10u);
}

TEST_F(StoreDiskTest, ALimitOnFileSizesIsAnErrorAndKeepsWhatWasThere) {
  ASSERT_TRUE(RowStore({Path()}).Write(Problem(), kPlatform, ManyRows("old", 100)).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlim_t most = std::filesystem::file_size(Path()) + 16384;
    const rlimit limit = {most, most};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
    RowStore store({Path()});
    const Status status = store.Write(Problem(), kPlatform, ManyRows("new", 4000));
    const auto rows = store.Rows(Problem(), kPlatform);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(rows.ok()) << rows.message();
    EXPECT_TRUE(!rows.ok() || rows->size() == 100);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(RowStore({Path()}).Rows(Problem(), kPlatform)->size(), 100u);
}

}  // namespace
}  // namespace ucudnn::db
