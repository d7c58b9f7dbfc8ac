// Tests to which library the drop-in forwards. It is the library that the user names, or the one
// that the program would find without the drop-in. Also tests what happens if there is no such
// library.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/integration/loader/outcomes.h"

namespace ucudnn::testing {
namespace {

// LD_LIBRARY_PATH names a folder whose cuDNN reports version 90004.
const Environment kByEnvironment = {{"LD_LIBRARY_PATH", kRoot + "/by_environment"}};

std::string Real(const std::string& folder) { return kRoot + "/" + folder + "/libcudnn.so.9"; }

std::string VersionIn(const Outcome& outcome) {
  const size_t at = outcome.out.find("version=");
  return at == std::string::npos ? outcome.out + outcome.err : outcome.out.substr(at);
}

// Runs a program with UCUDNN_REAL_CUDNN=`library`, while LD_LIBRARY_PATH leads to another cuDNN.
Outcome RunNaming(const std::string& library, const std::vector<std::string>& arguments) {
  Environment environment = Preloaded(kByEnvironment);
  environment["UCUDNN_REAL_CUDNN"] = library;
  return RunProgram(arguments, environment);
}

// Expects that the program reaches the library of version `stamp`, both without the drop-in and
// through it.
void ExpectSameLibrary(const std::vector<std::string>& arguments, const Environment& environment,
                       const std::string& stamp) {
  EXPECT_EQ(VersionIn(RunProgram(arguments, environment)), "version=" + stamp + "\n");
  const Outcome outcome = RunProgram(arguments, Preloaded(environment));
  EXPECT_EQ(VersionIn(outcome), "version=" + stamp + "\n");
  EXPECT_TRUE(outcome.out.starts_with(kHooked)) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

TEST(Search, RpathBeforeTheEnvironment) {
  ExpectSameLibrary({kOpener, "consumer", "local", kRoot + "/needs_by_rpath.so"}, kByEnvironment,
                    "90002");
}

TEST(Search, EnvironmentBeforeRunpath) {
  ExpectSameLibrary({kOpener, "consumer", "local", kRoot + "/needs_by_runpath.so"}, kByEnvironment,
                    "90004");
}

TEST(Search, RunpathBeforeTheLoadersCache) {
  ExpectSameLibrary({kOpener, "consumer", "local", kRoot + "/needs_by_runpath.so"}, {}, "90003");
}

TEST(Search, EnvironmentForOpenedBySoname) {
  ExpectSameLibrary({kOpener, "soname"}, kByEnvironment, "90004");
}

TEST(Search, AlreadyLoadedBeforeTheEnvironment) {
  const Outcome outcome =
      RunProgram({kOpener, "preloaded", Real("by_rpath")}, Preloaded(kByEnvironment));
  EXPECT_EQ(VersionIn(outcome), "version=90002\n");
}

TEST(Search, NamedByTheUserBeforeAllOthers) {
  const Outcome outcome = RunNaming(Real("configured"), {kOpener, "preloaded", Real("by_rpath")});
  EXPECT_EQ(VersionIn(outcome), "version=90001\n");
  EXPECT_EQ(outcome.err, "");
}

// UCUDNN_REAL_CUDNN names a file that cannot be the real library. One warning names the file and
// the reason, and the search continues.
class NamedInVain : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(NamedInVain, WarnsOnceAndSearchesOn) {
  const auto& [path, reason] = GetParam();
  const Outcome outcome = RunNaming(path, {kOpener, "threads"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(VersionIn(outcome).rfind("version=90004\n", 0), 0u) << outcome.out << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("UCUDNN_REAL_CUDNN is ignored: " + path), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    Search, NamedInVain,
    ::testing::Values(std::pair(kRoot + "/nowhere/libcudnn.so.9", "no such file"),
                      std::pair(std::string("/tmp"), "is a folder"),
                      std::pair(std::string("/etc/passwd"), "is not a shared library"),
                      std::pair(kDropin, "is ucudnn's own drop-in"),
                      std::pair(std::string(DROPIN), "is a copy of ucudnn's drop-in"),
                      std::pair(std::string(LIBUCUDNN), "is not cuDNN 9"),
                      std::pair(std::string("/dev/null"), "is not a regular file")));

TEST(Search, SplitLibraryWithoutItsPartsIsRefused) {
  const std::string folder = kRoot + "/parts_missing";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(REAL_CUDNN, folder + "/libcudnn.so.9",
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome outcome = RunNaming(folder + "/libcudnn.so.9", {kOpener, "soname"});
  EXPECT_EQ(VersionIn(outcome), "version=90004\n");
  EXPECT_NE(outcome.err.find("lacks libcudnn_graph.so.9"), std::string::npos) << outcome.err;
}

TEST(Search, FilesLinkedOneByOneIntoAFolder) {
  // Some build systems and environments keep files in a content store and link to them like this.
  const std::string folder = kRoot + "/links";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/store");
  for (const auto& entry : std::filesystem::directory_iterator(REAL_FOLDER)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("libcudnn_")) continue;
    std::filesystem::create_symlink(entry.path(), folder + "/" + name);
  }
  std::filesystem::copy_file(REAL_CUDNN, folder + "/store/content");
  std::filesystem::create_symlink(folder + "/store/content", folder + "/libcudnn.so.9");
  const Outcome outcome =
      RunProgram({kRoot + "/answers"},
                 {{"LD_PRELOAD", DROPIN}, {"UCUDNN_REAL_CUDNN", folder + "/libcudnn.so.9"}});
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("descriptor=0 5 6 7 8"), std::string::npos) << outcome.out;
}

TEST(Search, NoRealCudnnAnywhere) {
  const Outcome outcome =
      RunProgram({kRoot + "/answers"},
                 {{"LD_PRELOAD", std::string(DROPIN) + ":" + kRoot + "/libhide_cudnn.so"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "status=1001\nsize=0\npointer=CUDNN_STATUS_NOT_INITIALIZED\n"
            "void=no real cuDNN 9 was found (set UCUDNN_REAL_CUDNN)\n"
            "descriptor=1001 0 0 0 0\n");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("no real cuDNN 9 was found"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("set UCUDNN_REAL_CUDNN"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(std::string(REAL_FOLDER) + "/libcudnn.so.9"), std::string::npos)
      << outcome.err;
}

TEST(Search, MissingFunctionsAnswerByKind) {
  const Outcome outcome =
      RunProgram({kRoot + "/answers"}, {{"LD_PRELOAD", kRoot + "/bare/lib/ucudnn/libcudnn.so.9"},
                                        {"UCUDNN_REAL_CUDNN", Real("hollow")}});
  ExpectSuccess(outcome,
                "status=3000\nsize=0\npointer=null\nvoid=untouched\ndescriptor=3000 0 0 0 0\n");
}

}  // namespace
}  // namespace ucudnn::testing
