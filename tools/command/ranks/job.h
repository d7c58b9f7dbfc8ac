// The ranks of a job, from their start to the end of the last one: their output, signals, notes and
// ends. Used from main's thread only.
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
  // `name` begins the messages of the job itself.
  RankJob(std::string name, std::vector<RankProcess> ranks, const JobParts& parts);

  // Returns when all ranks have ended, none of their processes is left, and their output is
  // written.
  void Run();

  const std::vector<RankProcess>& ranks() const { return ranks_; }  // to be reaped after Run
  // REQUIRES: Run has returned. Returns the exit code of `ucudnn run`.
  int code() const;
  // REQUIRES: Run has returned. Returns the errno of lost output; 0 if none was lost.
  int loss() const { return output_.loss() != 0 ? output_.loss() : errors_.loss(); }
  // REQUIRES: Run has returned. Returns SIGINT if it was passed on and ended the first rank that
  // failed; else 0.
  int ending_signal() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Waits for the next event, and handles it.
  void Turn();
  int PatienceMs() const;  // time until the next turn at the latest; -1: no limit
  void TakeSignals();
  void TakeNotes();
  void Relay(const std::vector<short>& ready);
  void WriteOutputs(bool output_is_ready, bool errors_are_ready);
  void SeeEnds();
  void Fail(size_t rank);
  // Asks all ranks to end at time `ask`, and kills them at time `kill`. Times that were set before
  // stay if they are earlier.
  void EndBy(Time ask, Time kill);
  void HeedTimes();
  void Drain();
  bool AllEnded() const;
  std::vector<pid_t> Sessions() const;
  // Sends the signal to the processes that a terminal would send it to.
  void PassOn(int signal);
  void Say(const std::string& line);
  LineOutput& errors() { return one_file_ ? output_ : errors_; }

  const std::string name_;
  std::vector<RankProcess> ranks_;
  JobParts parts_;
  const bool one_file_;  // whether stdout and stderr are one file
  LineOutput output_, errors_;
  std::vector<LineRelay> relays_;

  std::optional<size_t> failed_;      // first rank that failed before all were asked to end
  std::optional<ReceivedNote> note_;  // the first note, or a later one about a failure
  int passed_on_ = 0;       // the last signal to end that was passed on; 0 if there was none
  bool asked_ = false;      // whether this process has asked all ranks to end
  bool abandoned_ = false;  // whether unwritten output was given up
  std::optional<Time> ask_at_, kill_at_;
};

}  // namespace ucudnn::command
