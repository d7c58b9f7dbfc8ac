#include "command/ranks/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "command/ranks/session.h"

namespace ucudnn::command {
namespace {

constexpr pid_t kDismissed = 0;

// Closes the descriptors from `first` to `last`. Calls close_range by its number, because older C
// libraries have no function for it. On kernels without close_range, closes each descriptor.
void CloseRange(unsigned first, unsigned last) {
  constexpr unsigned kMost = 65536;
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  for (unsigned descriptor = first; descriptor <= std::min(last, kMost); ++descriptor) {
    close(static_cast<int>(descriptor));
  }
}

// Redirects the standard streams to /dev/null, and closes all other descriptors except `pipe`.
// Otherwise a process that reads the launcher's output would not see its end while the guard lives.
void KeepOnly(int pipe) {
  const int nowhere = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) {
    if (nowhere >= 0) {
      dup2(nowhere, standard);
    } else {
      close(standard);
    }
  }
  if (pipe > 3) CloseRange(3, static_cast<unsigned>(pipe) - 1);
  CloseRange(static_cast<unsigned>(pipe) + 1, ~0u);
}

[[noreturn]] void Guard(int pipe) {
  setsid();  // keeps Ctrl-C, and the hangup of a closed terminal, from this process
  KeepOnly(pipe);
  std::vector<pid_t> ranks;
  pid_t rank = 0;
  ssize_t count = 0;
  while ((count = read(pipe, &rank, sizeof rank)) == sizeof rank || (count < 0 && errno == EINTR)) {
    if (count < 0) continue;
    if (rank == kDismissed) _exit(0);
    ranks.push_back(rank);
  }
  SignalSessions(ranks, SIGKILL);
  _exit(0);
}

}  // namespace

Status RankGuard::Start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::Error(std::string("pipe: ") + strerror(errno));
  guard_ = fork();
  if (guard_ == 0) {
    close(ends[1]);
    Guard(ends[0]);
  }
  close(ends[0]);
  pipe_ = ends[1];
  if (guard_ < 0) return Status::Error(std::string("fork: ") + strerror(errno));
  return Status::Ok();
}

void RankGuard::Watch(pid_t rank) {
  // If the guard has ended, the write fails. Even then the ranks die with this process
  // (PR_SET_PDEATHSIG), but not the processes that they started.
  [[maybe_unused]] const ssize_t told = write(pipe_, &rank, sizeof rank);
}

void RankGuard::Dismiss() {
  if (pipe_ >= 0) Watch(kDismissed);
  Leave();
}

void RankGuard::Leave() {
  if (pipe_ < 0) return;
  close(std::exchange(pipe_, -1));
  while (guard_ > 0 && waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ucudnn::command
