// Test programs whose suites need different options: ucudnn reads its options once per process, so
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
  std::string name;         // of the GoogleTest suite
  Environment environment;  // on top of, or in place of, what every suite gets
};

// Runs every suite of `suites` that --gtest_filter (NAME.TEST) selects, all without one; gives the
// program's exit status: a suite of the program that `suites` lacks is a failure, and one of
// `suites`, or a filter, that has no test. Every process gets UCUDNN_REAL_CUDNN (the stand-in), and
// UCUDNN_DATABASE, UCUDNN_REPORT and UCUDNN_LOG_FILE in a fresh folder, where it also locks the
// device, measures powers of two at the first call without a bound on its time, and gets no other
// UCUDNN_ variable. INTERPOSER_TEST_TOTAL_WORKSPACE=SIZE puts every suite under one budget for all
// kernels.
int RunSuites(int argc, char** argv, const std::vector<Suite>& suites);

// Whether INTERPOSER_TEST_TOTAL_WORKSPACE is set, for who makes the environment of suites.
bool InBudget();
// Bytes of that budget of this process; none: kernels use what callers bring.
std::optional<size_t> TotalWorkspace();

// This process's own folder, and the files in it.
const std::string& Folder();
std::string DatabasePath();
std::string ReportPath();
// What ucudnn logged so far, one line each.
std::vector<std::string> LogLines();

// Runs test NAME.TEST of this program in another process, in this one's folder, with
// `environment` added; true when it passed. `report` is the folder's file it reports to; empty: as
// this one.
class TestProcess {
 public:
  TestProcess(const std::string& test, const std::string& report, Environment environment = {});
  bool Passed();

 private:
  int pid_;
};

}  // namespace ucudnn::test
