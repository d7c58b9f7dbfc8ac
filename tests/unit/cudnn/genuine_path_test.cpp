#include "cudnn/genuine_path.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/shared_library.h"

namespace ucudnn::cudnn {
namespace {

const std::string kRoot = ROOT;

std::string Genuine(const std::string& folder) { return kRoot + "/" + folder + "/libcudnn.so.9"; }

// What is loaded stays loaded: each test that loads does so in a child of its own.
std::string PathFoundInChild(const std::function<void()>& prepare) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    const std::string path = FindGenuine(nullptr, nullptr).path;
    const ssize_t written = write(ends[1], path.data(), path.size());
    _exit(written == static_cast<ssize_t>(path.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string path(4096, '\0');
  const ssize_t got = read(ends[0], path.data(), path.size());
  path.resize(got > 0 ? static_cast<size_t>(got) : 0);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return path;
}

void Load(const std::string& path) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
}

TEST(CheckGenuine, AcceptsCudnnNine) { EXPECT_TRUE(CheckGenuine(Genuine("nine"), nullptr).ok()); }

TEST(CheckGenuine, RefusesCudnnEightAndSaysSo) {
  EXPECT_EQ(CheckGenuine(Genuine("eight"), nullptr).message(),
            "is another cuDNN (libcudnn.so.8); ucudnn works with cuDNN 9 only");
}

TEST(CheckGenuine, RefusesAnotherLibraryUnderCudnnsFileName) {
  EXPECT_EQ(CheckGenuine(Genuine("stranger"), nullptr).message(),
            "is not cuDNN 9: its SONAME is 'libstranger.so.1', not libcudnn.so.9");
}

TEST(CheckGenuine, RefusesACopyOfTheDropin) {
  EXPECT_EQ(CheckGenuine(Genuine("dropin_copy"), nullptr).message(),
            "is a copy of ucudnn's drop-in");
}

TEST(CheckGenuine, RefusesTheDropinItself) {
  const Result<SharedLibrary> dropin = SharedLibrary::Open(DROPIN);
  ASSERT_TRUE(dropin.ok()) << dropin.message();
  EXPECT_EQ(CheckGenuine(DROPIN, dropin->Symbol("cudnnCreate")).message(),
            "is ucudnn's own drop-in");
}

TEST(FindGenuine, TakesWhatTheUserNames) {
  const GenuineSearch search = FindGenuine(Genuine("by_rpath").c_str(), nullptr);
  EXPECT_EQ(search.path, Genuine("by_rpath"));
  EXPECT_TRUE(search.tried.empty());
  EXPECT_TRUE(search.ignored.empty());
}

TEST(FindGenuine, SaysWhyTheUsersChoiceIsIgnoredAndSearchesOn) {
  const GenuineSearch search = FindGenuine(Genuine("eight").c_str(), nullptr);
  EXPECT_EQ(search.path, Genuine("nine"));  // from this test's LD_LIBRARY_PATH
  ASSERT_EQ(search.ignored.size(), 1u);
  EXPECT_EQ(
      search.ignored[0],
      Genuine("eight") + ": is another cuDNN (libcudnn.so.8); ucudnn works with cuDNN 9 only");
}

TEST(FindGenuine, SearchesOnWhereALibraryCannotBeLoaded) {
  const GenuineSearch search =
      FindGenuine(Genuine("by_rpath").c_str(), nullptr, [](const std::string& path) {
        return path == Genuine("nine") ? Status::Ok() : Status::Error("does not load");
      });
  EXPECT_EQ(search.path, Genuine("nine"));
  EXPECT_EQ(search.tried.front(), Genuine("by_rpath") + ": does not load");
}

TEST(FindGenuine, ReportsEveryPlaceWhereNoneIsTaken) {
  const GenuineSearch search = FindGenuine(
      nullptr, nullptr, [](const std::string&) { return Status::Error("does not load"); });
  EXPECT_EQ(search.path, "");
  EXPECT_NE(
      std::find(search.tried.begin(), search.tried.end(), Genuine("nine") + ": does not load"),
      search.tried.end());
  EXPECT_NE(
      std::find(search.tried.begin(), search.tried.end(), "/usr/lib/libcudnn.so.9: no such file"),
      search.tried.end());
}

TEST(FindGenuine, LoadedLibraryFirst) {
  EXPECT_EQ(PathFoundInChild([] {
              Load(kRoot + "/has_rpath/libhas_rpath.so");
              Load(Genuine("by_runpath"));
            }),
            Genuine("by_runpath"));
}

TEST(FindGenuine, FolderOfALoadedPartFirst) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/beside_part/libcudnn_ops.so.9"); }),
            Genuine("beside_part"));
}

TEST(FindGenuine, RpathOfALoadedObjectBeforeTheEnvironment) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/has_rpath/libhas_rpath.so"); }),
            Genuine("by_rpath"));
}

TEST(FindGenuine, EnvironmentBeforeRunpathOfALoadedObject) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/has_runpath/libhas_runpath.so"); }),
            Genuine("nine"));
}

TEST(ExpandRunPath, ReplacesTheLoadersTokens) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(ExpandRunPath("$ORIGIN/../nvidia/cudnn/lib:/opt/${ORIGIN}", "/a/b/libx.so"),
            (Paths{"/a/b/../nvidia/cudnn/lib", "/opt//a/b"}));
  EXPECT_EQ(ExpandRunPath("/x/$LIB", "/a/libx.so"),
            (Paths{"/x/lib/x86_64-linux-gnu", "/x/lib64", "/x/lib"}));
  EXPECT_EQ(ExpandRunPath("::", "/a/libx.so"), Paths{});
  EXPECT_EQ(ExpandRunPath("/$PLATFORM", "/a/libx.so").at(0).find('$'), std::string::npos);
}

TEST(ExpandRunPath, OriginThatContainsATokenIsLeftAlone) {
  EXPECT_EQ(ExpandRunPath("$ORIGIN/lib", "/odd/$ORIGIN/libx.so"),
            std::vector<std::string>{"/odd/$ORIGIN/lib"});
}

}  // namespace
}  // namespace ucudnn::cudnn
