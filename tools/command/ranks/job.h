// Supervises the started ranks of a job until the last one has ended: relays their output, passes
// on signals, prints notes, and ends all ranks if one fails. Used from main's thread only.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "command/ranks/line_relay.h"
#include "command/ranks/meeting.h"
#include "command/ranks/process.h"
#include "command/ranks/signals.h"
#include "command/ranks/terminal_input.h"

namespace ucudnn::command {

// The parts of the launcher that a job uses. They must outlive the job.
struct JobParts {
  JobSignals& signals;
  NoteSocket& notes;
  TerminalInput& input;
};

class RankJob {
 public:
  // The job's own messages begin with `name`.
  RankJob(std::string name, std::vector<RankProcess> ranks, const JobParts& parts);

  // Returns when all ranks and the processes that they started have ended, and all output is
  // written.
  void Run();

  const std::vector<RankProcess>& ranks() const { return ranks_; }  // to be reaped after Run
  // REQUIRES: Run has returned. Returns the exit code of `ucudnn run`.
  int code() const;
  // REQUIRES: Run has returned. Returns the errno of the write that lost output; 0: none is lost.
  int loss() const { return output_.loss() != 0 ? output_.loss() : errors_.loss(); }
  // REQUIRES: Run has returned. Returns SIGINT if the job passed on a SIGINT and the first rank
  // that failed was ended by SIGINT. Otherwise returns 0.
  int ending_signal() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Waits for the next event, and handles it.
  void Turn();
  int PatienceMs() const;  // the longest time that Turn() may wait for an event; -1: no limit
  void TakeSignals();
  void TakeNotes();
  void Relay(const std::vector<short>& ready);
  void WriteOutputs(bool output_is_ready, bool errors_are_ready);
  void SeeEnds();
  void Fail(size_t rank);
  // Plans SIGTERM to all ranks at time `ask`, and SIGKILL at time `kill`. An earlier time that is
  // already planned stays.
  void EndBy(Time ask, Time kill);
  void HeedTimes();
  void Drain();
  bool AllEnded() const;
  std::vector<pid_t> Sessions() const;
  // Sends the signal to the process group of each rank, as a terminal would.
  void PassOn(int signal);
  void Say(const std::string& line);
  LineOutput& errors() { return one_file_ ? output_ : errors_; }

  const std::string name_;
  std::vector<RankProcess> ranks_;
  JobParts parts_;
  const bool one_file_;  // whether stdout and stderr are one file
  LineOutput output_, errors_;
  std::vector<LineRelay> relays_;

  std::optional<size_t> failed_;      // the first rank that failed; unset if `asked_` came first
  std::optional<ReceivedNote> note_;  // the first note, or a later one about a failure
  int passed_on_ = 0;                 // the last passed-on signal for which Ends() is true; 0: none
  bool asked_ = false;                // whether SIGTERM or SIGKILL was sent to all ranks
  bool abandoned_ = false;            // whether output that is not written yet is to be dropped
  std::optional<Time> ask_at_, kill_at_;
};

}  // namespace ucudnn::command
