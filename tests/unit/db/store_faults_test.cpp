// Tests files that the store must not trust, and places that it must not or cannot write.
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/log.h"
#include "db/inspection.h"
#include "faulty_files.h"
#include "fixture.h"

namespace ucudnn::db {
namespace {

using planning::Measurement;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Makes file permissions hold for this process, even if it runs as root.
bool GiveUpCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

// Runs `action` in a child and returns what it logged. Failures in the child fail the test.
std::string InChild(const std::string& log, bool as_ordinary_user,
                    const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    ConfigureLog(LogLevel::kWarn, log, -1);
    if (as_ordinary_user && !GiveUpCapabilities()) _exit(3);
    action();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return text.str();
}

void InChildThatDies(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    action();
    _exit(4);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, SIGKILL);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void FillStore(const std::string& path) {
  std::vector<Measurement> rows;
  for (int i = 1; i <= 400; ++i) rows.push_back(Row("legacy:1", i, i));
  ASSERT_TRUE(RowStore({path}).Write(Problem(), kPlatform, rows).ok());
}

void Overwrite(const std::string& path, std::streamoff at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file << bytes;
}

struct Fault {
  const char* name;
  void (*prepare)(const std::string& path);
  const char* reason;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class UnusableFile : public StoreTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(UnusableFile, IsLeftAloneWithOneWarningAndASiblingServes) {
  GetParam().prepare(Path());
  const std::string before = Bytes(Path());
  ASSERT_FALSE(before.empty());
  const std::string log = InChild(Path("log"), false, [&] {
    RowStore store({Path()});
    EXPECT_THAT(*store.Rows(Problem(), kPlatform), IsEmpty());
    const Status status = store.Write(Problem(), kPlatform, {Row("legacy:0", 8, 1)});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(*store.Rows(Problem(), kPlatform), ElementsAre(Row("legacy:0", 8, 1)));
    EXPECT_EQ(store.List()->size(), 1u);
    EXPECT_EQ(store.Place(), Path("measurements-2.db"));
    RowStore later({Path()});
    EXPECT_THAT(*later.Rows(Problem(), kPlatform), ElementsAre(Row("legacy:0", 8, 1)));
  });
  EXPECT_EQ(Bytes(Path()), before);
  EXPECT_TRUE(std::filesystem::exists(Path("measurements-2.db")));
  EXPECT_EQ(Count(log, "is left alone: "), 1u) << log;
  EXPECT_THAT(log, HasSubstr(Path() + " is left alone: " + GetParam().reason));
}

TEST_P(UnusableFile, CostsOneWarningAmongTheReadOnlyOnes) {
  GetParam().prepare(Path("shared.db"));
  const std::string before = Bytes(Path("shared.db"));
  const std::string log = InChild(Path("log"), false, [&] {
    RowStore store({Path(), Path("shared.db")});
    ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:0", 777, 1)}).ok());
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(*store.Rows(Problem(), kPlatform), ::testing::Contains(Row("legacy:0", 777, 1)));
    }
  });
  EXPECT_EQ(Bytes(Path("shared.db")), before);
  EXPECT_EQ(Count(log, "\n"), 1u) << log;
  EXPECT_THAT(log, HasSubstr("shared.db"));
}

INSTANTIATE_TEST_SUITE_P(
    Store, UnusableFile,
    ::testing::Values(
        Fault{"Garbage",
              [](const std::string& path) { std::ofstream(path) << std::string(9000, 'x'); },
              "it is damaged: "},
        Fault{"ShortGarbage", [](const std::string& path) { std::ofstream(path) << "hello"; },
              "it is damaged: "},
        Fault{"Truncated",
              [](const std::string& path) {
                FillStore(path);
                std::filesystem::resize_file(path, 8192);
              },
              "it is damaged: "},
        Fault{"TruncatedToTheHeader",
              [](const std::string& path) {
                FillStore(path);
                std::filesystem::resize_file(path, 50);
              },
              "it is damaged: "},
        Fault{"GarbageInside",
              [](const std::string& path) {
                FillStore(path);
                Overwrite(path, 4096 * 3, std::string(4096 * 2, '\xa5'));
              },
              "it is damaged: "},
        Fault{"TablesMissing",
              [](const std::string& path) {
                FillStore(path);
                RunSql(path, "DROP TABLE measurements");
              },
              "it is damaged: tables are missing"},
        Fault{"Foreign",
              [](const std::string& path) { RunSql(path, "CREATE TABLE bookmarks(url TEXT)"); },
              "it is another program's database"},
        Fault{"ForeignInWalMode",
              [](const std::string& path) {
                RunSql(path, "PRAGMA journal_mode=WAL; CREATE TABLE bookmarks(url TEXT)");
              },
              "it is another program's database"},
        Fault{"ForeignButEmpty",
              [](const std::string& path) {
                RunSql(path, "PRAGMA application_id=7; CREATE TABLE t(x); DROP TABLE t");
              },
              "it is another program's database"},
        Fault{"Newer",
              [](const std::string& path) {
                FillStore(path);
                RunSql(path, "PRAGMA user_version=5");
              },
              "its schema version is 5 and this ucudnn knows versions up to 4"}),
    [](const auto& info) { return info.param.name; });

using StoreFaultsTest = StoreTest;

TEST_F(StoreFaultsTest, DamageFoundInUseMovesToASibling) {
  const std::string log = InChild(Path("log"), false, [&] {
    FillStore(Path());
    RowStore store({Path()});
    ASSERT_EQ(store.Rows(Problem(), kPlatform)->size(), 400u);
    const auto size = static_cast<size_t>(std::filesystem::file_size(Path()));
    Overwrite(Path(), 4096, std::string(size - 4096, '\x5a'));
    Overwrite(Path(), 24, "\x7f\x7f\x7f\x7f");  // the change counter, so SQLite drops its cache
    const std::string before = Bytes(Path());
    const Status status = store.Write(Problem(), kPlatform, {Row("legacy:0", 8, 1)});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(*store.Rows(Problem(), kPlatform), ElementsAre(Row("legacy:0", 8, 1)));
    EXPECT_EQ(Bytes(Path()), before);
  });
  EXPECT_EQ(Count(log, "is left alone: it is damaged"), 1u) << log;
}

TEST_F(StoreFaultsTest, NineUnusableFilesAreAnError) {
  std::ofstream(Path()) << "hello";
  for (int i = 2; i <= 9; ++i) {
    std::ofstream(Path("measurements-" + std::to_string(i) + ".db")) << "hello";
  }
  RowStore store({Path()});
  EXPECT_THAT(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).message(),
              HasSubstr("siblings are all unusable"));
}

TEST_F(StoreFaultsTest, AnEmptyFileBecomesAStore) {
  std::ofstream(Path()).flush();
  RowStore store({Path()});
  EXPECT_THAT(*store.Rows(Problem(), kPlatform), IsEmpty());
  EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).ok());
  EXPECT_EQ(Inspect(Path())->rows, 1u);
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
}

