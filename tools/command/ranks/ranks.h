// `ucudnn run --ranks`: runs a program as several processes of this machine, the ranks of one job,
// until the last one has ended. Used from main's thread only.
#pragma once

#include <string>

#include "command/command.h"

namespace ucudnn::command {

constexpr int kMostRanks = 64;

// Runs `program`, a file, as `ranks` processes with `words` as arguments. Their environment is this
// process's, with torchrun's variables, the ranks' meeting place and the launcher's socket. Their
// output is written to this process's output in whole lines; rank 0 reads this process's input.
// Returns the exit code of the first rank whose code is not 0; if a signal ended that rank, its
// code is 128 plus the signal's number. Returns 1 if ranks reported that the job failed or went
// wrong (options/launcher_note.h), or if output was lost. If a rank fails, the others are ended;
// signals that end processes are passed on to all ranks.
int RunRanks(const CLI::App& app, const std::string& program, const ProgramWords& words, int ranks);

}  // namespace ucudnn::command
