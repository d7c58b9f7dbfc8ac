// A job's ranks from their start to the end of the last one: their output, signals, notes and ends.
// Used from main's thread only.
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

// The launcher's parts that a job uses; they outlive it.
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
  // Returns, after Run, the exit code of `ucudnn run`.
  int code() const;
  // Returns, after Run, errno of lost output; 0: none was lost.
  int loss() const { return output_.loss() != 0 ? output_.loss() : errors_.loss(); }
  // Returns, after Run, the interrupt, if it was passed on and ranks ended by it; else 0.
  int ending_signal() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Runs one round: waits for the next event, and handles it.
  void Turn();
  int PatienceMs() const;  // time until the next round at the latest; -1: no time is set
  void TakeSignals();
  void TakeNotes();
  void Relay(const std::vector<short>& ready);
  void WriteOutputs(bool output_is_ready, bool errors_are_ready);
  void SeeEnds();
  void Fail(size_t rank);
  // Asks all ranks to end at `ask`, and kills them at `kill`, or at earlier times that were set
  // before.
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
  const bool one_file_;  // stdout and stderr are one file
  LineOutput output_, errors_;
  std::vector<LineRelay> relays_;

  std::optional<size_t> failed_;      // the first rank that failed by itself
  std::optional<ReceivedNote> note_;  // the first note
  int passed_on_ = 0;                 // the last signal that asks to end and was passed on; 0: none
  bool asked_ = false;                // all ranks were asked to end, by this process
  bool abandoned_ = false;            // the unwritten output was given up
  std::optional<Time> ask_at_, kill_at_;
};

}  // namespace ucudnn::command
