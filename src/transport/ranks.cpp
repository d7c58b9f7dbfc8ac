// The functions of Ranks that its users call, and their helpers. Join and the functions of the
// service thread are in ranks_service.cpp.
#include "transport/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "transport/packing.h"

namespace ucudnn::transport {
namespace {

// The longest wait for an alarm. It is short because the alarm may wake another waiting thread
// instead of this one.
constexpr Milliseconds kTurn{20};
constexpr Milliseconds kVerdict{1000};  // the longest wait for rank 0's failure line
constexpr char kForked[] = "this process was forked from a rank, and is none itself";

}  // namespace

Ranks::~Ranks() {
  if (Forked()) {
    thread_.release();  // NOLINT(bugprone-unused-return-value): the child has no such thread
    return;
  }
  stop_ = true;
  outbox_.wake().Raise();
  if (thread_ != nullptr) {
    thread_->join();
  } else if (link_ != nullptr) {
    link_->Close();
  }
}

bool Ranks::Forked() const { return getpid() != process_; }

bool Ranks::OnServiceThread() const { return service_.load() == std::this_thread::get_id(); }

bool Ranks::Tell(FrameKind kind, std::string_view body) {
  using Haste = Outbox::Haste;
  Haste haste = kind == FrameKind::kPost ? Haste::kLater : Haste::kNow;
  // The service thread must not wait until the outbox has room, because only that thread empties
  // the outbox.
  if (kind == FrameKind::kFail || kind == FrameKind::kLeave || OnServiceThread()) {
    haste = Haste::kUrgent;
  }
  const Frame frame = {kind, meeting_.membership.rank, body};
  if (outbox_.Put(frame, haste)) return true;
  const Clock::time_point deadline = Clock::now() + meeting_.times.timeout;
  while (!failed_ && !ended_) {
    outbox_.room().Wait(kTurn);
    if (outbox_.Put(frame, haste)) return true;
    if (Clock::now() > deadline) {
      Fail("rank " + std::to_string(meeting_.membership.rank) +
           " could not tell the others anything for " +
           std::to_string(meeting_.times.timeout.count()) + " ms");
    }
  }
  return false;
}

bool Ranks::MayPost(size_t bytes, size_t most) {
  if (failed_.load(std::memory_order_relaxed) || meeting_.membership.group_size == 1) return false;
  if (leaving_ || Forked()) return false;
  if (bytes <= most) return true;
  Fail("rank " + std::to_string(meeting_.membership.rank) + " posts a record of " +
       std::to_string(bytes) + " bytes, more than 1 MiB");
  return false;
}

void Ranks::Post(std::string_view record) {
  if (MayPost(record.size(), kLargestBody)) Tell(FrameKind::kPost, record);
}

void Ranks::Send(int group_rank, std::string_view record) {
  if (!MayPost(record.size(), kLargestRecord)) return;
  Packer packer;
  {
    const MutexLock lock(mutex_);
    packer.Put(static_cast<int32_t>(group_[static_cast<size_t>(group_rank)]));
  }
  packer.PutBytes(record);
  Tell(FrameKind::kSend, packer.bytes());
}

Result<std::vector<std::string>> Ranks::Gather(std::string_view mine, std::string_view doing) {
  constexpr size_t kNumber = sizeof(uint64_t);
  if (Forked()) return Status::Error(kForked);
  if (mine.size() > kLargestBody - kNumber) {
    return Status::Error("a contribution of " + std::to_string(mine.size()) +
                         " bytes is more than can be gathered");
  }
  if (OnServiceThread()) {
    return Status::Error("a callback cannot gather: it would wait for itself");
  }
  const MutexLock turn(gathering_);
  if (failed_) return Status::Error(FailureText());
  if (leaving_) return HasLeft(doing);
  Packer packer;
  {
    const MutexLock lock(mutex_);
    Peer& self = peers_[static_cast<size_t>(meeting_.membership.rank)];
    packer.Put(++self.gathers);
    in_gather_ = true;
  }
  packer.PutBytes(mine);
  Tell(FrameKind::kDoing, doing.substr(0, kLongestDoing));
  Tell(FrameKind::kGather, packer.bytes());

  const Clock::time_point begin = Clock::now();
  bool warned = false;
  for (;;) {
    if (auto result = GatherResult(mine, doing)) return std::move(*result);
    const auto waited = std::chrono::floor<Milliseconds>(Clock::now() - begin);
    const std::string rank = "rank " + std::to_string(meeting_.membership.rank);
    if (waited > meeting_.times.timeout) {
      Fail(Awaited() + " did not come to " + std::string(doing) + ", where " + rank +
           " has waited for " + std::to_string(waited.count()) + " ms");
    } else if (waited > meeting_.times.warning && !std::exchange(warned, true)) {
      Log(LogLevel::kWarn, rank + " has waited for " + std::to_string(waited.count()) + " ms in " +
                               std::string(doing) + " for " + Awaited());
    }
    news_.Wait(kTurn);
  }
}

std::optional<Result<std::vector<std::string>>> Ranks::GatherResult(std::string_view mine,
                                                                    std::string_view doing) {
  std::string gone;
  if (!failed_) {
    const MutexLock lock(mutex_);
    std::vector<std::string> all;
    bool complete = true;
    for (const int rank : group_) {
      const Peer& peer = peers_[static_cast<size_t>(rank)];
      if (rank == meeting_.membership.rank || !peer.contributions.empty()) continue;
      complete = false;
      if (peer.last || unreachable_) gone = std::to_string(peer.last ? rank : 0);
    }
    if (complete) {
      in_gather_ = false;
      doing_told_ = false;  // so the next heartbeat sends what this rank does now
    }
    for (size_t i = 0; complete && i < group_.size(); ++i) {
      Peer& peer = peers_[static_cast<size_t>(group_[i])];
      if (group_[i] == meeting_.membership.rank) {
        all.emplace_back(mine);
      } else {
        all.push_back(std::move(peer.contributions.front()));
        peer.contributions.pop_front();
      }
    }
    if (complete) return all;
  }
  if (!gone.empty()) {
    Fail("rank " + gone + " has left the job and cannot come to " + std::string(doing) +
         ", where rank " + std::to_string(meeting_.membership.rank) + " waits");
  }
  if (failed_) return Result<std::vector<std::string>>(Status::Error(FailureText()));
  if (ended_) return Result<std::vector<std::string>>(HasLeft(doing));
  return std::nullopt;
}

Status Ranks::HasLeft(std::string_view doing) const {
  return Status::Error("rank " + std::to_string(meeting_.membership.rank) +
                       " has left the job and cannot come to " + std::string(doing));
}

std::string Ranks::Awaited() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> awaited;
  for (const int rank : group_) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    if (rank == meeting_.membership.rank || !peer.contributions.empty()) continue;
    awaited.push_back(NameWithDoingLocked(rank));
  }
  return ucudnn::Join(awaited, ", ");
}

