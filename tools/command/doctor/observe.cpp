#include "command/doctor/observe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "command/installation.h"
#include "command/numbers.h"
#include "command/run/launch.h"

namespace ucudnn::command {
namespace {

constexpr std::string_view kLog = "loader.";
constexpr std::string_view kReport = "report.%p";

// Makes this process ignore interrupts. An interrupt then ends only the program, and the command
// reports what it has observed.
class IgnoreInterrupts {
 public:
  IgnoreInterrupts() : before_(signal(SIGINT, SIG_IGN)) {}
  ~IgnoreInterrupts() { signal(SIGINT, before_); }
  IgnoreInterrupts(const IgnoreInterrupts&) = delete;
  IgnoreInterrupts& operator=(const IgnoreInterrupts&) = delete;

 private:
  void (*before_)(int);
};

std::string Ending(int status) {
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ")";
  }
  return WEXITSTATUS(status) == 0 ? std::string()
                                  : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

[[noreturn]] void Become(const std::string& program, const std::vector<char*>& arguments,
                         bool to_stderr, int failure) {
  signal(SIGINT, SIG_DFL);
  if (to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
  execv(program.c_str(), arguments.data());
  const int error = errno;
  const ssize_t ignored = write(failure, &error, sizeof error);
  (void)ignored;
  _exit(127);
}

// Starts the program and waits for it. Returns its exit status; fails if it could not be started.
Result<int> Start(const std::string& program, const ProgramWords& words, bool to_stderr,
                  pid_t& pid) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return Status::Error(std::strerror(errno));
  const IgnoreInterrupts ignore;
  pid = fork();
  if (pid == 0) Become(program, arguments, to_stderr, failure[1]);
  close(failure[1]);
  if (pid < 0) {
    close(failure[0]);
    return Status::Error(std::strerror(errno));
  }
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed) return Status::Error(std::strerror(error));
  return status;
}

ObservedProcess ReadProcess(pid_t pid, const std::string& log_path, const std::string& report) {
  ObservedProcess process;
  std::ifstream log(log_path);
  process.view = ReadLoaderLog(log);
  process.view.pid = pid;
  process.view.variables = OwnVariables();
  const std::string path = ReportPath(report, pid);
  if (access(path.c_str(), R_OK) == 0) process.report = path;
  return process;
}

}  // namespace

ObservationFolder::~ObservationFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

Status ObservationFolder::Create() {
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) / "ucudnn-doctor-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return Status::Error("no folder for temporary files: " + path);
  }
  path_ = path;
  return Status::Ok();
}

std::string ReportPath(const std::string& value, pid_t pid) {
  std::string path = value;
  const std::string number = std::to_string(pid);
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, number);
    at += number.size();
  }
  return path;
}

Result<Observation> Observe(const std::string& program, const ProgramWords& words, bool to_stderr,
                            const ObservationFolder& folder) {
  std::string report = Environment("UCUDNN_REPORT");
  if (report.empty()) report = folder.path() + "/" + std::string(kReport);
  setenv("UCUDNN_REPORT", report.c_str(), 1);
  setenv("LD_DEBUG", "files,bindings", 1);
  setenv("LD_DEBUG_OUTPUT", (folder.path() + "/loader").c_str(), 1);

  pid_t pid = 0;
  const Result<int> status = Start(program, words, to_stderr, pid);
  if (!status.ok()) {
    return Status::Error("'" + program + "' cannot be started: " + status.message());
  }
  Observation observation;
  observation.ending = Ending(*status);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kLog)) continue;
    const pid_t of = ParseNumber<pid_t>(name.substr(name.rfind('.') + 1), 1).value_or(0);
    observation.processes.push_back(ReadProcess(of, entry.path(), report));
  }
  std::sort(observation.processes.begin(), observation.processes.end(),
            [&](const ObservedProcess& a, const ObservedProcess& b) {
              return std::pair(a.view.pid != pid, a.view.pid) <
                     std::pair(b.view.pid != pid, b.view.pid);
            });
  if (observation.processes.empty() || observation.processes[0].view.pid != pid) {
    // There is no log of a program that is static or has another loader than glibc's.
    observation.processes.insert(observation.processes.begin(), ReadProcess(pid, "", report));
    observation.logged = false;
  }
  // The log has the path of another program if a script replaced itself by that program.
  std::string& seen_program = observation.processes[0].view.program;
  if (!seen_program.starts_with('/')) seen_program = program;
  return observation;
}

}  // namespace ucudnn::command
