// The control plane of a job: its ranks meet, gather texts, post records to each other, and fail
// together. Knows nothing of what the texts say.
// Thread-safe. A rank is an object of this class: usually one for a process, several where threads
// are ranks. Each has a service thread of its own, started by Join, which runs the callbacks.
// Every wait is bounded. No signal is raised, and a forked child has no part in the job: what it
// calls fails or does nothing, and the sockets that it holds open hide neither its parent's death
// (heartbeats end) nor its goodbye (connections are shut down, not just closed).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "transport/alarm.h"
#include "transport/hub.h"
#include "transport/link.h"
#include "transport/listeners.h"
#include "transport/meeting.h"
#include "transport/outbox.h"

namespace ucudnn::transport {

// Of Send.
inline constexpr size_t kLargestRecord = kLargestBody - sizeof(int32_t);

class Ranks final : private Sink {
 public:
  // Meets the other ranks. Rank 0 listens, the others connect, until all are there or the timeout
  // is over. The error is a line that names the rank and the value at fault, the same on every
  // rank that reached rank 0: rank 0 stays for times.refusing to tell those who come late.
  static Result<std::unique_ptr<Ranks>> Join(const Meeting& meeting);
  // Without Leave before, this looks to the others like this rank's death.
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Membership& membership() const { return meeting_.membership; }

  // The contributions of all ranks of the group, by group rank, to their gathers of the same
  // number: the first, second, ... call on each. `doing` says for lines to the user what it is
  // about. Waits for the others; for one that lives and does not come, with a warning after
  // times.warning and the job's failure after times.timeout. A contribution has at most 1 MiB.
  // Not from a callback. Threads that gather at the same time take turns.
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view doing);

  // Sends `record` (at most 1 MiB) to the other ranks of the group, without waiting for them: only
  // where 256 KiB of records lie here that the service thread has not taken. Does nothing once the
  // job has failed or this rank has left. Records and gathers of a rank reach each other rank in
  // the order of the calls.
  void Post(std::string_view record);
  // The same to one other rank of the group, which hears it as a post; the service thread is woken
  // for it. A record has at most kLargestRecord bytes.
  void Send(int group_rank, std::string_view record);

  // What the others' warnings say of this rank, at most 200 bytes. They learn of it with the next
  // heartbeat, or gather.
  void Doing(std::string_view what);
  // "rank 1 (which does: …)": what that rank of the job told last.
  std::string NameWithDoing(int rank) const;

  // The job fails: on this rank at once, on the others as soon as they hear of it. The first line
  // that reaches rank 0 becomes that of all ranks; until then this one's Failure() is `line`.
  void Fail(std::string line);
  std::optional<std::string> Failure() const;  // an atomic load while there is none

  // Callbacks run on the service thread, one at a time, and must be quick: heartbeats wait for
  // them, and on rank 0 everybody's. They may call Post, Doing, Fail and Failure. Set from another
  // thread, and without a lock that a callback takes. Null takes one away: it no longer runs when
  // the call returns.
  // What arrives before OnPost is called for the first time is kept for it, and told by that call,
  // on the calling thread: set OnGather before OnPost.
  void OnPost(std::function<void(int group_rank, std::string_view record)> heard);
  // Another rank of the group has come to its gather `number` (from 1), in order with its posts: so
  // a rank that gathers where others post, or the reverse, can be told.
  void OnGather(std::function<void(int group_rank, uint64_t number)> heard);
  // A rank (of the job) has left; `last` is its text. Ranks that do not wait for it go on.
  void OnLeave(std::function<void(int rank, std::string_view last)> heard);
  // The job has failed, with its final line. Called once; at once where it has failed before.
  void OnFailure(std::function<void(std::string_view line)> heard);

