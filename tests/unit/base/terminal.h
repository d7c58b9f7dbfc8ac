// A pseudo-terminal, from which a test reads what programs wrote to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ucudnn::test {

class Terminal {
 public:
  explicit Terminal(unsigned short columns = 200) : controller_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(grantpt(controller_), 0);
    EXPECT_EQ(unlockpt(controller_), 0);
    descriptor_ = open(name().c_str(), O_RDWR | O_NOCTTY);
    EXPECT_GE(descriptor_, 0);
    termios settings = {};
    EXPECT_EQ(tcgetattr(descriptor_, &settings), 0);
    cfmakeraw(&settings);  // bytes arrive as they were written
    EXPECT_EQ(tcsetattr(descriptor_, TCSANOW, &settings), 0);
    winsize size = {};
    size.ws_col = columns;
    EXPECT_EQ(ioctl(descriptor_, TIOCSWINSZ, &size), 0);
  }
  ~Terminal() {
    close(descriptor_);
    close(controller_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int descriptor() const { return descriptor_; }
  std::string name() const { return ptsname(controller_); }

  // Returns what was written since the last call.
  std::string Seen() {
    constexpr char kEnd = '\4';  // a terminal may deliver bytes late, but keeps their order
    EXPECT_EQ(write(descriptor_, &kEnd, 1), 1);
    std::string seen;
    for (char byte = 0; read(controller_, &byte, 1) == 1 && byte != kEnd;) seen += byte;
    return seen;
  }

 private:
  const int controller_;
  int descriptor_ = -1;
};

}  // namespace ucudnn::test
