// All-reduce out of exchanges and additions: each rank sums one part of the numbers, in the order
// of the ranks, and sends it to all others. So every rank has the same bits, which depend on no
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

  // Scratch for reductions of up to `bytes`. The context is current.
  Status Reserve(size_t bytes);
  size_t device_bytes() const { return scratch_.size(); }
  // The largest reduction that Reserve made scratch for; pieces of a larger one need no more than
  // kReductionPieceBytes.
  size_t room() const { return piece_bytes_; }
  bool HasRoomFor(size_t bytes) const {
    return piece_bytes_ > 0 && ReductionScratchBytes(bytes) <= piece_bytes_;
  }

  // The largest message in reductions of up to `bytes`.
  static size_t LargestMessage(size_t bytes, int size);

  // Channel::AllReduce by `channel`'s exchanges. The context is current.
  Status Run(Channel& channel, CUdeviceptr data, size_t count, Element element, CUstream stream);

 private:
  struct Part {
    size_t begin, bytes;
  };
  // What of a piece of `bytes` rank `rank` sums.
  Part PartOf(int rank, size_t bytes) const;
  Status RunPiece(Channel& channel, CUdeviceptr data, size_t bytes, Element element,
                  CUstream stream);
  // Both of them are one rank's part of a piece at `data`.
  Status Collect(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status Spread(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status FillWithNan(CUdeviceptr data, size_t bytes, CUstream stream) const;
  CUdeviceptr ScratchOf(int rank, size_t piece_bytes) const;

  const cuda::Driver& driver_;
  const int rank_, size_;
  const AddInto add_;
  const cuda::MemoryPool plain_;  // never created: allocations that no stream orders
  cuda::DeviceBuffer scratch_;
  size_t piece_bytes_ = 0;
  std::vector<Message> sends_, receives_;  // kept, so that steady calls allocate nothing
};

}  // namespace ucudnn::transport
