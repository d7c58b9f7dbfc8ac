// Tests the optional dlsym hook: programs that open the real library by its path reach the drop-in,
// and nobody else's look-ups change.
#include <gtest/gtest.h>

#include "tests/integration/loader/process.h"

namespace ucudnn::testing {
namespace {

const std::string kRoot = LOADER_ROOT;
const std::string kOpener = kRoot + "/opener";
const std::string kFolder = kRoot + "/hooked/lib/ucudnn";
const std::string kHooked = "create=0 handle=0x5eed version=";

using Environment = std::map<std::string, std::string>;

Environment WithHook(Environment environment = {}) {
  environment["LD_PRELOAD"] = kFolder + "/libcudnn.so.9:" + kFolder + "/libucudnn_dlsym.so";
  return environment;
}

TEST(DlsymHook, PathThenDlsymReachesTheDropInAndTheFileThatWasNamed) {
  const std::string real = kRoot + "/configured/libcudnn.so.9";
  const Outcome outcome = RunProgram({kOpener, "path", real}, WithHook());
  EXPECT_EQ(outcome.out, kHooked + "90001\n");
  EXPECT_EQ(outcome.err, "");
  // Without the hook the program gets its own library, untouched.
  const Outcome without =
      RunProgram({kOpener, "path", real}, {{"LD_PRELOAD", kFolder + "/libcudnn.so.9"}});
  EXPECT_EQ(without.out, RunProgram({kOpener, "path", real}).out);
}

// The real library looks its functions up in its parts, and such look-ups must not come back to the
// drop-in.
TEST(DlsymHook, RealCudnnFindsItsOwnParts) {
  const Outcome alone = RunProgram({kOpener, "path", REAL_CUDNN});
  const Outcome outcome = RunProgram({kOpener, "path", REAL_CUDNN}, WithHook());
  const std::string version = alone.out.substr(alone.out.find("version=") + 8);
  EXPECT_GE(std::stoi(version), 90000) << alone.out << alone.err;
  EXPECT_EQ(outcome.out, kHooked + version);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST(DlsymHook, WithoutThePreloadedDropInItOpensItself) {
  const Outcome outcome = RunProgram({kOpener, "path", kRoot + "/configured/libcudnn.so.9"},
                                     {{"LD_PRELOAD", kFolder + "/libucudnn_dlsym.so"}});
  EXPECT_EQ(outcome.out, kHooked + "90001\n") << outcome.err;
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
    Environment without = environment;
    without["LD_PRELOAD"] = kFolder + "/libcudnn.so.9";
    const Outcome expected = RunProgram(arguments, without);
    const Outcome outcome = RunProgram(arguments, WithHook(environment));
    EXPECT_EQ(expected.out.rfind(kHooked, 0), 0u) << expected.out;
    EXPECT_EQ(outcome.out, expected.out) << outcome.err;
    EXPECT_EQ(outcome.exit_code, 0);
  }
}

// glibc finds the library that comes next from the caller's return address.
TEST(DlsymHook, NobodyElsesNextIsChanged) {
  const std::string says = kRoot + "/says";
  const std::string interposer = kRoot + "/next_interposer.so";
  for (const std::string& preload :
       {std::string(HOOK) + ":" + interposer, interposer + ":" + std::string(HOOK)}) {
    const Outcome outcome = RunProgram({says, "hello"}, {{"LD_PRELOAD", preload}});
    EXPECT_EQ(outcome.out, "interposed: hello\n") << preload;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.exit_code, 0);
  }
}

TEST(DlsymHook, ProgramsWithoutCudnnRunUndisturbed) {
  const std::vector<std::vector<std::string>> programs = {
      {"/bin/true"},
      {"/bin/sh", "-c", "echo a | cat"},
      {"/usr/bin/env", "python3", "-c",
       "import ctypes, sqlite3, ssl, subprocess\n"
       "assert ctypes.CDLL(None).puts\n"
       "print(sqlite3.connect(':memory:').execute('select 1').fetchall())"}};
  for (const auto& program : programs) {
    const Outcome alone = RunProgram(program);
    const Outcome preloaded = RunProgram(program, {{"LD_PRELOAD", HOOK}});
    EXPECT_EQ(preloaded.exit_code, alone.exit_code) << program.back();
    EXPECT_EQ(preloaded.out, alone.out);
    EXPECT_EQ(preloaded.err, alone.err);
  }
}

TEST(DlsymHook, ExportsDlsymAloneWithoutAVersionNode) {
  const Outcome outcome = RunProgram({NM, "-D", "--defined-only", "--format=just-symbols", HOOK});
  EXPECT_EQ(outcome.out, "dlsym\n") << outcome.err;
}

}  // namespace
}  // namespace ucudnn::testing
