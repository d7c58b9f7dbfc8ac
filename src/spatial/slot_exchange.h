// What each of some ranks tells all others: a message of one size, which lies in a slot for each of
// them, the rank's own among them. Made once; running it allocates nothing.
#pragma once

#include <cuda.h>

#include <vector>

#include "base/status.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class SlotExchange {
 public:
  // `ranks` are numbers in the group, `own` this rank's place among them.
  SlotExchange(std::vector<int> ranks, size_t own, size_t slot_bytes, size_t message_bytes);

  size_t size() const { return ranks_.size(); }
  size_t slot_place(size_t rank) const { return rank * slot_bytes_; }
  size_t slots_bytes() const { return size() * slot_bytes_; }
  size_t message_bytes() const { return size() > 1 ? message_bytes_ : 0; }
  // That this rank receives, and as many that it sends.
  uint64_t received_bytes() const { return (size() - 1) * message_bytes_; }

  // Enqueues: sends what the caller's stream has put into the own slot of the buffer, and holds
  // that stream back until all others' messages lie in theirs. One that never comes is NaN, and so
  // is what is sent where `has_own` is false: the rank could not make it.
  Status Run(const KernelCall& call, bool has_own, ExchangeResources& device,
             transport::Channel& channel);

 private:
  const std::vector<int> ranks_;
  const size_t own_, slot_bytes_, message_bytes_;
  std::vector<transport::Message> sends_, receives_;
};

}  // namespace ucudnn::spatial
