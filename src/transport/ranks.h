// The control plane of a job: its ranks meet, gather texts, post records to each other, and fail
// together. It does not know the meaning of the texts. Thread-safe.
//
// A rank is an object of this class: usually one for a process, several if threads are ranks. Each
// has a service thread of its own, started by Join, which runs the callbacks. Every wait is
// bounded. No signal is raised. A forked child has no part in the job: its calls fail or do
// nothing, and the sockets that it holds open hide neither its parent's death (heartbeats end) nor
// its parent's leaving (connections are shut down, not only closed).
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
#include "transport/gatherer.h"
#include "transport/hub.h"
#include "transport/link.h"
#include "transport/listeners.h"
#include "transport/meeting.h"
#include "transport/outbox.h"

namespace ucudnn::transport {

// The largest record for Send.
inline constexpr size_t kLargestRecord = kLargestBody - sizeof(int32_t);

class Ranks final : public Gatherer, private Sink {
 public:
  // Meets the other ranks: rank 0 listens and the others connect, until all are there or the
  // timeout is over. The error is a line that names the rank and the value at fault, the same on
  // every rank that reached rank 0: rank 0 stays for times.refusing to tell late ranks.
  static Result<std::unique_ptr<Ranks>> Join(const Meeting& meeting);
  // If Leave was not called before, the other ranks take this for the rank's death.
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Membership& membership() const { return meeting_.membership; }

  // Returns the contributions of all ranks of the group, by group rank, to their gathers of the
  // same number: the first, second, ... call on each. `doing` is the purpose, for messages to the
  // user. Waits for the others; if one lives and does not come, warns after times.warning and fails
  // the job after times.timeout. A contribution has at most 1 MiB. Must not be called from a
  // callback. Threads that gather at the same time take turns.
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view doing) override;

  // Sends `record` (at most 1 MiB) to the other ranks of the group. Waits only while more than 256
  // KiB of records await the service thread. Does nothing once the job has failed or this rank has
  // left. Records and gathers of a rank reach each other rank in the order of the calls.
  void Post(std::string_view record);
  // Posts to one other rank of the group alone, which hears it as a post; the service thread is
  // woken for it. A record has at most kLargestRecord bytes.
  void Send(int group_rank, std::string_view record);

  // Sets the text about this rank in the other ranks' warnings, at most 200 bytes. They receive it
  // with the next heartbeat or gather.
  void Doing(std::string_view what);
  // Formats "rank 1 (which does: …)" with that rank's latest text.
  std::string NameWithDoing(int rank) const;

  // Fails the job: on this rank at once, on the other ranks as soon as they hear of it. The first
  // line that reaches rank 0 becomes the Failure() of all ranks; until then this rank's Failure()
  // is `line`.
  void Fail(std::string line);
  std::optional<std::string> Failure() const;  // an atomic load while there is no failure

  // Callbacks run on the service thread, one at a time, and must be quick: heartbeats wait for
  // them, on rank 0 the heartbeats of all ranks. They may call Post, Doing, Fail and Failure. They
  // are set from another thread, which holds no lock that a callback takes. Setting null removes a
  // callback: it no longer runs when the call returns. Records that arrive before the first call of
  // OnPost are kept, and that call delivers them on the calling thread; so set OnGather before
  // OnPost.
  void OnPost(std::function<void(int group_rank, std::string_view record)> heard);
  // Called when another rank of the group has come to its gather `number` (from 1). The call comes
  // in order with that rank's posts, so that a rank that gathers while others post, or the reverse,
  // is noticed.
  void OnGather(std::function<void(int group_rank, uint64_t number)> heard);
  // A rank (of the job) has left; `last` is its text. Ranks that do not wait for it go on.
  void OnLeave(std::function<void(int rank, std::string_view last)> heard);
  // The job has failed, with its final line. It is called once, at once if the job has failed
  // before.
  void OnFailure(std::function<void(std::string_view line)> heard);

  // Tells the other ranks that this rank leaves, with `last` (the rank's last numbers), and waits,
  // for times.leaving at most, until all ranks of the job have left; rank 0 waits as long as ranks
  // of other groups, which meet through it, have acted within times.timeout. From then on a closed
  // connection is no failure, but a gather that still waits for this rank is one. Returns the last
  // texts by rank; none for a rank that has not left. The caller holds no lock that a callback
  // takes. Later calls only return the texts.
  std::vector<std::optional<std::string>> Leave(std::string_view last);

 private:
  // This rank's knowledge of another rank.
  struct Peer {
    Membership place;
    std::string doing;
    std::deque<std::string> contributions;  // they have arrived, and no gather has taken them
    uint64_t gathers = 0;                   // the number that it has come to
    std::optional<std::string> last;        // set once it has left
  };

  explicit Ranks(const Meeting& meeting);
  bool Forked() const;
  bool OnServiceThread() const;
  Status Meet();
  Status FailToMeet(const std::string& line);

  // Returns whether this rank may send its group a record of `bytes` bytes. Fails the job for a
  // longer one.
  bool MayPost(size_t bytes, size_t most);
  // Appends to the outbox, in bounded time; returns false if the job has failed meanwhile.
  bool Tell(FrameKind kind, std::string_view body);
  void SetFailure(const std::string& line, bool of_the_job);
  // Returns the job's line once it is known; after a while, this rank's.
  std::string Verdict() const;
  // Returns the result that Gather waits for: the contributions, or the error that ends it; none:
  // neither yet.
  std::optional<Result<std::vector<std::string>>> GatherResult(std::string_view mine,
                                                               std::string_view doing);
  std::string NameWithDoingLocked(int rank) const UCUDNN_REQUIRES(mutex_);
  // Describes the ranks that have not come to this rank's gather, and what they do.
  std::string Awaited() const;
  bool AllHaveLeft() const;
  // Describes, on rank 0, the ranks of other groups that have not left; empty if there are none.
  std::string ServedGroups() const;
  // Returns, on rank 0, which left at `since`, whether the other ranks have been inactive for too
  // long.
  bool OthersStandStill(Clock::time_point since) const;
  Status HasLeft(std::string_view doing) const;

  // The service thread runs it, and Join before there is that thread.
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
  Alarm news_;  // raised at every change that Gather or Leave may wait for
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
  bool in_gather_ UCUDNN_GUARDED_BY(mutex_) = false;  // the purpose of the gather was sent
  bool unreachable_ UCUDNN_GUARDED_BY(mutex_) = false;

  Listeners listeners_;

  // Used by the service thread alone.
  std::unique_ptr<Link> link_;
  Hub* hub_ = nullptr;  // link_ of rank 0; null on other ranks
  std::vector<char> outgoing_;
  size_t sent_ = 0;  // bytes of outgoing_
  std::vector<pollfd> wait_;
  std::string beat_;
  Clock::time_point last_beat_;
  Clock::time_point last_taken_;  // when the outbox last had a frame
  std::vector<int> group_ranks_;  // by rank; -1: in another group

  std::unique_ptr<std::thread> thread_;
  std::atomic<std::thread::id> service_;  // none until that thread runs
};

}  // namespace ucudnn::transport
