#include "base/terminal_line.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "terminal.h"

namespace ucudnn {
namespace {

using test::Terminal;

// Runs `action` in a forked child, which may change its stderr or process group. A failure in the
// child fails the test.
void InChild(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    action();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(TerminalLine, IsRewrittenAndErased) {
  Terminal terminal;
  TerminalLine line(terminal.descriptor());
  EXPECT_TRUE(line.IsTerminal());
  line.Show("one");
  EXPECT_EQ(terminal.Seen(), "\r\033[Kone");
  line.Show("two");
  EXPECT_EQ(terminal.Seen(), "\r\033[Ktwo");
  line.Erase();
  EXPECT_EQ(terminal.Seen(), "\r\033[K");
  line.Erase();
  EXPECT_EQ(terminal.Seen(), "") << "the program's own line may be there by now";
}

TEST(TerminalLine, ALineThatStaysTakesThePlaceOfWhatIsShown) {
  Terminal terminal;
  TerminalLine line(terminal.descriptor());
  line.Print("first");
  EXPECT_EQ(terminal.Seen(), "first\n");
  line.Show("shown");
  line.Print("last");
  EXPECT_EQ(terminal.Seen(), "\r\033[Kshown\r\033[Klast\n");
}

TEST(TerminalLine, FitsTheTerminal) {
  Terminal narrow(8);
  TerminalLine line(narrow.descriptor());
  line.Show("0123456789");
  EXPECT_EQ(narrow.Seen(), "\r\033[K0123456");
  EXPECT_EQ(FitToColumns("a\x1b[1mb\nc\x7f", 80), "a [1mb c ");
  EXPECT_EQ(FitToColumns("\xc3\xa4\xc3\xb6\xc3\xbc!", 4), "\xc3\xa4\xc3\xb6\xc3\xbc");
  EXPECT_EQ(FitToColumns("any", 1), "");
}

TEST(TerminalLine, WritesNothingToAPipe) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  TerminalLine line(pipe_ends[1]);
  EXPECT_FALSE(line.IsTerminal());
  line.Show("one");
  line.Print("two");
  line.Erase();
  close(pipe_ends[1]);
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
}

TEST(TerminalLine, WritesNothingToAFileThatCameInTheTerminalsPlace) {
  Terminal terminal;
  const int descriptor = dup(terminal.descriptor());
  TerminalLine line(descriptor);
  line.Show("shown");
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(dup2(pipe_ends[1], descriptor), descriptor);
  close(pipe_ends[1]);
  line.Show("more");
  line.Erase();
  line.Print("last");
  close(descriptor);
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
}

TEST(TerminalLine, AForkedChildLeavesItsParentsLine) {
  Terminal terminal;
  TerminalLine line(terminal.descriptor());
  line.Show("parent's");
  terminal.Seen();
  InChild([&] { line.Erase(); });
  EXPECT_EQ(terminal.Seen(), "");
  line.Erase();
  EXPECT_EQ(terminal.Seen(), "\r\033[K");
}

TEST(TerminalLine, WhoeverIsInTheBackgroundShowsNothing) {
  Terminal terminal;
  InChild([&] {
    // The child starts a session with `terminal` as its terminal, and leads the foreground process
    // group.
    ASSERT_GT(setsid(), 0);
    const int controlling = open(terminal.name().c_str(), O_RDWR);
    ASSERT_GE(controlling, 0);
    TerminalLine(controlling).Show("foreground");
    InChild([&] {
      ASSERT_EQ(setpgid(0, 0), 0);
      TerminalLine(controlling).Show("background");
    });
  });
  EXPECT_EQ(terminal.Seen(), "\r\033[Kforeground");
}

TEST(TerminalLine, LinesOfTheLogTakeItAway) {
  Terminal terminal;
  InChild([&] {
    ASSERT_EQ(dup2(terminal.descriptor(), STDERR_FILENO), STDERR_FILENO);
    StderrLine().Show("shown");
    Log(LogLevel::kWarn, "careful");
    Log(LogLevel::kWarn, "again");
  });
  const std::string seen = terminal.Seen();
  const std::string before = "\r\033[Kshown\r\033[Kucudnn[";
  EXPECT_EQ(seen.substr(0, before.size()), before) << seen;
  EXPECT_EQ(seen.find('\r', before.size()), std::string::npos) << seen;
}

TEST(TerminalLine, ThreadsLeaveItErased) {
  Terminal terminal;
  TerminalLine line(terminal.descriptor());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        line.Show("x");
        line.Erase();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string seen = terminal.Seen(), erased = "\r\033[K";
  ASSERT_GE(seen.size(), erased.size());
  EXPECT_EQ(seen.substr(seen.size() - erased.size()), erased);
}

}  // namespace
}  // namespace ucudnn
