#include "base/text_file.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

TEST(TextFile, IsReadWhole) {
  const std::string path = ::testing::TempDir() + "text" + std::to_string(getpid());
  const std::string text(size_t{200} << 10, 'x');
  std::ofstream(path, std::ios::binary) << text << '\0' << "\r\n";
  const Result<std::string> read = ReadTextFile(path);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(*read, text + std::string("\0\r\n", 3));
  unlink(path.c_str());
}

TEST(TextFile, WhatCannotBeReadIsAnErrorWithItsPath) {
  EXPECT_THAT(ReadTextFile("/nowhere/at/all").message(),
              HasSubstr("/nowhere/at/all: cannot be opened: No such file"));
  EXPECT_THAT(ReadTextFile(::testing::TempDir()).message(), HasSubstr("cannot be read: Is a dir"));
}

// A process that has ended still has files in /proc, until its parent has waited for it.
TEST(TextFile, OfAProcessThatHasEndedIsAnError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_GT(child, 0);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const std::string path = "/proc/" + std::to_string(child) + "/task/" + std::to_string(child);
  const std::string still_there = path + "/stat";
  EXPECT_TRUE(ReadTextFile(still_there).ok());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(ReadTextFile(still_there).ok());
}

}  // namespace
}  // namespace ucudnn
