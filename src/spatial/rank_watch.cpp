#include "spatial/rank_watch.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/signals_blocked.h"

namespace ucudnn::spatial {
namespace {

using Clock = Patience::Clock;

constexpr std::chrono::milliseconds kLook{100};
constexpr const char* kCounted = " split calls, counted from the first CUDA graph capture";

CallWatch WatchOf(const transport::Ranks& ranks, int first, const Patience& patience) {
  return {ranks.membership().group_rank, ranks.membership().group_size, first, patience};
}

// The numbers of calls that a rank sends to the others when it ends.
struct Farewell {
  uint64_t calls = 0;
  uint64_t begun = 0;  // calls that its device has begun, if they are logged

  std::string Text() const { return std::to_string(calls) + " " + std::to_string(begun); }
  static Farewell Read(std::string_view text) {
    const std::string ended(text);
    char* end = nullptr;
    const uint64_t calls = std::strtoull(ended.c_str(), &end, 10);
    return {calls, std::strtoull(end, nullptr, 10)};
  }
};

// Returns a text that says which ranks of a group made different numbers of calls; none if the
// numbers are equal. An entry of `ended` is none if that rank sent no Farewell. `first` is the
// number, within the job, of the group's rank 0.
std::optional<std::string> Unequal(const std::vector<std::optional<Farewell>>& ended, int first) {
  const auto compare = [&](uint64_t Farewell::*count,
                           const char* did) -> std::optional<std::string> {
    std::optional<size_t> least, most;
    const auto of = [&](size_t rank) { return (*ended[rank]).*count; };
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      if (!ended[rank]) continue;
      if (!least || of(rank) < of(*least)) least = rank;
      if (!most || of(rank) > of(*most)) most = rank;
    }
    if (!least || of(*least) == of(*most)) return std::nullopt;
    const uint64_t more = of(*most) - of(*least);
    return "rank " + std::to_string(first + static_cast<int>(*most)) + did + std::to_string(more) +
           (more == 1 ? " split call" : " split calls") + " more than rank " +
           std::to_string(first + static_cast<int>(*least));
  };
  if (auto unequal = compare(&Farewell::calls, " made ")) return unequal;
  return compare(&Farewell::begun, " launched CUDA graphs with ");
}

}  // namespace

std::optional<CallWatch::Slowest> CallWatch::LeftBehind() const {
  for (size_t rank = 0; rank < left_.size(); ++rank) {
    const uint64_t last = left_[rank].calls.load();
    if (last < waiting()) return Slowest{static_cast<int>(rank), last};
  }
  return std::nullopt;
}

CallWatch::Slowest CallWatch::SlowestPresent() const {
  Slowest slowest = {rank_, records_.last()};
  for (size_t at = 0; at < left_.size(); ++at) {
    if (left_[at].calls.load() != kHere) continue;
    const int rank = static_cast<int>(at);
    if (const uint64_t last = records_.last_of(rank); last < slowest.last) slowest = {rank, last};
  }
  return slowest;
}

Patience::Advice CallWatch::LookAtRanks(Patience::Clock::time_point now) {
  awaited_call_ = waiting();
  const Slowest before = std::exchange(slowest_, SlowestPresent());
  return ranks_wait_.Judge(all_came() || slowest_ != before, now);
}

RankWatch::RankWatch(transport::Ranks& ranks, RankFailure& failure, const Patience& patience,
                     std::function<void(const DeviceCall&)> count)
    : ranks_(ranks),
      failure_(failure),
      count_(std::move(count)),
      calls_(WatchOf(ranks, failure.RankOfJob(0), patience)),
      begun_(WatchOf(ranks, failure.RankOfJob(0), patience)) {
  calls_.records().MakeRoom();
}

void RankWatch::Start() {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { WatchOrFail(); });
}

void RankWatch::End() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
    ending_.NotifyAll();
  }
  thread_.join();
}

void RankWatch::WatchOrFail() {
  try {
    return Watch();
  } catch (...) {
    failure_.FailWithoutLine();
  }
  try {
    failure_.Fail(failure_.OwnName() + ": out of memory in the thread that watches the others");
  } catch (...) {
    // There is no memory even for the line. The other ranks will notice that this rank's next
    // record is missing.
  }
}

