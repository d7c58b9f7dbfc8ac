// Tests limits on the size of files. A limit holds for a whole process, so every case runs in a
// separate child process.
#include "base/file_size_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace ucudnn {
namespace {

constexpr rlim_t kLimit = 4096;

// Writes beyond the limit. Returns whether that failed as it would on a full disk.
bool WriteFails(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::array<char, kLimit> page = {};
  const bool fits = write(file, page.data(), page.size()) == static_cast<ssize_t>(page.size());
  const bool fails = write(file, page.data(), page.size()) < 0 && errno == EFBIG;
  close(file);
  unlink(path.c_str());
  return fits && fails;
}

// Returns the wait status of a child that does `action` under the limit.
template <typename Action>
int StateAfter(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {kLimit, kLimit};
    const rlimit no_core = {0, 0};
    const bool set = setrlimit(RLIMIT_FSIZE, &limit) == 0 && setrlimit(RLIMIT_CORE, &no_core) == 0;
    _exit(set && action() ? 0 : 1);
  }
  int state = -1;
  waitpid(child, &state, 0);
  return state;
}

class FileSizeLimit : public ::testing::Test {
 protected:
  const std::string path_ = ::testing::TempDir() + "/file_size_limit." + std::to_string(getpid());
};

TEST_F(FileSizeLimit, AWriteBeyondItFailsAndTheProcessLives) {
  EXPECT_EQ(StateAfter([&] {
              for (int i = 0; i < 2; ++i) {
                const FileSizeLimitScope scope;
                const FileSizeLimitScope inside;
                if (!WriteFails(path_)) return false;
              }
              return true;
            }),
            0);
}

TEST_F(FileSizeLimit, BehindTheScopeTheSignalIsTheProgramsAsBefore) {
  const int state = StateAfter([&] {
    {
      const FileSizeLimitScope scope;
      if (!WriteFails(path_)) return false;
    }
    WriteFails(path_);  // ends the process
    return false;
  });
  unlink(path_.c_str());
  ASSERT_TRUE(WIFSIGNALED(state)) << state;
  EXPECT_EQ(WTERMSIG(state), SIGXFSZ);
}

TEST_F(FileSizeLimit, ASignalThatWaitsAlreadyStaysTheProgramsOwn) {
  EXPECT_EQ(StateAfter([] {
              sigset_t signals;
              sigemptyset(&signals);
              sigaddset(&signals, SIGXFSZ);
              if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0 || raise(SIGXFSZ) != 0) {
                return false;
              }
              { const FileSizeLimitScope scope; }
              return sigpending(&signals) == 0 && sigismember(&signals, SIGXFSZ) == 1;
            }),
            0);
}

}  // namespace
}  // namespace ucudnn
