// `ucudnn run --ranks`: runs a program as several processes of this machine, the ranks of one job,
// from its start to the end of the last one. Used from main's thread only.
#pragma once

#include <string>

#include "command/command.h"

namespace ucudnn::command {

constexpr int kMostRanks = 64;

// Runs `program`, a file, as `ranks` processes with `words` as arguments. Their environment is this
// process's, with torchrun's variables, the ranks' meeting place and the launcher's socket. Their
// output goes where this process's output goes, in whole lines; rank 0 has this process's input.
// Returns the exit code: the first one of a rank that is not 0, or 128 and the signal's number if a
// signal ended it; 1 if ranks reported that the job failed or went wrong (options/launcher_note.h),
// or if output was lost. The first rank that fails ends the others; signals that end processes are
// passed on to all.
int RunRanks(const CLI::App& app, const std::string& program, const ProgramWords& words, int ranks);

}  // namespace ucudnn::command
