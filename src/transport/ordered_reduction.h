// All-reduce made of exchanges and additions. Each rank sums one part of the numbers, in the order
// of the ranks, and sends the sum to all others. Every rank therefore has the same bits with every
// transport. Thread-compatible.
#pragma once

#include <vector>

#include "base/status.h"
#include "cuda/resources.h"
#include "transport/channel.h"

namespace ucudnn::transport {

class OrderedReduction {
 public:
  explicit OrderedReduction(const ChannelSetup& setup);

  // Allocates scratch for reductions of up to `bytes`. The context must be current.
  Status Reserve(size_t bytes);
  size_t device_bytes() const { return scratch_.size(); }
  // Returns the largest reduction for which Reserve made scratch; a larger one goes in pieces,
  // which need no more than kReductionPieceBytes.
  size_t room() const { return piece_bytes_; }
  bool HasRoomFor(size_t bytes) const {
    return piece_bytes_ > 0 && ReductionScratchBytes(bytes) <= piece_bytes_;
  }

  // Returns the largest message in reductions of up to `bytes`.
  static size_t LargestMessage(size_t bytes, int size);

  // Channel::AllReduce by `channel`'s exchanges. The context must be current.
  Status Run(Channel& channel, CUdeviceptr data, size_t count, Element element, CUstream stream);

 private:
  struct Part {
    size_t begin, bytes;
  };
  // Returns the part of a piece of `bytes` that rank `rank` sums.
  Part PartOf(int rank, size_t bytes) const;
  Status RunPiece(Channel& channel, CUdeviceptr data, size_t bytes, Element element,
                  CUstream stream);
  // Collect and Spread are one rank's steps for a piece at `data`.
  Status Collect(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status Spread(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status FillWithNan(CUdeviceptr data, size_t bytes, CUstream stream) const;
  CUdeviceptr ScratchOf(int rank, size_t piece_bytes) const;

  const cuda::Driver& driver_;
  const int rank_, size_;
  const AddInto add_;
  const cuda::MemoryPool plain_;  // never created: plain allocations, in the order of no stream
  cuda::DeviceBuffer scratch_;
  size_t piece_bytes_ = 0;
  std::vector<Message> sends_, receives_;  // kept, so that calls in steady state allocate nothing
};

}  // namespace ucudnn::transport