  // Says goodbye with `last` (the rank's last numbers) and waits, for times.leaving at most, until
  // all ranks of the job have done so; rank 0 as long as ranks of other groups, which meet through
  // it, have come to anything within times.timeout. From then on a closed connection is no failure,
  // but a gather that still waits for this rank is one. The last texts by rank; none for one that
  // has not left. The caller holds no lock that a callback takes. Later calls only return the
  // texts.
  std::vector<std::optional<std::string>> Leave(std::string_view last);

 private:
  // A rank as this one knows it.
  struct Peer {
    Membership place;
    std::string doing;
    std::deque<std::string> contributions;  // arrived, not taken by a gather
    uint64_t gathers = 0;                   // that it has come to
    std::optional<std::string> last;        // once it has left
  };

  explicit Ranks(const Meeting& meeting);
  bool Forked() const;
  bool OnServiceThread() const;
  Status Meet();
  Status FailToMeet(const std::string& line);

  // Whether this rank may tell its group a record of so many bytes. Fails the job for a longer one.
  bool MayPost(size_t bytes, size_t most);
  // Appends to the outbox, in bounded time; false where the job has failed meanwhile.
  bool Tell(FrameKind kind, std::string_view body);
  void SetFailure(const std::string& line, bool of_the_job);
  // The job's line once it is known, this rank's after a while.
  std::string Verdict() const;
  // What Gather waits for: the contributions, the error that ends it, or neither yet.
  std::optional<Result<std::vector<std::string>>> GatherResult(std::string_view mine,
                                                               std::string_view doing);
  std::string NameWithDoingLocked(int rank) const UCUDNN_REQUIRES(mutex_);
  // Who has not come to this rank's gather, and what they do.
  std::string Awaited() const;
  bool AllHaveLeft() const;
  // On rank 0: the ranks of other groups that have not left; empty where there are none.
  std::string ServedGroups() const;
  // On rank 0, which left at `since`: whether the others have done nothing for too long.
  bool OthersStandStill(Clock::time_point since) const;
  Status HasLeft(std::string_view doing) const;

  // The service thread's, and Join's before there is one.
  void Serve();
  void ServeOnce();
  Milliseconds IdleTime();
  void ServeNoMore(const std::string& line);
  void SendOutbox();
  void SendHeartbeat();
  void Started(std::span<const Membership> members) override;
  void Receive(const Frame& frame) override;
  void Unreachable() override;
  void ReceiveContribution(const Frame& frame);

  const Meeting meeting_;
  const pid_t process_;
  Outbox outbox_;
  Alarm news_;  // something that Gather or Leave may wait for
  std::atomic<bool> failed_ = false;
  std::atomic<bool> stop_ = false, ended_ = false, finished_ = false, leaving_ = false;

  Mutex gathering_;  // held by the thread whose turn it is to gather
  mutable Mutex mutex_;
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);  // by rank
  std::vector<int> group_ UCUDNN_GUARDED_BY(mutex_);   // ranks by group rank; empty: not started
  std::string failure_ UCUDNN_GUARDED_BY(mutex_);
  bool failure_is_the_jobs_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::string doing_ UCUDNN_GUARDED_BY(mutex_);
  bool doing_told_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool in_gather_ UCUDNN_GUARDED_BY(mutex_) = false;  // what it is about has been told
  bool unreachable_ UCUDNN_GUARDED_BY(mutex_) = false;

  Listeners listeners_;

  // The service thread's.
  std::unique_ptr<Link> link_;
  Hub* hub_ = nullptr;  // link_ of rank 0
  std::vector<char> outgoing_;
  size_t sent_ = 0;  // of outgoing_
  std::vector<pollfd> wait_;
  std::string beat_;
  Clock::time_point last_beat_;
  Clock::time_point last_taken_;  // something from the outbox
  std::vector<int> group_ranks_;  // by rank; -1: of another group

  std::unique_ptr<std::thread> thread_;
  std::atomic<std::thread::id> service_;  // none until that thread runs
};

}  // namespace ucudnn::transport
