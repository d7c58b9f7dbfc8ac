#include "cudnn/real_path.h"

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

std::string Real(const std::string& folder) { return kRoot + "/" + folder + "/libcudnn.so.9"; }

// Returns the path that FindReal finds in a child process after `prepare`. Loaded libraries decide
// what FindReal finds, and stay loaded, so tests load libraries only in `prepare`.
std::string PathFoundInChild(const std::function<void()>& prepare) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    const std::string path = FindReal(nullptr, nullptr).path;
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

TEST(CheckReal, AcceptsCudnnNine) { EXPECT_TRUE(CheckReal(Real("nine"), nullptr).ok()); }

TEST(CheckReal, RefusesCudnnEightAndSaysSo) {
  EXPECT_EQ(CheckReal(Real("eight"), nullptr).message(),
            "is another cuDNN (libcudnn.so.8); ucudnn works with cuDNN 9 only");
}

TEST(CheckReal, RefusesAnotherLibraryUnderCudnnsFileName) {
  EXPECT_EQ(CheckReal(Real("stranger"), nullptr).message(),
            "is not cuDNN 9: its SONAME is 'libstranger.so.1', not libcudnn.so.9");
}

TEST(CheckReal, RefusesACopyOfTheDropin) {
  EXPECT_EQ(CheckReal(Real("dropin_copy"), nullptr).message(), "is a copy of ucudnn's drop-in");
}

TEST(CheckReal, RefusesTheDropinItself) {
  const Result<SharedLibrary> dropin = SharedLibrary::Open(DROPIN);
  ASSERT_TRUE(dropin.ok()) << dropin.message();
  EXPECT_EQ(CheckReal(DROPIN, dropin->Symbol("cudnnCreate")).message(), "is ucudnn's own drop-in");
}

TEST(FindReal, TakesWhatTheUserNames) {
  const RealSearch search = FindReal(Real("by_rpath").c_str(), nullptr);
  EXPECT_EQ(search.path, Real("by_rpath"));
  EXPECT_TRUE(search.tried.empty());
  EXPECT_TRUE(search.ignored.empty());
}

TEST(FindReal, SaysWhyTheUsersChoiceIsIgnoredAndSearchesOn) {
  const RealSearch search = FindReal(Real("eight").c_str(), nullptr);
  EXPECT_EQ(search.path, Real("nine"));  // from this test's LD_LIBRARY_PATH
  ASSERT_EQ(search.ignored.size(), 1u);
  EXPECT_EQ(search.ignored[0],
            Real("eight") + ": is another cuDNN (libcudnn.so.8); ucudnn works with cuDNN 9 only");
}

TEST(FindReal, SearchesOnWhereALibraryCannotBeLoaded) {
  const RealSearch search =
      FindReal(Real("by_rpath").c_str(), nullptr, [](const std::string& path) {
        return path == Real("nine") ? Status::Ok() : Status::Error("does not load");
      });
  EXPECT_EQ(search.path, Real("nine"));
  EXPECT_EQ(search.tried.front(), Real("by_rpath") + ": does not load");
}

TEST(FindReal, ReportsEveryPlaceWhereNoneIsTaken) {
  const RealSearch search =
      FindReal(nullptr, nullptr, [](const std::string&) { return Status::Error("does not load"); });
  EXPECT_EQ(search.path, "");
  EXPECT_NE(std::find(search.tried.begin(), search.tried.end(), Real("nine") + ": does not load"),
            search.tried.end());
  EXPECT_NE(
      std::find(search.tried.begin(), search.tried.end(), "/usr/lib/libcudnn.so.9: no such file"),
      search.tried.end());
}

TEST(FindReal, LoadedLibraryFirst) {
  EXPECT_EQ(PathFoundInChild([] {
              Load(kRoot + "/has_rpath/libhas_rpath.so");
              Load(Real("by_runpath"));
            }),
            Real("by_runpath"));
}

TEST(FindReal, FolderOfALoadedPartFirst) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/beside_part/libcudnn_ops.so.9"); }),
            Real("beside_part"));
}

TEST(FindReal, RpathOfALoadedObjectBeforeTheEnvironment) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/has_rpath/libhas_rpath.so"); }), Real("by_rpath"));
}

TEST(FindReal, EnvironmentBeforeRunpathOfALoadedObject) {
  EXPECT_EQ(PathFoundInChild([] { Load(kRoot + "/has_runpath/libhas_runpath.so"); }), Real("nine"));
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
