// Runs one operation of one rank. It offers and receives messages in whatever order the other ranks
// are ready, so the calls of a group cannot deadlock.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/operation.h"

namespace hostgpu::nccl {

class Exchange {
 public:
  Exchange(Communicator& communicator, const Operation& operation);
  // Returns when the operation is done, the communicator is given up, or an awaited rank is lost.
  // The data of a message is written completely or not at all.
  Outcome Run();

 private:
  enum class Step { kWaiting, kOffered, kStaged, kDone };
  struct Sending {
    Step step = Step::kWaiting;
    uint64_t number = 0;  // number of the message on its channel
  };
  struct Receiving {
    Step step = Step::kWaiting;
    // Addresses of the messages, by index in Incoming::from; null until offered.
    std::vector<const char*> sources;
    int64_t due_ns = 0;    // when the transfer of the last message ends
    size_t staged_at = 0;  // offset in the communicator's scratch memory
  };

  // These functions do what is possible without waiting. They set `moved_` if something was done,
  // and `error_` if something failed.
  void Advance();
  void AdvanceOut(size_t i);
  void AdvanceIn(size_t i);
  bool Arrive(size_t i);
  const char* SourceOf(const Incoming& incoming, int from);
  void Take(size_t i);
  void Finish(size_t i);

  bool Done() const;
  bool AllRead(int call) const;
  // Returns an error for the first awaited rank that is lost.
  Outcome LostPeer(Communicator::Look look) const;
  // Returns true if an earlier message of this pass occupies the channel. If not, marks the channel
  // as occupied by this message.
  bool Busy(std::vector<char>& channels, Kind kind, int peer);

  Communicator& communicator_;
  const Operation& operation_;
  const Board& board_;
  const int64_t begin_ns_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  // Channels occupied in this pass of Advance, by kind and peer.
  std::vector<char> out_busy_, in_busy_;
  int64_t due_ns_ = 0;  // the next time at which a transfer ends
  bool moved_ = false;
  Outcome error_;
};

}  // namespace hostgpu::nccl
