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
  Environment environment;  // added to what every suite gets, or in place of it
};

// Runs every suite of `suites` that --gtest_filter (NAME.TEST) selects, or all without a filter,
// and returns the program's exit status. It fails if `suites` lacks a suite of the program, or if
// one of `suites`, or the filter, has no test. Every process gets UCUDNN_REAL_CUDNN (the stand-in),
// and UCUDNN_DATABASE, UCUDNN_REPORT and UCUDNN_LOG_FILE in a fresh folder, where it also locks the
// device. It measures powers of two at the first call without a bound on the time, and gets no
// UCUDNN_ variables but these and `common`. INTERPOSER_TEST_TOTAL_WORKSPACE=SIZE puts every suite
// under one budget for all kernels.
int RunSuites(int argc, char** argv, const std::vector<Suite>& suites,
              const Environment& common = {});

// Returns whether INTERPOSER_TEST_TOTAL_WORKSPACE is set; main functions ask it for the suites'
// environment.
bool InBudget();
// Returns the bytes of this process's budget, or nothing where kernels use what callers bring.
std::optional<size_t> TotalWorkspace();

// Returns this process's own folder; the others return files in it.
const std::string& Folder();
std::string DatabasePath();
std::string ReportPath();
// Returns what ucudnn has logged so far, one line each.
std::vector<std::string> LogLines();

// Runs test NAME.TEST of this program in another process, in this one's folder, with `environment`
// added; Passed() returns whether it passed. The process reports to the file `report` of the
// folder, or, if that is empty, to this process's file.
class TestProcess {
 public:
  TestProcess(const std::string& test, const std::string& report, Environment environment = {});
  bool Passed();

 private:
  int pid_;
};

}  // namespace ucudnn::test
