// A test program's suites need different options, and ucudnn reads its options once per process, so
// each suite runs in a process of its own, with its own folder, store and report.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ucudnn::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct Suite {
  std::string name;         // the name of the GoogleTest suite
  Environment environment;  // variables that are added to those of all suites, or replace them
};

// Without a --gtest_filter, runs every suite of `suites`, each in a process of its own. If the
// filter begins with the name of a suite (NAME.TEST), runs only the tests that it selects, in this
// process. Returns the program's exit status, which is a failure if `suites` lacks a suite of the
// program, or if one of `suites` or the filter has no test. Every suite has a fresh folder for its
// store, report, log and locks, uses the stand-in as the real cuDNN, and measures legacy algorithms
// at powers of two at the first call, with almost unlimited time. It gets no other UCUDNN_
// variables but those of `common` and of the suite. INTERPOSER_TEST_TOTAL_WORKSPACE=SIZE puts every
// suite under one budget for all kernels.
int RunSuites(int argc, char** argv, const std::vector<Suite>& suites,
              const Environment& common = {});

// Returns whether INTERPOSER_TEST_TOTAL_WORKSPACE is set; main functions use it before RunSuites.
bool InBudget();
// Returns the bytes of this process's budget, or nothing if it has none.
std::optional<size_t> TotalWorkspace();

// Folder returns this process's own folder, and the other functions return paths of files in it.
const std::string& Folder();
std::string DatabasePath();
std::string ReportPath();
// Returns the lines that ucudnn has logged so far.
std::vector<std::string> LogLines();

// Starts test `test` (NAME.TEST) of this program in another process, which has the same folder, and
// `environment` in addition. Passed() waits for it and returns whether the test passed. The process
// writes its report to the file `report` in the folder or, if that is empty, to this process's
// file.
class TestProcess {
 public:
  TestProcess(const std::string& test, const std::string& report, Environment environment = {});
  bool Passed();

 private:
  int pid_;
};

}  // namespace ucudnn::test
