#include "command/ranks/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace ucudnn::command {

JobSignals::~JobSignals() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  GiveBack();
}

void JobSignals::GiveBack() const {
  sigaction(SIGPIPE, &broken_pipe_, nullptr);
  sigaction(SIGCHLD, &child_end_, nullptr);
  sigprocmask(SIG_SETMASK, &blocked_, nullptr);
}

Status JobSignals::Take() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal :
       {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    sigaddset(&taken, signal);
  }
  descriptor_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) return Status::Error(std::string("signals: ") + strerror(errno));
  sigprocmask(SIG_BLOCK, &taken, &blocked_);
  struct sigaction action {};
  // If nobody reads this process's output any more, a write must fail rather than end the process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &broken_pipe_);
  // If SIGCHLD were ignored, the ends of children would not be reported.
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &child_end_);
  return Status::Ok();
}

int JobSignals::Receive() {
  signalfd_siginfo received{};
  while (true) {
    const ssize_t count = read(descriptor_, &received, sizeof received);
    if (count == sizeof received) return static_cast<int>(received.ssi_signo);
    if (count < 0 && errno == EINTR) continue;
    return 0;
  }
}

bool JobSignals::Ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace ucudnn::command