std::string Ranks::NameWithDoing(int rank) const {
  if (Forked()) return "rank " + std::to_string(rank);
  const MutexLock lock(mutex_);
  return NameWithDoingLocked(rank);
}

std::string Ranks::NameWithDoingLocked(int rank) const {
  const std::string& doing = peers_[static_cast<size_t>(rank)].doing;
  return "rank " + std::to_string(rank) +
         " (which does: " + (doing.empty() ? "nothing that it told" : doing) + ")";
}

void Ranks::Doing(std::string_view what) {
  if (Forked()) return;
  const MutexLock lock(mutex_);
  doing_.assign(what.substr(0, kLongestDoing));
  doing_told_ = false;
}

void Ranks::Fail(std::string line) {
  if (Forked() || failed_) return;
  SetFailure(line, false);
  Tell(FrameKind::kFail, std::string_view(line).substr(0, kLargestBody));
}

std::optional<std::string> Ranks::Failure() const {
  if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
  if (Forked()) return kForked;
  const MutexLock lock(mutex_);
  return failure_;
}

std::string Ranks::FailureText() const {
  const Clock::time_point deadline = Clock::now() + kVerdict;
  while (Clock::now() < deadline && !ended_) {
    {
      const MutexLock lock(mutex_);
      if (failure_is_the_jobs_) break;
    }
    std::this_thread::sleep_for(Milliseconds(1));
  }
  return Failure().value_or("the job has failed");
}