void RankWatch::Watch() {
  constexpr int kLooksForCause = 5;
  uint64_t told_last = 0;
  MutexLock lock(mutex_);
  while (!ends_ && !failure_.has_failed()) {
    ending_.WaitUntil(mutex_, Clock::now() + kLook);
    if (const uint64_t last = calls_.records().last(); last != told_last) {
      told_last = last;
      ranks_.Doing("what comes behind its split call " + std::to_string(last));
    }
    transport::Channel* const channel = failure_.channel();
    const Status exchanged = channel == nullptr ? Status::Ok() : channel->Check();
    if (!exchanged.ok()) {
      failure_.FailWithoutLine();
      // The rank that aborted an exchange sends a line with the reason, so this rank waits briefly
      // for the line.
      for (int look = 0; look < kLooksForCause && !ends_ && !failure_.is_told(); ++look) {
        ending_.WaitUntil(mutex_, Clock::now() + kLook);
      }
      return failure_.Fail(failure_.OwnName() + ": " + failure_.OfChannel(exchanged) +
                           SuspectFrom(seen_.finished + 1));
    }
    WatchCalls(channel);
    WatchBegun();
  }
  if (DeviceLog* const log = device_log()) log->Close();
}

void RankWatch::WatchCalls(transport::Channel* channel) {
  if (const auto advice = calls_.LookAtRanks(Clock::now()); advice != Patience::kWait) {
    const uint64_t call = calls_.slowest().last + 1;
    Tell(advice,
         ranks_.NameWithDoing(failure_.RankOfJob(calls_.slowest().rank)) +
             " has not come to split call " + std::to_string(call) +
             calls_.ranks_wait().WaitedText(),
         call);
  }
  const uint64_t waiting = calls_.awaited_call();
  const bool moves = channel == nullptr || !calls_.all_came() || DeviceMoves(*channel, waiting);
  if (const auto advice = calls_.LookAtDevice(moves, Clock::now()); advice != Patience::kWait) {
    Tell(advice,
         failure_.OwnName() + ", whose device lags behind calls that all ranks have made, " +
             "has not come to the end of split call " + std::to_string(waiting) +
             calls_.device_wait().WaitedText(),
         waiting);
  }
}

void RankWatch::WatchBegun() {
  DeviceLog* const log = device_log();
  if (log == nullptr) return;
  PostAllBegun();
  const Clock::time_point now = Clock::now();
  const uint64_t begun = log->begun(), ended = log->ended();
  const bool is_running = begun != ended;
  if (const auto advice = begun_.LookAtRanks(now); advice != Patience::kWait) {
    const CallWatch::Slowest& slowest = begun_.slowest();
    const CallRecord missing = begun_.records().Own(slowest.last + 1);
    Tell(advice,
         "the device of " + ranks_.NameWithDoing(failure_.RankOfJob(slowest.rank)) + " has begun " +
             std::to_string(slowest.last) + kCounted + ", and that of " + failure_.OwnName() +
             " one more, " + BegunCallText(missing) + begun_.ranks_wait().WaitedText(),
         missing.call);
  }
  const bool moves = !is_running || begun + ended != moved_;
  moved_ = begun + ended;
  if (const auto advice = begun_.LookAtDevice(moves, now); advice != Patience::kWait) {
    const CallRecord last = begun_.records().Own(begun_.records().last());
    Tell(advice,
         failure_.OwnName() +
             ", whose device lags behind the others', has not come to the end of " +
             BegunCallText(last) + begun_.device_wait().WaitedText(),
         last.call);
  }
  WatchLeft(is_running);
}

void RankWatch::WatchLeft(bool is_running) {
  const auto left = is_running ? begun_.LeftBehind() : std::nullopt;
  if (!left) return left_behind_.reset();
  const Clock::time_point now = Clock::now();
  if (!left_behind_) left_behind_ = now;
  if (now - *left_behind_ < transport::kLeavingTime) return;
  const CallRecord missing = begun_.records().Own(left->last + 1);
  failure_.Fail(failure_.NameOf(left->rank) + " ended after its device had begun " +
                std::to_string(left->last) + kCounted + ", but that of " + failure_.OwnName() +
                " waits in one more, " + BegunCallText(missing) + SuspectFrom(missing.call));
}

