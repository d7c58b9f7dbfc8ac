// Rank 0's side of a job: it lets the ranks in, passes on what they say to each other, and finds
// out who is dead. One thread uses it, but for what says that it is for any.
// Strangers (wrong token, garbage, slow or silent ones) are dropped and never disturb the job.
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
  // Opens the door of `meeting` (rank 0's) and lets nobody in before it is served.
  static Result<std::unique_ptr<Hub>> Open(const Meeting& meeting);
  ~Hub() override;
  // REQUIRED once, before anything else is called. `sink` is the caller's and outlives this.
  void Attach(Sink& sink) { sink_ = &sink; }

  bool Takes() const override;
  void Send(FrameKind kind, std::string_view body) override;
  void Flush() override;
  // The others close their connections first, so that none misses what others said.
  bool Finished() const override;
  void Watch(std::vector<pollfd>& wait) override;
  void Serve(std::span<const pollfd> ready) override;
  void Close() override;

  // Who has not come yet, as "rank 1 and rank 3"; empty once all have.
  std::string Missing() const;
  // When a rank of another group than rank 0's last posted, gathered or left. For any thread.
  Clock::time_point others_acted() const { return others_acted_; }
  // Whether every rank has come and been told of the failure.
  bool AllTold() const;

 private:
  struct Member {
    Membership place;
    std::string process;
    std::unique_ptr<Connection> connection;  // null: this rank, or one that has not come
    std::string doing;
    Clock::time_point heard;
    bool came = false, left = false;
    int slot = -1;  // of its connection in what Watch appended
  };

  Hub(const Meeting& meeting, Door door);

  void Admit(Arrival arrival);
  void AdmitMember(const Hello& hello, std::unique_ptr<Connection> connection);
  void Refuse(Connection& connection) const;
  void Start();
  // The groups that the greetings say, or why they make no sense.
  Status CheckGroups() const;
  void TellWhoIsMissing();
  // Tells the user that ranks are missing and somebody with another token has come: most likely
  // one of them, but it may be anybody, so the job goes on waiting.
  void TellOfOtherTokens(Clock::time_point now);
  void ServeMember(int rank, Clock::time_point now);
  void Route(int from, const Frame& frame);
  void RouteToOne(const Member& sender, std::string_view body);
  void Deliver(int to, const Frame& frame);
  // Whether others of the group of `from` are so far behind that nothing more is taken from it.
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
