// Tests the optional dlsym hook. Programs that open the real library by its path reach the drop-in;
// other look-ups do not change.
#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

const std::string kHook = kFolder + "/libucudnn_dlsym.so";

Environment WithHook(const Environment& environment = {}) {
  return Preloaded(environment, kDropin + ":" + kHook);
}

TEST(DlsymHook, PathThenDlsymReachesTheDropInAndTheFileThatWasNamed) {
  const std::string real = kRoot + "/configured/libcudnn.so.9";
  ExpectSuccess(RunProgram({kOpener, "path", real}, WithHook()), kHooked + "version=90001\n");
  // Without the hook the program uses the library that it opened.
  const Outcome without = RunProgram({kOpener, "path", real}, Preloaded({}));
  EXPECT_EQ(without.out, RunProgram({kOpener, "path", real}).out);
}

// The real library looks up functions in its own sub-libraries. These look-ups must not return the
// drop-in's functions.
TEST(DlsymHook, RealCudnnFindsItsOwnParts) {
  const Outcome alone = RunProgram({kOpener, "path", REAL_CUDNN});
  const std::string version = alone.out.substr(alone.out.find("version=") + 8);
  EXPECT_GE(std::stoi(version), 90000) << alone.out << alone.err;
  ExpectSuccess(RunProgram({kOpener, "path", REAL_CUDNN}, WithHook()),
                kHooked + "version=" + version);
}

TEST(DlsymHook, WithoutThePreloadedDropInItOpensItself) {
  const Outcome outcome =
      RunProgram({kOpener, "path", kRoot + "/configured/libcudnn.so.9"}, Preloaded({}, kHook));
  EXPECT_EQ(outcome.out, kHooked + "version=90001\n") << outcome.err;
}

TEST(DlsymHook, OtherModesAreServedAsWithoutIt) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {kRoot + "/linked"},
           {kOpener, "soname"},
           {kOpener, "preloaded", REAL_CUDNN},
           {kOpener, "consumer", "deepbind", kRoot + "/needs_real_by_rpath.so"},
           {kOpener, "fork"},
           {kOpener, "threads"}}) {
    const Environment environment = {{"LD_LIBRARY_PATH", REAL_FOLDER}};
    const Outcome expected = RunProgram(arguments, Preloaded(environment));
    const Outcome outcome = RunProgram(arguments, WithHook(environment));
    EXPECT_TRUE(expected.out.starts_with(kHooked + "version=")) << expected.out;
    EXPECT_EQ(outcome.out, expected.out) << outcome.err;
    EXPECT_EQ(outcome.exit_code, 0);
  }
}

// For dlsym(RTLD_NEXT), glibc learns the calling library from the return address. So the hook must
// not put its own address there.
TEST(DlsymHook, NobodyElsesNextIsChanged) {
  const std::string says = kRoot + "/says";
  const std::string interposer = kRoot + "/next_interposer.so";
  for (const std::string& preload :
       {std::string(HOOK) + ":" + interposer, interposer + ":" + std::string(HOOK)}) {
    SCOPED_TRACE(preload);
    ExpectSuccess(RunProgram({says, "hello"}, Preloaded({}, preload)), "interposed: hello\n");
  }
}

TEST(DlsymHook, ProgramsWithoutCudnnRunUndisturbed) {
  ExpectUndisturbed({{"/bin/true"},
                     {"/bin/sh", "-c", "echo a | cat"},
                     {"/usr/bin/env", "python3", "-c",
                      "import ctypes, sqlite3, ssl, subprocess\n"
                      "assert ctypes.CDLL(None).puts\n"
                      "print(sqlite3.connect(':memory:').execute('select 1').fetchall())"}},
                    HOOK);
}

TEST(DlsymHook, ExportsDlsymAloneWithoutAVersionNode) {
  const Outcome outcome = RunProgram({NM, "-D", "--defined-only", "--format=just-symbols", HOOK});
  EXPECT_EQ(outcome.out, "dlsym\n") << outcome.err;
}

}  // namespace
}  // namespace ucudnn::testing
