// Tests what the loader sees of ucudnn's libraries. The libraries export and need only what is
// necessary. Programs that preload them start on a machine without CUDA.
#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

using Names = std::set<std::string>;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the values of all entries with one tag, such as "NEEDED", in the dynamic section.
Names DynamicValues(const std::string& library, const std::string& tag) {
  Names values;
  for (const std::string& line : Lines(RunProgram({READELF, "-dW", library}).out)) {
    const size_t open = line.find('[');
    const size_t close = line.rfind(']');
    if (line.find("(" + tag + ")") != std::string::npos && close != std::string::npos) {
      values.insert(line.substr(open + 1, close - open - 1));
    }
  }
  return values;
}

// Returns exported functions and data as "name@@node". Leaves out the version nodes themselves.
Names Exports(const std::string& library) {
  Names names;
  for (const std::string& line : Lines(RunProgram({NM, "-D", "--defined-only", library}).out)) {
    std::istringstream words(line);
    std::string address, kind, name;
    words >> address >> kind >> name;
    if (kind != "A") names.insert(name);
  }
  return names;
}

// Returns the versions of glibc that `file` needs, such as "2.34". The loader refuses the file if
// glibc lacks one of them.
Names GlibcVersions(const std::string& file) {
  const std::string mark = "Name: GLIBC_";
  Names versions;
  for (const std::string& line : Lines(RunProgram({READELF, "-VW", file}).out)) {
    const size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    const size_t begin = at + mark.size();
    versions.insert(line.substr(begin, line.find(' ', begin) - begin));
  }
  return versions;
}

// Returns the installed files (the command, the libraries, the stand-ins), without links.
std::vector<std::string> InstalledFiles() {
  std::vector<std::string> files;
  for (const char* folder : {INSTALLED_BIN, INSTALLED_LIB}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_symlink() && entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  return files;
}

#define EXPORT(index, name, kind) #name "@@libcudnn.so.9",
const Names kListed = {
#include "exports.inc"
};
#undef EXPORT

TEST(Shape, DropinNeedsOnlyLibucudnnAndGlibc) {
  const Names allowed = {
      "libc.so.6",     "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2",
      "libucudnn.so.1"};
  const Names needed = DynamicValues(DROPIN, "NEEDED");
  EXPECT_TRUE(needed.contains("libucudnn.so.1"));
  EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), needed.begin(), needed.end()));
}

TEST(Shape, LibrariesThatProgramsLinkNeedOnlyGlibc) {
  const Names allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
                         "ld-linux-x86-64.so.2"};
  for (const char* library : {LIBUCUDNN, LAYER_PARALLEL}) {
    const Names needed = DynamicValues(library, "NEEDED");
    EXPECT_TRUE(needed.contains("libc.so.6")) << library;
    EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), needed.begin(), needed.end()))
        << library;
  }
}

