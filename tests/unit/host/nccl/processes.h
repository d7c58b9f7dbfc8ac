// Ranks that are processes: this program, started anew to play a role.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/host/nccl/ranks.h"

namespace hostgpu::nccl::testing {

// What a role gets; it returns its process's exit code. `rank` has no communicator yet.
struct Part {
  Rank rank;
  ncclUniqueId id;
  std::string argument;
};
using Role = int (*)(Part&);
// Names a role, once, before main.
struct NamedRole {
  NamedRole(const char* name, Role role);
};
// For main(): plays the role that the arguments name, with a device and a stream. Returns -1 if
// they name none.
int PlayRole(int argc, char** argv);

// Ends a role with 1 and the line that failed.
#define ROLE_CHECK(condition)                                                    \
  if (!(condition))                                                              \
  return std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
                      ncclGetLastError(nullptr)),                                \
         1

using Environment = std::map<std::string, std::string>;

// A process that plays a role; killed when it is out of scope.
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
  // The exit code, or minus the signal that ended it.
  int Wait();

 private:
  pid_t pid_ = -1;
};

// Runs ranks 0 to `ranks` - 1 of one role. Returns their exit codes.
std::vector<int> RunRanks(const std::string& role, int ranks, const std::string& argument = {},
                          const Environment& environment = {});

}  // namespace hostgpu::nccl::testing
