// `ucudnn run --ranks`: runs a program as several processes on this machine, which are the ranks of
// one job. Used from main's thread only.
#pragma once

#include <string>

#include "command/command.h"

namespace ucudnn::command {

constexpr int kMostRanks = 64;

// Runs the file `program` as `ranks` processes with the arguments `words`, until the last one has
// ended. Adds torchrun's variables, the ranks' rendezvous and the launcher's socket to their
// environment. Relays their output in whole lines; rank 0 reads this process's input. If a rank
// fails, ends the others. Passes on the signals that ask a program to end.
//
// Returns the exit code of the first rank whose code is not 0; if a signal ended that rank, its
// code is 128 plus the signal's number. Returns 1 if no rank failed, but a rank reported that the
// job failed or went wrong (options/launcher_note.h), or output was lost. Returns 128 plus a
// signal's number if that signal came after the ranks' ends, while output was still written.
int RunRanks(const CLI::App& app, const std::string& program, const ProgramWords& words, int ranks);

}  // namespace ucudnn::command
