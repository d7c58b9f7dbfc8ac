// Runs the suites of a test program. Suites need different options, and ucudnn reads its options
// once per process. So each suite runs in its own process, with its own folder, store and report.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ucudnn::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct Suite {
  std::string name;         // name of the GoogleTest suite
  Environment environment;  // variables of this suite; they override all others
};

// Without a --gtest_filter, runs every suite of `suites`, each in its own process. If the filter
// begins with the name of a suite (NAME.TEST), runs only the tests that the filter selects, in this
// process. Returns the program's exit status. The program also fails if one of its suites is not in
// `suites`, or if the filter or one of `suites` selects no test.
//
// Every suite has a new folder for its store, report, log and locks. It uses the stand-in as the
// real cuDNN, and measures legacy algorithms at powers of two at the first call, with almost
// unlimited time. It gets only the UCUDNN_ variables of `common` and of the suite.
// INTERPOSER_TEST_TOTAL_WORKSPACE=SIZE puts every suite under one budget for all kernels.
int RunSuites(int argc, char** argv, const std::vector<Suite>& suites,
              const Environment& common = {});

// Returns whether INTERPOSER_TEST_TOTAL_WORKSPACE is set; can be called before RunSuites.
bool InBudget();
// Returns the bytes of this process's budget, or nullopt if it has none.
std::optional<size_t> TotalWorkspace();

// Folder returns this process's folder; the other functions return paths of files in it.
const std::string& Folder();
std::string DatabasePath();
std::string ReportPath();
// Returns the lines that ucudnn has logged so far.
std::vector<std::string> LogLines();

// Starts test `test` (NAME.TEST) of this program in another process, with the same folder and the
// additional variables `environment`. Passed() waits for the process and returns whether the test
// passed. The process writes its report to the file `report` in the folder. If `report` is empty,
// it writes to this process's report file.
class TestProcess {
 public:
  TestProcess(const std::string& test, const std::string& report, Environment environment = {});
  bool Passed();

 private:
  int pid_;
};

}  // namespace ucudnn::test
