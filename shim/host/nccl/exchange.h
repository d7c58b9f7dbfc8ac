// One running operation of one rank: messages are offered and taken as they come, in any order
// between different ranks, so no group waits for itself.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/operation.h"

namespace hostgpu::nccl {

class Exchange {
 public:
  Exchange(Communicator& communicator, const Operation& operation);
  // Runs until everything is done, the communicator is given up, or an awaited rank is lost.
  // Received data is written completely or not at all.
  Outcome Run();

 private:
  enum class Step { kWaiting, kOffered, kStaged, kDone };
  struct Sending {
    Step step = Step::kWaiting;
    uint64_t number = 0;  // number of its message on the channel
  };
  struct Receiving {
    Step step = Step::kWaiting;
    std::vector<const char*> sources;  // by index in Incoming::from; null until offered
    int64_t due_ns = 0;                // when the last one has been transferred completely
    size_t staged_at = 0;              // place in the communicator's scratch
  };

  // Each function does what can be done now. `moved_` tells whether something was done, `error_`
  // what failed.
  void Advance();
  void AdvanceOut(size_t i);
  void AdvanceIn(size_t i);
  bool Arrive(size_t i);
  const char* SourceOf(const Incoming& incoming, int from);
  void Take(size_t i);
  void Finish(size_t i);

  bool Done() const;
  bool AllRead(int call) const;
  // The error of the first awaited rank that is lost.
  Outcome LostPeer(Communicator::Look look) const;
  // Returns whether an earlier message occupies the channel; if not, this message occupies it from
  // now on.
  bool Busy(std::vector<char>& channels, Kind kind, int peer);

  Communicator& communicator_;
  const Operation& operation_;
  const Board& board_;
  const int64_t begin_ns_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::vector<char> out_busy_, in_busy_;  // by kind and peer, in one pass of Advance
  int64_t due_ns_ = 0;                    // the next time at which something is due
  bool moved_ = false;
  Outcome error_;
};

}  // namespace hostgpu::nccl
