// Starts the processes of a job's ranks, and notices their ends. Each rank is the leader of a new
// session (session.h), and is killed if this process dies. Used from main's thread only. REQUIRES:
// this process has no other thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "command/command.h"
#include "command/ranks/guard.h"
#include "command/ranks/signals.h"

namespace ucudnn::command {

// The program that every rank runs.
struct RankProgram {
  std::string path;
  ProgramWords words;
  const JobSignals* signals = nullptr;  // the launcher's signals, which a rank does not inherit
  int input = -1;                       // input of rank 0; other ranks read /dev/null
};

struct RankProcess {
  pid_t pid = -1;
  int output = -1, errors = -1;  // ends of pipes, which the caller closes
  bool ended = false;
  int code = 0;    // exit code, if it has ended
  int signal = 0;  // the signal that ended it; 0 if there was none
};

using RankVariables = std::vector<std::pair<std::string, std::string>>;

// Starts a process for each element of `variables`, which is added to the environment of that
// process. If one fails to start, kills all and returns the reason. `errno_of_exec` receives the
// errno if the program itself could not be executed, and otherwise 0.
Result<std::vector<RankProcess>> StartRanks(const RankProgram& program,
                                            const std::vector<RankVariables>& variables,
                                            RankGuard& guard, int& errno_of_exec);

// Returns whether the rank has ended, and if so, sets its members. The process id of an ended rank
// stays reserved until Reap.
bool SeeEnd(RankProcess& rank);
void Reap(const std::vector<RankProcess>& ranks);

}  // namespace ucudnn::command
