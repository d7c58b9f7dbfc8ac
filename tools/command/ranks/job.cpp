#include "command/ranks/job.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "command/command.h"
#include "command/ranks/session.h"

namespace ucudnn::command {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kForLastWords{5};  // time for ranks to end: from SIGTERM to SIGKILL, for example
// When all ranks have ended, the processes that they started may run on for this time. Then they
// get SIGTERM.
constexpr seconds kForRest{2};
constexpr milliseconds kLookForRest{20};

// Indices in the array of polled descriptors. The descriptors of the relays begin at kRelays.
enum Place : size_t { kSignals, kNotes, kTyped, kInput, kOutput, kErrors, kRelays };

bool IsOneFile(int first, int second) {
  struct stat one {
  }, other{};
  return fstat(first, &one) == 0 && fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino && one.st_rdev == other.st_rdev;
}

std::string EndOf(const RankProcess& rank) {
  if (rank.signal == 0) return "ended with exit code " + std::to_string(rank.code);
  return "was ended by signal " + std::to_string(rank.signal) + " (" + strsignal(rank.signal) + ")";
}

}  // namespace

RankJob::RankJob(std::string name, std::vector<RankProcess> ranks, const JobParts& parts)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      parts_(parts),
      one_file_(IsOneFile(STDOUT_FILENO, STDERR_FILENO)),
      output_(STDOUT_FILENO),
      errors_(STDERR_FILENO) {
  int source = 0;
  for (const RankProcess& rank : ranks_) {
    relays_.emplace_back(source++, rank.output, output_);
    relays_.emplace_back(source++, rank.errors, errors());
  }
}

void RankJob::Run() {
  while (!AllEnded() || AnyLives(Sessions())) Turn();
  // Without /proc, AnyLives() returns false even if processes live. So this kills what is left.
  SignalSessions(Sessions(), SIGKILL);
  Drain();
}

int RankJob::code() const {
  if (failed_) return ranks_[*failed_].code;
  if (note_) return kFailed;
  if (abandoned_) return 128 + passed_on_;
  return loss() != 0 ? kFailed : 0;
}

int RankJob::ending_signal() const {
  const bool by_it = failed_ && passed_on_ == SIGINT && ranks_[*failed_].signal == SIGINT;
  return by_it ? SIGINT : 0;
}

bool RankJob::AllEnded() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.ended; });
}

std::vector<pid_t> RankJob::Sessions() const {
  std::vector<pid_t> sessions;
  for (const RankProcess& rank : ranks_) sessions.push_back(rank.pid);
  return sessions;
}

void RankJob::PassOn(int signal) {
  for (const RankProcess& rank : ranks_) kill(-rank.pid, signal);
}

void RankJob::Say(const std::string& line) {
  errors().Add(static_cast<int>(relays_.size()), name_ + ": " + line + "\n");
}

int RankJob::PatienceMs() const {
  std::optional<milliseconds> patience;
  const auto at_most = [&](milliseconds other) {
    patience = std::max(std::min(patience.value_or(other), other), milliseconds(0));
  };
  const Time now = Clock::now();
  for (const auto& time : {ask_at_, kill_at_}) {
    if (time) at_most(std::chrono::ceil<milliseconds>(*time - now));
  }
  const auto is_unfinished = [](const LineRelay& relay) { return relay.has_unfinished(); };
  if (std::any_of(relays_.begin(), relays_.end(), is_unfinished)) at_most(LineRelay::kPatience);
  if (AllEnded() && !abandoned_) at_most(kLookForRest);
  return patience ? static_cast<int>(patience->count()) : -1;
}

void RankJob::Turn() {
  std::vector<pollfd> polled(kRelays + relays_.size());
  const auto poll_for = [&](size_t place, int descriptor, short events) {
    polled[place] = {descriptor, events, 0};  // poll() ignores a negative descriptor
  };
  poll_for(kSignals, parts_.signals.descriptor(), POLLIN);
  poll_for(kNotes, parts_.notes.descriptor(), POLLIN);
  poll_for(kTyped, parts_.input.wants_to_read(), POLLIN);
  poll_for(kInput, parts_.input.wants_to_write(), POLLOUT);
  poll_for(kOutput, output_.waiting() > 0 ? STDOUT_FILENO : -1, POLLOUT);
  poll_for(kErrors, errors_.waiting() > 0 ? STDERR_FILENO : -1, POLLOUT);
  for (size_t i = 0; i < relays_.size(); ++i) {
    poll_for(kRelays + i, relays_[i].wants_to_read() ? relays_[i].descriptor() : -1, POLLIN);
  }
  poll(polled.data(), polled.size(), PatienceMs());
  std::vector<short> ready;
  for (const pollfd& one : polled) ready.push_back(one.revents);
  // Handles ends before notes. When a rank dies, other ranks send notes about its death, and the
  // message about its end should come first.
  TakeSignals();
  SeeEnds();
  TakeNotes();
  Relay(ready);
  HeedTimes();
}

