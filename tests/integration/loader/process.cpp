#include "tests/integration/loader/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>

namespace ucudnn::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const Environment& additions) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("LD_") && !text.starts_with("UCUDNN_")) result.push_back(text);
  }
  for (const auto& [name, value] : additions) result.push_back(name + "=" + value);
  return result;
}

// A program that prints nothing for this long is killed. Without this, a drop-in that forwards to
// itself would hang the test.
constexpr int kMostMilliseconds = 60000;

// Reads both pipes until they are closed.
void ReadBoth(std::array<pollfd, 2> ends, pid_t child, Outcome& outcome) {
  std::string* const texts[] = {&outcome.out, &outcome.err};
  for (int open = 2; open > 0;) {
    if (poll(ends.data(), ends.size(), kMostMilliseconds) == 0) kill(child, SIGKILL);
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(ends[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, static_cast<size_t>(got));
      } else {
        close(ends[i].fd);
        ends[i].fd = -1;
        --open;
      }
    }
  }
}

}  // namespace

Outcome RunProgram(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<std::string> argument_texts = arguments;
  std::vector<std::string> environment_texts = EnvironmentWith(environment);
  const std::vector<char*> argv = Pointers(argument_texts);
  const std::vector<char*> envp = Pointers(environment_texts);
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    perror(argv[0]);
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  Outcome outcome;
  ReadBoth({pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}}, child, outcome);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace ucudnn::testing
