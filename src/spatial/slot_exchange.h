// An exchange in which each of several ranks sends a message of the same size to all others. A
// buffer has a slot for each rank, including this one. Made once; running it allocates nothing.
#pragma once

#include <cuda.h>

#include <vector>

#include "base/status.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class SlotExchange {
 public:
  // `ranks` are numbers in the group; `own` is the index of this rank in `ranks`.
  SlotExchange(std::vector<int> ranks, size_t own, size_t slot_bytes, size_t message_bytes);

  size_t size() const { return ranks_.size(); }
  size_t slot_place(size_t rank) const { return rank * slot_bytes_; }
  size_t slots_bytes() const { return size() * slot_bytes_; }
  size_t message_bytes() const { return size() > 1 ? message_bytes_ : 0; }
  // Returns the bytes that this rank receives. It sends equally many bytes.
  uint64_t received_bytes() const { return (size() - 1) * message_bytes_; }

  // Enqueues the exchange: sends the message that the caller's stream has written to this rank's
  // slot. The caller's stream then waits until the messages of all other ranks are in their slots.
  // A message that never arrives is NaN. `has_own` is false if this rank could not make its
  // message; this rank then sends NaN.
  Status Run(const KernelCall& call, bool has_own, ExchangeResources& device,
             transport::Channel& channel);

 private:
  const std::vector<int> ranks_;
  const size_t own_, slot_bytes_, message_bytes_;
  std::vector<transport::Message> sends_, receives_;
};

}  // namespace ucudnn::spatial
