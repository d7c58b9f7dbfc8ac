#include "suites.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/byte_size.h"
#include "tests/support/run_tests.h"

extern char** environ;

// These functions replace glibc's in this program and in libucudnn.so, so that nothing waits for
// the disk. The tests' stores need not survive a crash of the machine.
extern "C" {
__attribute__((visibility("default"))) int fsync(int) { return 0; }
__attribute__((visibility("default"))) int fdatasync(int) { return 0; }
}

namespace ucudnn::test {
namespace {

constexpr char kFolderVariable[] = "INTERPOSER_TEST_FOLDER";
constexpr char kTotalVariable[] = "INTERPOSER_TEST_TOTAL_WORKSPACE";
std::string folder;

void Set(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 1);
}

// Unsets all UCUDNN_ variables of the user, which could change the tests.
void ForgetOptions() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "UCUDNN_", 7) != 0) continue;
    names.emplace_back(*entry, std::strchr(*entry, '='));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

// Starts this program again, with `filter` as its --gtest_filter. Returns the process id.
pid_t Start(const std::string& filter, const Environment& environment) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const auto& [name, value] : environment) Set(name, value);
  const std::string argument = "--gtest_filter=" + filter;
  // Death tests start the program again by the path that is given here, so this is the program's
  // own path.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const char* const arguments[] = {program.c_str(), argument.c_str(), nullptr};
  execv(program.c_str(), const_cast<char* const*>(arguments));
  _exit(127);
}

int Wait(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int RunHere(const Environment& common, const Suite& suite) {
  const char* const given = std::getenv(kFolderVariable);
  const bool owner = given == nullptr;
  if (owner) {
    ForgetOptions();
    std::string name = std::filesystem::temp_directory_path() / "ucudnn.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      return 1;
    }
    folder = name;
    // GNU OpenMP has already read OMP_WAIT_POLICY in this process, so the policy applies only to
    // the processes that this process starts.
    Set(kFolderVariable, folder);
    Set("OMP_WAIT_POLICY", "passive");
    Set("UCUDNN_REAL_CUDNN", STANDIN_CUDNN);
    Set("UCUDNN_DATABASE", DatabasePath());
    Set("UCUDNN_REPORT", ReportPath());
    Set("UCUDNN_LOG_FILE", folder + "/log");
    // Locks of the device are in this folder, so this program does not wait for other tests.
    Set("XDG_RUNTIME_DIR", folder);
    Set("UCUDNN_BATCH_SIZE_POLICY", "powerOfTwo");
    Set("UCUDNN_TUNE", "first");
    Set("UCUDNN_TUNE_SECONDS", "600:6000");
    // Tests count convolutions and store times of legacy algorithms. Which graph engines ucudnn
    // measures depends on real times, so graph engines are off.
    Set("UCUDNN_ENGINES", "legacy");
    if (const char* total = std::getenv(kTotalVariable)) Set("UCUDNN_TOTAL_WORKSPACE", total);
    for (const Environment* environment : {&common, &suite.environment}) {
      for (const auto& [variable, value] : *environment) Set(variable, value);
    }
  } else {
    folder = given;
  }
  const int status = RunSelectedTests();
  if (owner) std::filesystem::remove_all(folder);
  return status;
}

}  // namespace

int RunSuites(int argc, char** argv, const std::vector<Suite>& suites, const Environment& common) {
  testing::InitGoogleTest(&argc, argv);
  const std::string filter = GTEST_FLAG_GET(filter);
  for (const Suite& suite : suites) {
    if (filter.rfind(suite.name + ".", 0) == 0) return RunHere(common, suite);
  }
  std::string failed;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const std::string name = program.GetTestSuite(i)->name();
    if (std::none_of(suites.begin(), suites.end(),
                     [&](const Suite& suite) { return suite.name == name; })) {
      failed += " " + name + " (main() gives RunSuites no such suite)";
    }
  }
  for (const Suite& suite : suites) {
    if (Wait(Start(suite.name + ".*", {})) != 0) failed += " " + suite.name;
  }
  if (!failed.empty()) std::fprintf(stderr, "failed:%s\n", failed.c_str());
  return failed.empty() ? 0 : 1;
}

bool InBudget() { return std::getenv(kTotalVariable) != nullptr; }

std::optional<size_t> TotalWorkspace() {
  const char* const text = std::getenv("UCUDNN_TOTAL_WORKSPACE");
  return text == nullptr ? std::nullopt : std::optional(*ParseByteSize(text));
}

const std::string& Folder() { return folder; }
std::string DatabasePath() { return folder + "/measurements.db"; }
std::string ReportPath() { return folder + "/report.json"; }

std::vector<std::string> LogLines() {
  std::vector<std::string> lines;
  std::ifstream file(folder + "/log");
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TestProcess::TestProcess(const std::string& test, const std::string& report,
                         Environment environment) {
  if (!report.empty()) environment.emplace_back("UCUDNN_REPORT", folder + "/" + report);
  pid_ = Start(test, environment);
}

bool TestProcess::Passed() { return Wait(pid_) == 0; }

}  // namespace ucudnn::test
