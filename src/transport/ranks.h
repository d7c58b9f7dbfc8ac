// The control plane of a job: its ranks meet, gather texts, post records to each other, and fail
// together. The control plane does not interpret these texts. Thread-safe.
//
// An object of this class is a rank: usually one for a process, or several if threads are ranks.
// Each has a service thread of its own, which Join starts and which runs the callbacks. Every wait
// is bounded, except that rank 0 does not leave while ranks of other groups act (Leave). No signal
// is raised. A forked child is not part of the job: its calls fail or do nothing. Although the
// child holds the sockets, the other ranks notice when its parent dies (heartbeats end) or leaves
// (connections are shut down, not only closed).
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

// The most bytes of a record for Send.
inline constexpr size_t kLargestRecord = kLargestBody - sizeof(int32_t);

class Ranks final : public Gatherer, private Sink {
 public:
  // Meets the other ranks: rank 0 listens and the others connect, until all have come or the
  // timeout has passed. An error is a line that names the rank and the value at fault. The line is
  // the same on every rank that has reached rank 0. Rank 0 stays for times.refusing, so that it can
  // send the line to late ranks.
  static Result<std::unique_ptr<Ranks>> Join(const Meeting& meeting);
  // If Leave was not called before, the other ranks consider this rank dead.
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Membership& membership() const { return meeting_.membership; }

