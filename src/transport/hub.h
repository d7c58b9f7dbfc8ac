// Rank 0's part of a job's connections: it admits the ranks, passes their messages on to each
// other, and finds out which ranks are dead. One thread at a time uses it, but any thread may call
// others_acted(). Strangers (connections with a wrong token, garbage, or no complete greeting in
// time) are dropped and never disturb the job.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/door.h"
#include "transport/hello.h"
#include "transport/link.h"
#include "transport/strangers.h"

namespace ucudnn::transport {

class Hub final : public Link {
 public:
  // Listens at the place of `meeting`, which must be the meeting of rank 0. No rank is admitted
  // before Serve is called.
  static Result<std::unique_ptr<Hub>> Open(const Meeting& meeting);
  ~Hub() override;
  // To be called once, before all other functions. The caller owns `sink`, which outlives this
  // object.
  void Attach(Sink& sink) { sink_ = &sink; }

  bool Takes() const override;
  void Send(FrameKind kind, std::string_view body) override;
  void Flush() override;
  // Returns true once all messages are sent and the other ranks have closed their connections. So
  // rank 0 closes last, and no rank misses another rank's messages.
  bool Finished() const override;
  void Watch(std::vector<pollfd>& wait) override;
  void Serve(std::span<const pollfd> ready) override;
  void Close() override;

  // Returns the ranks that have not come yet, as "rank 1 and rank 3"; empty when all have come.
  std::string Missing() const;
  // Returns the time at which a rank outside of rank 0's group last sent a frame other than
  // kHeartbeat and kDoing. Any thread may call this function.
  Clock::time_point others_acted() const { return others_acted_; }
  // Returns whether every rank has come and was told of the failure.
  bool AllTold() const;

 private:
  struct Member {
    Membership place;
    std::string process;
    std::unique_ptr<Connection> connection;  // null for this rank, and for a rank that has not come
    std::string doing;
    Clock::time_point heard;
    bool came = false, left = false;
    int slot = -1;  // index of its connection in the list to which Watch appended; -1: not in the
                    // list
  };

  Hub(const Meeting& meeting, Door door);

  void Admit(Arrival arrival);
  void AdmitMember(const Hello& hello, std::unique_ptr<Connection> connection);
  void Refuse(Connection& connection) const;
  void Start();
  // Checks that the groups in the ranks' greetings are consistent.
  Status CheckGroups() const;
  void TellWhoIsMissing();
  // Tells the user that ranks are missing and that a connection had another token. The connection
  // probably came from a missing rank. But any program may have opened it, so the job continues to
  // wait.
  void TellOfOtherTokens(Clock::time_point now);
  void ServeMember(int rank, Clock::time_point now);
  void Route(int from, const Frame& frame);
  void RouteToOne(const Member& sender, std::string_view body);
  void Deliver(int to, const Frame& frame);
  // Returns whether other ranks in the group of `from` are so far behind that no more frames are
  // accepted from `from`.
  bool GroupIsBehind(int from) const;
  bool SomebodyIsBehind() const;
  void Fail(const std::string& line);
  bool Flushed() const;
  void StopMeeting();

  const Meeting meeting_;
  const std::string token_;
  Sink* sink_ = nullptr;
  Strangers strangers_;
  std::vector<Member> members_;
  Hearing hearing_;
  Clock::time_point told_missing_;
  bool meeting_now_ = true, started_ = false, told_other_tokens_ = false;
  std::optional<std::string> failed_;
  std::atomic<Clock::time_point> others_acted_{Clock::time_point()};
};

}  // namespace ucudnn::transport