// A build may run on a system older than the one that built it. The oldest supported glibc is 2.28,
// of RHEL 8; Ubuntu 20.04 has 2.31.
TEST(Shape, NothingNeedsMoreThanGlibc228) {
  const auto newer = [](const std::string& version) {
    int major = 0;
    int minor = 0;
    std::sscanf(version.c_str(), "%d.%d", &major, &minor);
    return major != 2 || minor > 28;
  };
  Names names;
  Names asked_for;
  for (const std::string& file : InstalledFiles()) {
    names.insert(std::filesystem::path(file).filename());
    for (const std::string& version : GlibcVersions(file)) {
      EXPECT_FALSE(newer(version)) << file << " needs glibc " << version;
      asked_for.insert(version);
    }
  }
  for (const char* name : {"ucudnn", "libucudnn.so.1", "libucudnn_layer_parallel.so.1",
                           "libcudnn.so.9", "libucudnn_dlsym.so", "libcuda.so.1"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_TRUE(asked_for.contains("2.14")) << "readelf's words were not understood";
}

// Functions in shim/glibc replace functions of newer glibc releases and must behave the same.
TEST(Shape, ProgramsForOldGlibcRunAsOthers) {
  const std::string program = kRoot + "/oldest_glibc";
  for (const std::string& version : GlibcVersions(program)) {
    EXPECT_LE(std::stoi(version.substr(2)), 28) << version;
  }
  const std::string folder = kRoot + "/files";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file") << "seven b";
  std::filesystem::create_symlink("file", folder + "/link");
  std::filesystem::create_symlink("nothing", folder + "/dangling");
  const Outcome outcome = RunProgram({program, folder});
  EXPECT_EQ(outcome.out,
            "constructors 2\n"
            "file: size 7, link 0, folder 0\n"
            "link: size 7, link 1, folder 0\n"
            "dangling: No such file or directory, link 1, folder 0\n"
            ".: size 0, link 0, folder 1\n"
            "open file: size 7\n"
            "environment set\n"
            "waited until the time, then for the word\n"
            "destructors\n")
      << outcome.err;
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// libgcc's unwinder calls _dl_find_object, which came with glibc 2.35. With the replacement of this
// function, the unwinder must find exception handlers.
TEST(Shape, ExceptionsFindTheirHandlersWithoutNewerGlibc) {
  const std::string path = kRoot + "/libthrowing.so";
  const std::string symbols = RunProgram({NM, "-D", "--undefined-only", path}).out;
  EXPECT_NE(symbols.find("dl_iterate_phdr"), std::string::npos) << symbols;
  EXPECT_EQ(symbols.find("_dl_find_object"), std::string::npos) << symbols;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto throw_and_catch =
      reinterpret_cast<int (*)(size_t)>(dlsym(library, "ucudnnTestThrowAndCatch"));
  ASSERT_NE(throw_and_catch, nullptr);
  EXPECT_EQ(throw_and_catch(0), 0);
  EXPECT_EQ(throw_and_catch(7), 1);
}

TEST(Shape, NamesAndRunPathsAreThoseOfTheInstallTree) {
  EXPECT_EQ(DynamicValues(DROPIN, "SONAME"), Names{"libcudnn.so.9"});
  EXPECT_EQ(DynamicValues(DROPIN, "RUNPATH"), Names{"$ORIGIN/.."});
  EXPECT_EQ(DynamicValues(LIBUCUDNN, "SONAME"), Names{"libucudnn.so.1"});
  EXPECT_EQ(DynamicValues(LAYER_PARALLEL, "SONAME"), Names{"libucudnn_layer_parallel.so.1"});
  EXPECT_EQ(DynamicValues(LAYER_PARALLEL, "RUNPATH"), Names());
}

TEST(Shape, DropinRunsNothingWhenLoaded) {
  const std::string dynamic = RunProgram({READELF, "-dW", DROPIN}).out;
  ASSERT_NE(dynamic.find("(SONAME)"), std::string::npos);
  EXPECT_EQ(dynamic.find("INIT"), std::string::npos) << dynamic;
}

TEST(Shape, DropinExportsExactlyTheListUnderCudnnsNode) { EXPECT_EQ(Exports(DROPIN), kListed); }

// The drop-in also exports functions of other cuDNN releases, because a program may be built for
// any release.
TEST(Shape, DropinExportsWhatTheRealLibraryExports) {
  const Names real = Exports(REAL_CUDNN);
  const Names ours = Exports(DROPIN);
  ASSERT_GT(real.size(), 200u);
  EXPECT_TRUE(std::includes(ours.begin(), ours.end(), real.begin(), real.end()));
  EXPECT_TRUE(ours.contains("cudnnCausalConv1dForward@@libcudnn.so.9"));  // in cuDNN since 9.22
}

TEST(Shape, LibucudnnExportsOnlyItsOwnNames) {
  const Names exports = Exports(LIBUCUDNN);
  EXPECT_TRUE(exports.contains("ucudnnPrivateFillDropin@@libucudnn.so.1"));
  for (const std::string& name : exports) EXPECT_TRUE(name.starts_with("ucudnn")) << name;
}

// Programs may link with every exported name, so the library must export exactly these names.
TEST(Shape, LayerParallelExportsExactlyItsHeader) {
  Names expected;
  for (const char* name :
       {"Create", "Destroy", "GetAdjoint", "GetCallbackCode", "GetLastError", "GetState",
        "GetStateCount", "GetVersionString", "SolveAdjoint", "SolveForward", "VisitLayers"}) {
    expected.insert("ucudnnLayerParallel" + std::string(name) + "@@libucudnn_layer_parallel.so.1");
  }
  EXPECT_EQ(Exports(LAYER_PARALLEL), expected);
}

// This library only computes, so it needs no function that reads the environment, opens a file or
// library, or connects.
TEST(Shape, LayerParallelReadsNoEnvironmentAndOpensNothing) {
  std::set<std::string> needed;
  for (const std::string& line : Lines(RunProgram({NM, "-D", "-u", LAYER_PARALLEL}).out)) {
    const size_t begin = line.find_last_of(' ') + 1;
    needed.insert(line.substr(begin, line.find('@') - begin));
  }
  EXPECT_TRUE(needed.contains("malloc"));
  for (const char* name : {"getenv", "dlopen", "dlsym", "open", "fopen", "socket"}) {
    EXPECT_FALSE(needed.contains(name)) << name;
  }
}

TEST(Shape, LayerParallelLoadsAloneAndStartsNoThread) {
  const auto threads = [] {
    const auto all = std::filesystem::directory_iterator("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  const auto before = threads();
  void* const library = dlopen(LAYER_PARALLEL, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(threads(), before);
  EXPECT_EQ(dlopen("libucudnn.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
  const auto words =
      reinterpret_cast<const char* (*)()>(dlsym(library, "ucudnnLayerParallelGetLastError"));
  ASSERT_NE(words, nullptr);
  EXPECT_STREQ(words(), "");
}

TEST(Shape, ProgramsWithoutCudaRunUndisturbed) {
  ExpectUndisturbed(
      {{"/bin/true"},
       {"/bin/sh", "-c", "echo a | cat"},
       {"/usr/bin/env", "bash", "-c", "exit 7"},
       {"/usr/bin/env", "python3", "-c", "import os, subprocess; print(sum(range(10)))"}},
      DROPIN);
}

TEST(Shape, LoadingCostsLittle) {
  // Measures processor time of the child, so load by other programs does not count.
  const auto milliseconds = [](const Environment& environment) {
    rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    RunProgram({"/bin/true"}, environment);
    getrusage(RUSAGE_CHILDREN, &after);
    const auto of = [](const timeval& time) { return 1e3 * time.tv_sec + 1e-3 * time.tv_usec; };
    return of(after.ru_utime) + of(after.ru_stime) - of(before.ru_utime) - of(before.ru_stime);
  };
  double alone = 1e9;
  double preloaded = 1e9;
  for (int i = 0; i < 40; ++i) {
    alone = std::min(alone, milliseconds({}));
    preloaded = std::min(preloaded, milliseconds({{"LD_PRELOAD", DROPIN}}));
  }
  RecordProperty("milliseconds_per_process", std::to_string(preloaded - alone));
  // Loading only maps and relocates two libraries. Work in a constructor would take more than 5 ms.
  EXPECT_LT(preloaded - alone, 5.0);
}

}  // namespace
}  // namespace ucudnn::testing
