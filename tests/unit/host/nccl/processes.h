// Runs ranks as processes: this program is started again to play a role.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/host/nccl/ranks.h"

namespace hostgpu::nccl::testing {

// The arguments of a role. A role returns the exit code of its process. `rank` has no communicator
// yet.
struct Part {
  Rank rank;
  ncclUniqueId id;
  std::string argument;
};
using Role = int (*)(Part&);
// Registers a role by its name. Instances are globals, made before main.
struct NamedRole {
  NamedRole(const char* name, Role role);
};
// Plays the role that the arguments name, with a device and a stream, for main(). Returns -1 if the
// arguments name no role.
int PlayRole(int argc, char** argv);

// Ends a role with exit code 1 and prints the line that failed.
#define ROLE_CHECK(condition)                                                    \
  if (!(condition))                                                              \
  return std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
                      ncclGetLastError(nullptr)),                                \
         1

using Environment = std::map<std::string, std::string>;

// Owns a process that plays a role. The destructor kills it.
class Process {
 public:
  struct Start {
    std::string role;
    int rank = 0;
    int ranks = 1;
    std::string argument = {};
    Environment environment = {};
  };
  Process(const Start& start, const ncclUniqueId& id);
  Process(Process&& other) noexcept;
  ~Process();
  // Returns the exit code, or minus the signal that ended the process.
  int Wait();

 private:
  pid_t pid_ = -1;
};

// Runs ranks 0 to `ranks` - 1 of one role. Returns what Process::Wait returns for each.
std::vector<int> RunRanks(const std::string& role, int ranks, const std::string& argument = {},
                          const Environment& environment = {});

}  // namespace hostgpu::nccl::testing
