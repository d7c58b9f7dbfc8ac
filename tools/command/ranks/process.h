// The processes of a job's ranks: how they start and end. A rank is a session and process group of
// its own (session.h), and dies with this process. Used from main's thread only; REQUIRES that
// no other thread has run.
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

// What every rank becomes.
struct RankProgram {
  std::string path;
  ProgramWords words;
  const JobSignals* signals = nullptr;  // ours, which it does not have
  int input = -1;                       // rank 0's; the others read nothing
};

struct RankProcess {
  pid_t pid = -1;
  int output = -1, errors = -1;  // ends of pipes, the caller's to close
  bool ended = false;
  int code = 0;    // exit code, once it has ended
  int signal = 0;  // that ended it; 0: none
};

using RankVariables = std::vector<std::pair<std::string, std::string>>;

// Starts a process for each of `variables`, what its environment holds besides ours. All or none:
// the error says why, and `errno_of_exec` is not 0 where it is the program that cannot be started.
Result<std::vector<RankProcess>> StartRanks(const RankProgram& program,
                                            const std::vector<RankVariables>& variables,
                                            RankGuard& guard, int& errno_of_exec);

// Whether it has ended by now; sets what it ended with. Its process id stays taken until it is
// reaped.
bool SeeEnd(RankProcess& rank);
void Reap(const std::vector<RankProcess>& ranks);

}  // namespace ucudnn::command
