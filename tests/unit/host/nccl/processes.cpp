#include "tests/unit/host/nccl/processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hostgpu::nccl::testing {
namespace {

constexpr unsigned kLongestSeconds = 60;  // a rank that hangs for so long has failed

std::map<std::string, Role>& Roles() {
  static std::map<std::string, Role> roles;
  return roles;
}

std::string Hex(const ncclUniqueId& id) {
  std::string text;
  char digits[3];
  for (const char byte : id.internal) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

ncclUniqueId FromHex(const std::string& text) {
  ncclUniqueId id = {};
  for (size_t i = 0; i < sizeof id.internal && 2 * i + 1 < text.size(); ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

}  // namespace

NamedRole::NamedRole(const char* name, Role role) { Roles()[name] = role; }

int PlayRole(int argc, char** argv) {
  if (argc != 7 || std::string(argv[1]) != "--role") return -1;
  alarm(kLongestSeconds);
  Part part{{std::atoi(argv[3]), std::atoi(argv[4]), nullptr, nullptr}, FromHex(argv[5]), argv[6]};
  ROLE_CHECK(cudaSetDevice(0) == cudaSuccess);
  ROLE_CHECK(cudaStreamCreateWithFlags(&part.rank.stream, cudaStreamNonBlocking) == cudaSuccess);
  return Roles().at(argv[2])(part);
}

Process::Process(const Start& start, const ncclUniqueId& id) {
  const std::string rank = std::to_string(start.rank), ranks = std::to_string(start.ranks);
  const std::string hex = Hex(id);
  const char* const arguments[] = {"role",        "--role",    start.role.c_str(),     rank.c_str(),
                                   ranks.c_str(), hex.c_str(), start.argument.c_str(), nullptr};
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry) {
    if (start.environment.count(std::string(*entry, std::strcspn(*entry, "="))) == 0) {
      entries.emplace_back(*entry);
    }
  }
  for (const auto& [name, value] : start.environment) entries.push_back(name + "=" + value);
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  execve("/proc/self/exe", const_cast<char* const*>(arguments),
         const_cast<char* const*>(environment.data()));
  _exit(127);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Process::~Process() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

int Process::Wait() {
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<int> RunRanks(const std::string& role, int ranks, const std::string& argument,
                          const Environment& environment) {
  const ncclUniqueId id = NewId();
  std::vector<Process> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.emplace_back(Process::Start{role, rank, ranks, argument, environment}, id);
  }
  std::vector<int> codes;
  for (Process& process : processes) codes.push_back(process.Wait());
  return codes;
}

}  // namespace hostgpu::nccl::testing
