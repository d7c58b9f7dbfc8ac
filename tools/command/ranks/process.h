// The processes of a job's ranks: how they start and end. A rank has a session and process group of
// its own (session.h), and dies with this process. Used from main's thread only. REQUIRES: no other
// thread has run.
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
  int input = -1;                       // input of rank 0; other ranks have none
};

struct RankProcess {
  pid_t pid = -1;
  int output = -1, errors = -1;  // ends of pipes, which the caller closes
  bool ended = false;
  int code = 0;    // exit code, if it has ended
  int signal = 0;  // the signal that ended it; 0 if there was none
};

using RankVariables = std::vector<std::pair<std::string, std::string>>;

// Starts a process for each of `variables`, which are added to this process's environment. Either
// all of them start, or none. The error says why; if the program itself cannot be started,
// `errno_of_exec` is not 0.
Result<std::vector<RankProcess>> StartRanks(const RankProgram& program,
                                            const std::vector<RankVariables>& variables,
                                            RankGuard& guard, int& errno_of_exec);

// Returns whether the rank has ended; if it has, sets its members. Its process id stays reserved
// until Reap.
bool SeeEnd(RankProcess& rank);
void Reap(const std::vector<RankProcess>& ranks);

}  // namespace ucudnn::command