void RankJob::TakeSignals() {
  while (const int signal = parts_.signals.Receive()) {
    if (signal == SIGCHLD) continue;
    if (signal == SIGTSTP) {
      // Ctrl-Z reaches only this process, because the ranks have no terminal.
      PassOn(SIGSTOP);
      kill(getpid(), SIGSTOP);
      continue;
    }
    if (JobSignals::Ends(signal)) {
      passed_on_ = signal;
      abandoned_ = AllEnded();
    }
    PassOn(signal);
  }
}

void RankJob::SeeEnds() {
  const bool before = AllEnded();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended || !SeeEnd(ranks_[i])) continue;
    if (ranks_[i].code != 0 && !failed_ && !asked_) Fail(i);
  }
  if (AllEnded() && !before) {
    EndBy(Clock::now() + kForRest, Clock::now() + kForRest + kForLastWords);
  }
}

void RankJob::Fail(size_t rank) {
  failed_ = rank;
  const Time now = Clock::now();
  // If a passed-on signal has already asked the ranks to end, SIGTERM follows only after a while.
  const Time ask = passed_on_ != 0 ? now + kForLastWords : now;
  EndBy(ask, ask + kForLastWords);
  const bool by_reader = ranks_[rank].signal == SIGPIPE && !output_.has_reader();
  if (passed_on_ != 0 || by_reader || ranks_.size() == 1) return;
  for (RankProcess& other : ranks_) SeeEnd(other);
  Say("rank " + std::to_string(rank) + " " + EndOf(ranks_[rank]) +
      (AllEnded() ? "" : "; the other ranks are ended"));
}

void RankJob::TakeNotes() {
  while (const auto note = parts_.notes.Receive()) {
    const bool is_news =
        !note_ || (note->note == LauncherNote::kFailed && note_->note != note->note);
    if (!is_news) continue;
    note_ = note;
    const std::string rank = note->rank >= 0 ? "rank " + std::to_string(note->rank) : "a rank";
    Say(rank + " says: " + note->line);
    if (note->note != LauncherNote::kFailed) continue;
    const Time ask = Clock::now() + kForLastWords;  // so that programs can report errors
    EndBy(ask, ask + kForLastWords);
  }
}

void RankJob::Relay(const std::vector<short>& ready) {
  if (ready[kTyped] != 0) parts_.input.Read();
  if (ready[kInput] != 0) parts_.input.Write();
  const Time now = Clock::now();
  for (size_t i = 0; i < relays_.size(); ++i) {
    if (ready[kRelays + i] != 0) relays_[i].Read(now);
    relays_[i].ShowUnfinished(now);
  }
  WriteOutputs(ready[kOutput] != 0, ready[kErrors] != 0);
}

void RankJob::WriteOutputs(bool output_is_ready, bool errors_are_ready) {
  if (output_is_ready) output_.Write();
  if (errors_are_ready) errors_.Write();
  for (LineRelay& relay : relays_) {
    // Closing the relay makes the rank's next write fail, as if the rank wrote to the file itself.
    if (!relay.has_reader()) relay.Close();
  }
}

void RankJob::EndBy(Time ask, Time kill) {
  if (!asked_) ask_at_ = std::min(ask_at_.value_or(ask), ask);
  kill_at_ = std::min(kill_at_.value_or(kill), kill);
}

void RankJob::HeedTimes() {
  const Time now = Clock::now();
  if (ask_at_ && now >= *ask_at_) {
    ask_at_.reset();
    asked_ = true;
    SignalSessions(Sessions(), SIGTERM);
    SignalSessions(Sessions(), SIGCONT);
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    asked_ = true;
    SignalSessions(Sessions(), SIGKILL);
  }
}

void RankJob::Drain() {
  // 32 reads empty a full pipe. If more text comes, a process outside the job's sessions writes it,
  // perhaps without end.
  constexpr int kMostReads = 32;
  for (LineRelay& relay : relays_) {
    for (int reads = 0; reads < kMostReads && relay.Read(Clock::now()); ++reads) {
    }
    relay.Finish();
  }
  ask_at_.reset();
  kill_at_.reset();
  while (!abandoned_ && (output_.waiting() > 0 || errors_.waiting() > 0)) Turn();
}

}  // namespace ucudnn::command