TEST_F(StoreFaultsTest, AReadOnlyFileIsReadAndRefusesToBeWritten) {
  FillStore(Path());
  chmod(Path().c_str(), 0444);
  chmod(folder_.c_str(), 0755);
  const std::string before = Bytes(Path());
  InChild(Path("log"), true, [&] {
    RowStore store({Path()});
    const auto rows = store.Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    EXPECT_EQ(rows->size(), 400u);
    EXPECT_THAT(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).message(),
                HasSubstr(Path() + ": is read-only"));
    EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), 400u);
  });
  EXPECT_EQ(Bytes(Path()), before);
}

TEST_F(StoreFaultsTest, AFileInAReadOnlyFolderIsRead) {
  FillStore(Path());
  chmod(Path().c_str(), 0666);
  chmod(folder_.c_str(), 0555);
  InChild("", true, [&] {
    RowStore store({Path()});
    const auto rows = store.Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    EXPECT_EQ(rows->size(), 400u);
    EXPECT_FALSE(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).ok());
    EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), 400u);
  });
  chmod(folder_.c_str(), 0755);
}

// A half-finished write of another process can be undone only if the folder is writable.
TEST_F(StoreFaultsTest, AHalfWrittenFileInAReadOnlyFolderIsAnErrorAndKept) {
  FillStore(Path());
  InChildThatDies([&] {
    RowStore store({Path()});
    EXPECT_TRUE(store.Rows(Problem(), kPlatform).ok());
    test::DieAtFileCall(test::FileCall::kSync, 3);
    static_cast<void>(store.Write(Problem(), kPlatform, {Row("lost", 1, 1)}));
  });
  ASSERT_TRUE(std::filesystem::exists(Path() + "-journal"));
  const std::string before = Bytes(Path());
  chmod(Path().c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  InChild("", true, [&] {
    EXPECT_THAT(RowStore({Path()}).Rows(Problem(), kPlatform).message(), HasSubstr(Path() + ": "));
    EXPECT_THAT(ReadStore(Path()).message(), HasSubstr(Path() + ": "));
  });
  chmod(Path().c_str(), 0644);
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(Bytes(Path()), before);
  EXPECT_EQ(RowStore({Path()}).Rows(Problem(), kPlatform)->size(), 400u);
}

TEST_F(StoreFaultsTest, AFolderThatCannotBeWrittenIsNamed) {
  chmod(folder_.c_str(), 0555);
  InChild("", true, [&] {
    RowStore store({Path("deep/store.db")});
    const auto rows = store.Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    EXPECT_THAT(*rows, IsEmpty());
    EXPECT_THAT(store.Write(Problem(), kPlatform, {Row("e", 1, 1)}).message(),
                HasSubstr("cannot create the folder " + Path("deep") + ": Permission denied"));
    EXPECT_THAT(RowStore({Path()}).Write(Problem(), kPlatform, {Row("e", 1, 1)}).message(),
                HasSubstr(Path() + ": cannot be opened"));
  });
  chmod(folder_.c_str(), 0755);
}

TEST_F(StoreFaultsTest, AFileThatMayNotBeReadIsAnErrorAndKept) {
  FillStore(Path());
  chmod(Path().c_str(), 0000);
  chmod(folder_.c_str(), 0755);
  InChild("", true, [&] {
    EXPECT_THAT(RowStore({Path()}).Rows(Problem(), kPlatform).message(),
                HasSubstr(Path() + ": cannot be opened"));
  });
  EXPECT_FALSE(std::filesystem::exists(Path("measurements-2.db")));
}

TEST_F(StoreFaultsTest, AFolderOrDeviceInPlaceOfTheFileIsAnError) {
  EXPECT_THAT(RowStore({folder_}).Rows(Problem(), kPlatform).message(),
              HasSubstr("not a regular file"));
  EXPECT_THAT(RowStore({"/dev/null"}).Write(Problem(), kPlatform, {Row("e", 1, 1)}).message(),
              HasSubstr("/dev/null: cannot be opened: not a regular file"));
  std::ofstream(Path("plain")) << "x";
  EXPECT_FALSE(
      RowStore({Path("plain/store.db")}).Write(Problem(), kPlatform, {Row("e", 1, 1)}).ok());
}

TEST_F(StoreFaultsTest, AnUnreadableFirstFileDoesNotHideTheOthers) {
  FillStore(Path("shared.db"));
  RowStore store({folder_, Path("shared.db")});
  const auto rows = store.Rows(Problem(), kPlatform);
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(rows->size(), 400u);
}

TEST_F(StoreFaultsTest, RowsEditedToNonsenseAreLeftOut) {
  FillStore(Path());
  RunSql(Path(),
         "UPDATE measurements SET time_ms=-1 WHERE micro_batch=1;"
         "UPDATE measurements SET workspace_bytes=-1 WHERE micro_batch=2;"
         "UPDATE measurements SET time_ms='soon' WHERE micro_batch=3;"
         "UPDATE measurements SET micro_batch=-4 WHERE micro_batch=4;"
         "UPDATE measurements SET samples=-1 WHERE micro_batch=5;");
  RowStore store({Path()});
  EXPECT_EQ(store.Rows(Problem(), kPlatform)->size(), 395u);
  EXPECT_EQ(store.List()->size(), 395u);
  RunSql(Path(), "UPDATE families SET stride_h=0");
  EXPECT_THAT(*store.List(), IsEmpty());
}

}  // namespace
}  // namespace ucudnn::db
