#include "db/store_choice.h"

#include <gmock/gmock.h>
#include <sys/vfs.h>

#include "db/inspection.h"
#include "fixture.h"

namespace ucudnn::db {
namespace {

using ::testing::ElementsAre;
using ::testing::StrEq;

constexpr uint32_t kNfs = 0x6969, kExt4 = 0xef53, kTmpfs = 0x01021994;

TEST(NetworkFileSystemName, TellsNetworksFromDisks) {
  EXPECT_THAT(NetworkFileSystemName(kNfs), StrEq("NFS"));
  EXPECT_THAT(NetworkFileSystemName(0xff534d42), StrEq("CIFS"));
  EXPECT_THAT(NetworkFileSystemName(0x0bd00bd0), StrEq("Lustre"));
  EXPECT_THAT(NetworkFileSystemName(0x65735546), StrEq("FUSE"));
  for (const uint32_t local : {kExt4, kTmpfs, 0x58465342u, 0x9123683eu, 0x794c7630u, 0u}) {
    EXPECT_EQ(NetworkFileSystemName(local), nullptr) << local;
  }
}

TEST(HostFile, StandsBesideTheNamedOne) {
  EXPECT_EQ(HostFile("/users/me/.cache/ucudnn/measurements.db", "node-17.cluster"),
            "/users/me/.cache/ucudnn/measurements-node-17.cluster.db");
  EXPECT_EQ(HostFile("store", "a"), "store-a");
  EXPECT_EQ(HostFile("/a.b/.hidden", "a"), "/a.b/.hidden-a");
  EXPECT_EQ(HostFile("m-a.db", "a"), "m-a.db");  // m-a.db is host a's file already
  EXPECT_EQ(HostFile("m-ba.db", "a"), "m-ba-a.db");
}

TEST(HostFile, StaysInTheFolderWhateverTheHostIsCalled) {
  EXPECT_EQ(HostFile("/d/m.db", "../../etc/passwd"), "/d/m-.._.._etc_passwd.db");
  EXPECT_EQ(HostFile("/d/m.db", "a b:c\n\x80"), "/d/m-a_b_c__.db");
  EXPECT_EQ(HostFile("/d/m.db", ""), "/d/m-host.db");
  EXPECT_EQ(HostFile("/d/m.db", std::string(5000, 'x')), "/d/m-" + std::string(64, 'x') + ".db");
}

TEST(ChooseStores, WritesAFileOfTheHostOnANetwork) {
  const StoreChoice choice = ChooseStores({"/n/m.db", "/other.db"}, kNfs, "h");
  EXPECT_THAT(choice.paths, ElementsAre("/n/m.db", "/n/m-h.db", "/other.db"));
  EXPECT_EQ(choice.written, 1u);
  EXPECT_THAT(choice.network, StrEq("NFS"));
}

TEST(ChooseStores, TakesTheHostsOwnFileAsItIs) {
  const StoreChoice choice = ChooseStores({"/n/m-h.db", "/n/m.db"}, kNfs, "h");
  EXPECT_THAT(choice.paths, ElementsAre("/n/m-h.db", "/n/m.db"));
  EXPECT_EQ(choice.written, 0u);
}

TEST(ChooseStores, ChangesNothingElsewhere) {
  const StoreChoice choice = ChooseStores({"/n/m.db", "/other.db"}, kExt4, "h");
  EXPECT_THAT(choice.paths, ElementsAre("/n/m.db", "/other.db"));
  EXPECT_EQ(choice.written, 0u);
  EXPECT_EQ(choice.network, nullptr);
  EXPECT_TRUE(ChooseStores({}, kNfs, "h").paths.empty());
  EXPECT_TRUE(ChooseStores({}).paths.empty());
}

using StoreChoiceTest = StoreTest;

TEST_F(StoreChoiceTest, AMissingFileIsOnTheFileSystemOfTheFolderAboveIt) {
  struct statfs info;
  ASSERT_EQ(statfs(folder_.c_str(), &info), 0);
  EXPECT_EQ(FileSystemType(Path("no/such/folder/m.db")), static_cast<uint32_t>(info.f_type));
  EXPECT_EQ(FileSystemType("/proc/no-such/m.db"), 0x9fa0u);
  ASSERT_EQ(statfs("/", &info), 0);
  EXPECT_EQ(FileSystemType("/no-such.db"), static_cast<uint32_t>(info.f_type));
  ASSERT_EQ(statfs(".", &info), 0);
  EXPECT_EQ(FileSystemType("no-such.db"), static_cast<uint32_t>(info.f_type));
}

TEST_F(StoreChoiceTest, HostsWriteTheirOwnFilesAndAgreeOnceTheyAreMerged) {
  ASSERT_TRUE(RowStore({Path()}).Write(Problem(), kPlatform, {Row("shared", 1, 1)}).ok());
  const std::string before = Bytes(Path());
  const auto open = [&](const char* host) {
    const StoreChoice choice = ChooseStores({Path()}, kNfs, host);
    return std::make_unique<RowStore>(choice.paths, choice.written);
  };
  double time_ms = 2;
  for (const char* host : {"one", "two"}) {
    const auto store = open(host);
    ASSERT_TRUE(store
                    ->Write(Problem(), kPlatform,
                            {Row("shared", 1, 9), Row("both", 1, time_ms), Row(host, 2, 2)})
                    .ok());
    const auto rows = store->Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    EXPECT_THAT(*rows, ElementsAre(Row("both", 1, time_ms), Row("shared", 1, 1), Row(host, 2, 2)));
    ++time_ms;
  }
  EXPECT_EQ(Bytes(Path()), before);
  SqliteStore merged({Path()});
  for (const char* host : {"one", "two"}) {
    const auto rows = ReadStore(HostFile(Path(), host));
    ASSERT_TRUE(rows.ok()) << rows.message();
    ASSERT_TRUE(merged.Add(rows->measurements).ok());
  }
  for (const char* host : {"one", "two"}) {
    const auto rows = open(host)->Rows(Problem(), kPlatform);
    ASSERT_TRUE(rows.ok()) << rows.message();
    std::vector<EngineId> engines;
    for (const auto& row : *rows) engines.push_back(row.micro.engine);
    EXPECT_THAT(engines, ElementsAre("both", "shared", "one", "two"));
    EXPECT_EQ((*rows)[0].micro.time_ms, 2);
  }
}

}  // namespace
}  // namespace ucudnn::db