void RankWatch::Tell(Patience::Advice advice, const std::string& line, uint64_t call) {
  if (advice == Patience::kGiveUp) return failure_.Fail(line + SuspectFrom(call));
  Log(LogLevel::kWarn, failure_.OwnName() + " waits: " + line);
}

bool RankWatch::DeviceMoves(transport::Channel& channel, uint64_t call) {
  if (seen_.finished == call) return true;
  const bool is_enqueued = enqueued_.load(std::memory_order_acquire) >= call;
  const transport::DeviceProgress now = channel.Progress();
  if (is_enqueued && !now.is_pending) seen_.finished = call;
  const DeviceLog* const log = device_log();
  // Before the exchange the device may run graphs, so calls in graphs count as progress, too.
  const uint64_t counted = log == nullptr ? 0 : log->begun() + log->ended();
  const bool moves = !now.is_pending || call != seen_.call || now.reached != seen_.reached ||
                     counted != seen_.counted;
  seen_.counted = counted;
  seen_.call = call;
  seen_.reached = now.reached;
  return moves;
}

bool RankWatch::FailIfLeftBehind() {
  const auto left = calls_.LeftBehind();
  if (!left) return false;
  failure_.Fail(failure_.NameOf(left->rank) + " ended after split call " +
                std::to_string(left->last) + ", but " + failure_.OwnName() + " makes call " +
                std::to_string(calls_.waiting()));
  return true;
}

void RankWatch::CountOnDevice(const cuda::Driver& driver) {
  if (device_log() != nullptr) return;
  device_log_.store(&DeviceLog::Make(driver), std::memory_order_release);
}

void RankWatch::PostBegun(const DeviceCall& begun) {
  CallRecord record;
  record.sequence = begun_.records().last() + 1;
  record.kernel = begun.kernel;
  record.call = begun.call;
  record.kind = RecordKind::kBegun;
  record.captured = begun.is_captured ? 1 : 0;
  if (begun.is_captured) count_(begun);
  const std::optional<std::string> difference = begun_.records().Add(record, nullptr);
  ranks_.Post({reinterpret_cast<const char*>(&record), sizeof record});
  if (begun.needs_others) begun_.set_waiting(record.sequence);
  if (difference) failure_.Fail(*difference);
}

void RankWatch::PostAllBegun() {
  DeviceLog* const log = device_log();
  if (log == nullptr) return;
  MutexLock lock(begun_mutex_);
  const CallRecords& records = begun_.records();
  while (records.last() - begun_.SlowestPresent().last + 1 < records.most_ahead() &&
         !failure_.has_failed()) {
    const std::optional<DeviceCall> begun = log->NextBegun();
    if (!begun) break;
    PostBegun(*begun);
  }
}

void RankWatch::FinishBegun() {
  const DeviceLog* const log = device_log();
  if (log == nullptr) return;
  const auto deadline = Clock::now() + transport::kLeavingTime;
  while (log->begun() != log->ended() && !failure_.has_failed() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PostAllBegun();
}

void RankWatch::HearLeave(int group_rank, std::string_view last) {
  const Farewell farewell = Farewell::Read(last);
  calls_.HearLeave(group_rank, farewell.calls);
  begun_.HearLeave(group_rank, farewell.begun);
  FailIfLeftBehind();
}

std::optional<std::string> RankWatch::Leave() {
  FinishBegun();
  const DeviceLog* const log = device_log();
  const auto last =
      ranks_.Leave(Farewell{calls_.records().last(), log == nullptr ? 0 : log->begun()}.Text());
  if (failure_.has_failed()) return std::nullopt;
  std::vector<std::optional<Farewell>> ended;
  for (int rank = 0; rank < ranks_.membership().group_size; ++rank) {
    const auto& text = last[static_cast<size_t>(failure_.RankOfJob(rank))];
    ended.push_back(text ? std::optional(Farewell::Read(*text)) : std::nullopt);
  }
  const std::optional<std::string> unequal = Unequal(ended, failure_.RankOfJob(0));
  if (!unequal) return std::nullopt;
  return *unequal + ": what was computed meanwhile may be wrong";
}

}  // namespace ucudnn::spatial
