// An all-reduce that consists of exchanges and additions. Each rank sums one part of the numbers,
// in the order of the ranks, and sends the result to all other ranks. So every rank gets the same
// bits. The channels over peer copies and over loopback use it; the channel over NCCL does not.
// Thread-compatible.
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
  // Returns the bytes of the largest piece for which Reserve has allocated scratch. Larger
  // reductions are made in pieces of at most kReductionPieceBytes.
  size_t room() const { return piece_bytes_; }
  bool HasRoomFor(size_t bytes) const {
    return piece_bytes_ > 0 && ReductionScratchBytes(bytes) <= piece_bytes_;
  }

  // Returns the bytes of the largest message in reductions of up to `bytes`.
  static size_t LargestMessage(size_t bytes, int size);

  // Implements Channel::AllReduce by exchanges of `channel`. The context must be current.
  Status Run(Channel& channel, CUdeviceptr data, size_t count, Element element, CUstream stream);

 private:
  struct Part {
    size_t begin, bytes;
  };
  // Returns the part of a piece of `bytes` bytes that `rank` sums.
  Part PartOf(int rank, size_t bytes) const;
  Status RunPiece(Channel& channel, CUdeviceptr data, size_t bytes, Element element,
                  CUstream stream);
  // The two exchanges for a piece at `data`: in Collect each rank receives the other ranks' numbers
  // of its part; in Spread the ranks exchange the sums of the parts.
  Status Collect(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status Spread(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream);
  Status FillWithNan(CUdeviceptr data, size_t bytes, CUstream stream) const;
  CUdeviceptr ScratchOf(int rank, size_t piece_bytes) const;

  const cuda::Driver& driver_;
  const int rank_, size_;
  const AddInto add_;
  // This pool is never created in the driver, so buffers are allocated with cuMemAlloc, which is
  // not ordered on any stream.
  const cuda::MemoryPool plain_;
  cuda::DeviceBuffer scratch_;
  size_t piece_bytes_ = 0;
  // Kept between calls, so that only the first calls allocate memory.
  std::vector<Message> sends_, receives_;
};

}  // namespace ucudnn::transport