  // Returns the contributions of all ranks of the group, by group rank. The n-th calls of all ranks
  // belong together. `doing` is the purpose, for messages to the user. Waits for the other ranks.
  // If a rank is alive but does not come, warns after times.warning and fails the job after
  // times.timeout. A contribution has at most 1 MiB less 8 bytes. Must not be called from a
  // callback. Threads that gather at the same time take turns.
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view doing) override;

  // Sends `record` (at most 1 MiB) to the other ranks of the group. Waits only while the service
  // thread still has 256 KiB to send. Does nothing once the job has failed or this rank has left. A
  // rank receives the records and gathers of one other rank in the order in which that rank called
  // Post and Gather.
  void Post(std::string_view record);
  // Sends `record`, of at most kLargestRecord bytes, to a single rank of the group, which receives
  // it as a post. Wakes the service thread.
  void Send(int group_rank, std::string_view record);

  // Sets the text, of at most 200 bytes, that other ranks' warnings show for this rank. The other
  // ranks receive the text with the next heartbeat or gather.
  void Doing(std::string_view what);
  // Formats "rank 1 (which does: …)" with that rank's latest text.
  std::string NameWithDoing(int rank) const;

  // Fails the job: on this rank immediately, on other ranks as soon as they hear of it. The first
  // line that reaches rank 0 becomes the Failure() of all ranks; until then this rank's Failure()
  // is `line`.
  void Fail(std::string line);
  std::optional<std::string> Failure() const;  // one atomic load if there is no failure

  // Callbacks run on the service thread, one at a time. They must be quick, because this rank's
  // heartbeats wait for them; on rank 0, the heartbeats of all ranks wait. A callback may call
  // Post, Doing, Fail and Failure. A thread that sets a callback must not hold a lock that a
  // callback takes. Setting null removes a callback; once the setting call has returned, the
  // callback does not run any more. Records that arrive before the first call of OnPost are kept;
  // that call delivers them on the calling thread, so OnGather must be set before OnPost.
  void OnPost(std::function<void(int group_rank, std::string_view record)> heard);
  // `heard` is called when another rank of the group has come to its gather with this `number`
  // (from 1). The calls of `heard` and the posts of that rank arrive in order. So this rank notices
  // if one rank gathers while another posts.
  void OnGather(std::function<void(int group_rank, uint64_t number)> heard);
  // `heard` is called when a rank of the job has left, with that rank's last text. Ranks that do
  // not wait for that rank continue.
  void OnLeave(std::function<void(int rank, std::string_view last)> heard);
  // `heard` is called once when the job has failed, with the job's final line. If the job has
  // already failed, `heard` is called immediately.
  void OnFailure(std::function<void(std::string_view line)> heard);

  // Tells the other ranks that this rank leaves, and sends them the text `last`, such as the rank's
  // final numbers. Waits until all ranks of the job have left, but at most for times.leaving. Rank
  // 0 passes on the messages of other groups, so it waits longer while their ranks have acted
  // within times.timeout. From now on a closed connection is not a failure, but a gather that still
  // waits for this rank fails. Returns the last text of each rank, or none for a rank that has not
  // left. The caller must not hold a lock that a callback takes. Later calls only return the texts.
  std::vector<std::optional<std::string>> Leave(std::string_view last);

 private:
  // The facts that this rank knows about one rank of the job. In the entry of this rank itself,
  // only `place`, `gathers` and `last` are used.
  struct Peer {
    Membership place;
    std::string doing;
    std::deque<std::string> contributions;  // arrived, but not yet taken by a gather
    uint64_t gathers = 0;                   // the number of the rank's latest gather
    std::optional<std::string> last;        // set once the rank has left
  };

  explicit Ranks(const Meeting& meeting);
  bool Forked() const;
  bool OnServiceThread() const;
  Status Join();
  Status FailToMeet(const std::string& line);

  // Returns whether this rank may post `bytes` bytes now. Fails the job if `bytes` is more than
  // `most`.
  bool MayPost(size_t bytes, size_t most);
  // Puts a frame into the outbox. If the outbox is full, waits, and fails the job after
  // times.timeout. Returns false if the job has failed or the service thread has ended.
  bool Tell(FrameKind kind, std::string_view body);
  void SetFailure(const std::string& line, bool of_the_job);
  // Returns the job's line as soon as rank 0 has sent it. If that line has not come after kVerdict,
  // returns this rank's own line.
  std::string FailureText() const;
  // Returns the result of this rank's gather: all contributions, or an error. Returns none if the
  // gather must still wait.
  std::optional<Result<std::vector<std::string>>> GatherResult(std::string_view mine,
                                                               std::string_view doing);
  std::string NameWithDoingLocked(int rank) const UCUDNN_REQUIRES(mutex_);
  // Names the ranks that have not come to this rank's gather, with the present action of each.
  std::string Awaited() const;
  bool AllHaveLeft() const;
  // For rank 0: names the ranks of other groups that have not left; empty if there are none.
  std::string ServedGroups() const;
  // For rank 0, which called Leave at the time `since`: returns whether the ranks of other groups
  // have not acted for times.timeout.
  bool OthersStandStill(Clock::time_point since) const;
  Status HasLeft(std::string_view doing) const;

  // The following functions run on the service thread. Before that thread exists, Join calls
  // ServeOnce.
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
  Alarm news_;  // raised at every change for which Gather or Leave may wait
  std::atomic<bool> failed_ = false;
  std::atomic<bool> stop_ = false, ended_ = false, finished_ = false, leaving_ = false;

  Mutex gathering_;  // held by the thread that gathers
  mutable Mutex mutex_;
  std::vector<Peer> peers_ UCUDNN_GUARDED_BY(mutex_);  // by rank
  std::vector<int> group_ UCUDNN_GUARDED_BY(mutex_);   // ranks by group rank; empty before Started
  std::string failure_ UCUDNN_GUARDED_BY(mutex_);
  bool failure_is_the_jobs_ UCUDNN_GUARDED_BY(mutex_) = false;
  std::string doing_ UCUDNN_GUARDED_BY(mutex_);
  bool doing_told_ UCUDNN_GUARDED_BY(mutex_) = false;
  // True while this rank waits in a gather whose purpose it has sent.
  bool in_gather_ UCUDNN_GUARDED_BY(mutex_) = false;
  bool unreachable_ UCUDNN_GUARDED_BY(mutex_) = false;

  Listeners listeners_;

  // The members from here to group_ranks_ are used by the service thread only.
  std::unique_ptr<Link> link_;
  Hub* hub_ = nullptr;  // the link_ of rank 0; null on other ranks
  std::vector<char> outgoing_;
  size_t sent_ = 0;  // bytes of outgoing_ that were sent
  std::vector<pollfd> wait_;
  std::string beat_;
  Clock::time_point last_beat_;
  Clock::time_point last_taken_;  // when frames were last taken from the outbox
  std::vector<int> group_ranks_;  // group rank of each rank; -1: in another group

  std::unique_ptr<std::thread> thread_;
  std::atomic<std::thread::id> service_;  // empty until the service thread runs
};

}  // namespace ucudnn::transport
