// Tests the log. It writes to one place for the whole process, so every case runs in a separate
// child process.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns what `action` logs at `level` into a fresh file.
std::string Logged(LogLevel level, int rank, const std::function<void()>& action) {
  const std::string path = ::testing::TempDir() + "/log_test." + std::to_string(getpid());
  std::remove(path.c_str());
  const pid_t child = fork();
  if (child == 0) {
    ConfigureLog(level, path, rank);
    action();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  return text.str();
}

TEST(Log, LessImportantLinesAreLeftOut) {
  const std::string text = Logged(LogLevel::kWarn, -1, [] {
    Log(LogLevel::kError, "broken");
    Log(LogLevel::kWarn, "careful");
    Log(LogLevel::kInfo, "by the way");
  });
  EXPECT_THAT(text, HasSubstr("error: broken\n"));
  EXPECT_THAT(text, HasSubstr("warning: careful\n"));
  EXPECT_THAT(text, Not(HasSubstr("by the way")));
}

TEST(Log, LinesCarryRankAndProcess) {
  const std::string text = Logged(LogLevel::kInfo, 3, [] { Log(LogLevel::kInfo, "x"); });
  EXPECT_THAT(text, StartsWith("ucudnn rank 3["));
  EXPECT_THAT(Logged(LogLevel::kInfo, -1, [] { Log(LogLevel::kInfo, "x"); }),
              StartsWith("ucudnn["));
}

TEST(Log, ALineIsOneLineOfText) {
  const std::string text =
      Logged(LogLevel::kInfo, -1, [] { Log(LogLevel::kInfo, "a\nb\x1b[1mc\r\td"); });
  EXPECT_THAT(text, HasSubstr("info: a b [1mc  d\n"));
}

TEST(Log, OneWarningPerCause) {
  const std::string text = Logged(LogLevel::kWarn, -1, [] {
    WarnOnce("store", "first");
    WarnOnce("store", "second");
    WarnOnce("other", "third");
  });
  EXPECT_THAT(text, HasSubstr("first"));
  EXPECT_THAT(text, Not(HasSubstr("second")));
  EXPECT_THAT(text, HasSubstr("third"));
}

TEST(Log, LinesOfSeveralThreadsStayWhole) {
  const std::string text = Logged(LogLevel::kInfo, -1, [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 200; ++i) Log(LogLevel::kInfo, "0123456789");
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, StartsWith("ucudnn["));
    EXPECT_THAT(line, ::testing::EndsWith("info: 0123456789"));
  }
  EXPECT_EQ(count, 800);
}

TEST(Log, AFileThatCannotBeOpenedIsAWarningNotAFailure) {
  const pid_t child = fork();
  if (child == 0) {
    ::testing::internal::CaptureStderr();
    ConfigureLog(LogLevel::kWarn, "/nonexistent/folder/log", -1);
    Log(LogLevel::kError, "still here");
    const std::string told = ::testing::internal::GetCapturedStderr();
    const size_t warned = told.find("cannot be opened; logging to stderr\n");
    const size_t logged = told.find("error: still here\n");
    _exit(warned < logged && logged != std::string::npos ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ucudnn