void Ranks::SetFailure(const std::string& line, bool of_the_job) {
  {
    const MutexLock lock(mutex_);
    if (failure_is_the_jobs_ || (failed_ && !of_the_job)) return;
    failure_ = line;
    failure_is_the_jobs_ = of_the_job;
    failed_ = true;
  }
  news_.Raise();
  outbox_.room().Raise();
}

void Ranks::OnPost(std::function<void(int, std::string_view)> heard) {
  if (Forked()) return;
  listeners_.Set([&heard](Callbacks& all) { all.post = std::move(heard); }, true);
}

void Ranks::OnGather(std::function<void(int, uint64_t)> heard) {
  if (Forked()) return;
  listeners_.Set([&heard](Callbacks& all) { all.gather = std::move(heard); }, false);
}

void Ranks::OnLeave(std::function<void(int, std::string_view)> heard) {
  if (Forked()) return;
  listeners_.Set([&heard](Callbacks& all) { all.leave = std::move(heard); }, false);
}

void Ranks::OnFailure(std::function<void(std::string_view)> heard) {
  if (Forked()) return;
  listeners_.Set([&heard](Callbacks& all) { all.failure = std::move(heard); }, false);
}

bool Ranks::AllHaveLeft() const {
  const MutexLock lock(mutex_);
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.last.has_value(); });
}

std::string Ranks::ServedGroups() const {
  if (hub_ == nullptr || failed_) return "";
  std::string ranks;
  const MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.last || peer.place.group == meeting_.membership.group) continue;
    ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(peer.place.rank);
  }
  return ranks;
}

bool Ranks::OthersStandStill(Clock::time_point since) const {
  return Clock::now() - std::max(since, hub_->others_acted()) > meeting_.times.timeout;
}

std::vector<std::optional<std::string>> Ranks::Leave(std::string_view last) {
  if (Forked()) return {};
  const size_t rank = static_cast<size_t>(meeting_.membership.rank);
  if (!leaving_.exchange(true)) {
    last = last.substr(0, kLargestBody);
    {
      const MutexLock lock(mutex_);
      peers_[rank].last = last;
    }
    finished_ = false;
    Tell(FrameKind::kLeave, last);
    const Clock::time_point begin = Clock::now(), deadline = begin + meeting_.times.leaving;
    const auto done = [this] { return finished_ || ended_; };
    bool warned = false;
    for (;;) {
      const Clock::time_point now = Clock::now();
      const std::string served = ServedGroups();
      if (done() || (now >= deadline && served.empty())) break;
      if (now >= deadline && OthersStandStill(begin)) {
        Log(LogLevel::kWarn,
            "rank 0 ends though " + served + " of other groups have done nothing for " +
                std::to_string(meeting_.times.timeout.count() / 1000) + " s and have not ended");
        break;
      }
      if (now > deadline + meeting_.times.warning && !std::exchange(warned, true)) {
        Log(LogLevel::kWarn, "rank 0 has ended, and serves " + served +
                                 " of other groups, who meet through it, until they end");
      }
      news_.Wait(Milliseconds(5));
    }
    stop_ = true;
    outbox_.wake().Raise();
    // The service thread ends soon, unless a callback delays it.
    const Clock::time_point end = Clock::now() + kTurn;
    while (!ended_ && Clock::now() < end) {
      std::this_thread::sleep_for(Milliseconds(1));
    }
  }
  const MutexLock lock(mutex_);
  std::vector<std::optional<std::string>> texts;
  for (const Peer& peer : peers_) texts.push_back(peer.last);
  return texts;
}

}  // namespace ucudnn::transport
