// Tests the ways in which a program finds cuDNN. In each, the program reaches the drop-in.
// dlsym_test.cpp tests the one other way, opening cuDNN only by its path. With the drop-in, the
// hook of test_hooks.cpp answers cudnnCreate, and the real library answers cudnnGetVersion. Without
// the drop-in, the real library answers both functions.
#include <fstream>
#include <regex>

#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

const Environment kRealFolder = {{"LD_LIBRARY_PATH", REAL_FOLDER}};

// Returns the version that the real library reports to a program without the drop-in.
std::string RealVersion() {
  static const std::string version = [] {
    std::smatch match;
    const std::string out = RunProgram({kRoot + "/linked"}).out;
    return std::regex_search(out, match, std::regex("version=([0-9]+)")) ? match[1].str() : out;
  }();
  return version;
}

std::string Expected() { return kHooked + "version=" + RealVersion() + "\n"; }

Outcome RunPreloaded(const std::vector<std::string>& arguments,
                     const Environment& environment = {}) {
  return RunProgram(arguments, Preloaded(environment));
}

void ExpectHooked(const Outcome& outcome, const std::string& expected = Expected()) {
  ExpectSuccess(outcome, expected);
}

TEST(Reach, WithoutPreloadNothingIsHooked) {
  const Outcome outcome = RunProgram({kRoot + "/linked"});
  EXPECT_EQ(outcome.out.find(kHooked), std::string::npos) << outcome.out;
  EXPECT_GE(std::stoi(RealVersion()), 90000);
}

TEST(Reach, LinkedProgram) { ExpectHooked(RunPreloaded({kRoot + "/linked"})); }

TEST(Reach, InstalledLibraryInterceptsWithItsOwnHooks) {
  const Outcome outcome =
      RunProgram({kRoot + "/linked"}, {{"LD_PRELOAD", DROPIN}, {"UCUDNN_LOG", "debug"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("cudnnCreate intercepted"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("version=" + RealVersion()), std::string::npos) << outcome.out;
}

TEST(Reach, OpenedBySoname) { ExpectHooked(RunPreloaded({kOpener, "soname"}, kRealFolder)); }

TEST(Reach, OpenedBySonameThroughTheLoadersPathInsteadOfPreload) {
  ExpectHooked(RunProgram({kOpener, "soname"}, {{"LD_LIBRARY_PATH", kFolder + ":" + REAL_FOLDER}}));
}

TEST(Reach, OpenedByAbsolutePathFirst) {
  ExpectHooked(RunPreloaded({kOpener, "preloaded", REAL_CUDNN}));
}

TEST(Reach, LibraryWithRpath) {
  ExpectHooked(RunPreloaded({kOpener, "consumer", "local", kRoot + "/needs_real_by_rpath.so"}));
}

TEST(Reach, LibraryWithRunpath) {
  ExpectHooked(RunPreloaded({kOpener, "consumer", "local", kRoot + "/needs_real_by_runpath.so"}));
}

TEST(Reach, LibraryOpenedWithDeepbind) {
  ExpectHooked(RunPreloaded({kOpener, "consumer", "deepbind", kRoot + "/needs_real_by_rpath.so"}));
}

TEST(Reach, PythonCtypes) {
  const std::string script =
      "import ctypes\n"
      "cudnn = ctypes.CDLL('libcudnn.so.9')\n"
      "cudnn.cudnnGetVersion.restype = ctypes.c_size_t\n"
      "handle = ctypes.c_void_p()\n"
      "status = cudnn.cudnnCreate(ctypes.byref(handle))\n"
      "print(f'create={status} handle={handle.value:#x} version={cudnn.cudnnGetVersion()}')\n";
  ExpectHooked(RunPreloaded({"/usr/bin/env", "python3", "-c", script}, kRealFolder));
}

TEST(Reach, ForkedChildAndItsParent) {
  ExpectHooked(RunPreloaded({kOpener, "fork"}, kRealFolder), Expected() + Expected());
}

TEST(Reach, ProgramsThatAShellStarts) {
  const std::string script = "\"$0\" soname; (\"$0\" soname); \"$0\" soname | cat";
  ExpectHooked(RunPreloaded({"/bin/sh", "-c", script, kOpener}, kRealFolder),
               Expected() + Expected() + Expected());
}

// Data loaders and launchers fork workers, or start them as new interpreters.
TEST(Reach, PythonsWorkers) {
  const std::string script =
      "import ctypes, multiprocessing, subprocess, sys\n"
      "def use(path):\n"
      "    library = ctypes.CDLL(path)\n"
      "    library.UseLinkedCudnn()\n"
      "if __name__ == '__main__':\n"
      "    for method in 'fork', 'spawn':\n"
      "        worker = multiprocessing.get_context(method).Process(target=use, "
      "args=sys.argv[1:2])\n"
      "        worker.start()\n"
      "        worker.join()\n"
      "        assert worker.exitcode == 0\n"
      "    subprocess.run([sys.argv[2]], check=True)\n";
  const std::string path = kRoot + "/workers.py";
  std::ofstream(path) << script;
  ExpectHooked(RunPreloaded({"/usr/bin/env", "python3", "-B", path,
                             kRoot + "/needs_real_by_rpath.so", kRoot + "/linked"}),
               Expected() + Expected() + Expected());
}

TEST(Reach, ExecutedProgram) { ExpectHooked(RunPreloaded({kOpener, "exec", kRoot + "/linked"})); }

TEST(Reach, FirstCallsOfEightThreadsAtOnce) {
  std::string expected;
  for (int i = 0; i < 8; ++i) expected += Expected();
  for (int i = 0; i < 20; ++i) {
    ExpectHooked(RunPreloaded({kOpener, "threads"}, kRealFolder), expected);
  }
}

}  // namespace
}  // namespace ucudnn::testing
