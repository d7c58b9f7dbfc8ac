#include "command/ranks/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ucudnn::command {
namespace {

// A pipe. The destructor closes both ends, and exec closes them in a started program.
struct Pipe {
  int read_end = -1, write_end = -1;

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void CloseRead() {
    if (read_end >= 0) close(read_end);
    read_end = -1;
  }
  void CloseWrite() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

// Two pipes. Each new process waits for a byte from `go` before it starts the program, until all
// processes exist and are guarded. It writes the errno of a failed exec to `failure`.
struct Gate {
  Pipe go, failure;
};

struct Streams {
  int input, output, errors;
};

// Runs in the new process: waits at the gate, and then executes the program.
[[noreturn]] void BecomeRank(const RankProgram& program, const RankVariables& variables,
                             const Streams& streams, Gate& gate, pid_t launcher) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(kFailed);  // the launcher died before the call of prctl
  gate.go.CloseWrite();
  dup2(streams.input, STDIN_FILENO);
  dup2(streams.output, STDOUT_FILENO);
  dup2(streams.errors, STDERR_FILENO);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : program.words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char go = 0;
  ssize_t count = 0;
  while ((count = read(gate.go.read_end, &go, 1)) < 0 && errno == EINTR) {
  }
  if (count != 1) _exit(kFailed);
  program.signals->GiveBack();
  execvp(program.path.c_str(), arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(gate.failure.write_end, &error, sizeof error);
  _exit(kCannotRun);
}

Status StartFailure(const std::string& what) {
  return Status::Error(what + ": " + strerror(errno));
}

// Forks a process that waits at the gate, and adds it to `ranks`.
Status Fork(const RankProgram& program, const RankVariables& variables, int input, Gate& gate,
            std::vector<RankProcess>& ranks) {
  Pipe output, errors;
  if (!output.Open() || !errors.Open()) return StartFailure("pipe");
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) return StartFailure("fork");
  if (pid == 0) {
    BecomeRank(program, variables, {input, output.write_end, errors.write_end}, gate, launcher);
  }
  RankProcess& rank = ranks.emplace_back();
  rank.pid = pid;
  rank.output = std::exchange(output.read_end, -1);
  rank.errors = std::exchange(errors.read_end, -1);
  return Status::Ok();
}

Status ForkAll(const RankProgram& program, const std::vector<RankVariables>& variables,
               RankGuard& guard, Gate& gate, std::vector<RankProcess>& ranks) {
  if (!gate.go.Open() || !gate.failure.Open()) return StartFailure("pipe");
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0) return StartFailure("/dev/null");
  Status status;
  for (size_t rank = 0; rank < variables.size() && status.ok(); ++rank) {
    status = Fork(program, variables[rank], rank == 0 ? program.input : nothing, gate, ranks);
    if (status.ok()) guard.Watch(ranks.back().pid);
  }
  close(nothing);
  return status;
}

void Abandon(std::vector<RankProcess>& ranks) {
  for (const RankProcess& rank : ranks) {
    kill(rank.pid, SIGKILL);
    close(rank.output);
    close(rank.errors);
  }
  Reap(ranks);
}

}  // namespace

Result<std::vector<RankProcess>> StartRanks(const RankProgram& program,
                                            const std::vector<RankVariables>& variables,
                                            RankGuard& guard, int& errno_of_exec) {
  errno_of_exec = 0;
  Gate gate;
  std::vector<RankProcess> ranks;
  if (Status status = ForkAll(program, variables, guard, gate, ranks); !status.ok()) {
    Abandon(ranks);
    return status;
  }
  const std::string go(ranks.size(), '.');
  [[maybe_unused]] const ssize_t gone = write(gate.go.write_end, go.data(), go.size());
  gate.failure.CloseWrite();
  int error = 0;
  ssize_t count = 0;
  while ((count = read(gate.failure.read_end, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (count == sizeof error) {
    errno_of_exec = error;
    Abandon(ranks);
    return Status::Error(strerror(error));
  }
  return ranks;
}

bool SeeEnd(RankProcess& rank) {
  if (rank.ended) return true;
  siginfo_t end{};
  const int flags = WEXITED | WNOHANG | WNOWAIT;
  if (waitid(P_PID, static_cast<id_t>(rank.pid), &end, flags) != 0 || end.si_pid == 0) return false;
  rank.ended = true;
  rank.signal = end.si_code == CLD_EXITED ? 0 : end.si_status;
  rank.code = end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
  return true;
}

void Reap(const std::vector<RankProcess>& ranks) {
  for (const RankProcess& rank : ranks) {
    while (waitpid(rank.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace ucudnn::command
