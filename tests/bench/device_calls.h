// Counts what libucudnn asks of the CUDA driver, of NCCL and of the heap, in a program that is
// linked with device_calls.cpp. That file replaces dlsym, by which libucudnn finds the driver and
// NCCL, for libucudnn alone, and malloc and its kin. Sanitizer builds replace both themselves and
// cannot use it.
#pragma once

namespace ucudnn::bench {

// Counts of all threads so far: bytes of messages and reductions, and numbers of calls. Over the
// transport loopback a message is a copy to or from the host.
struct DeviceCalls {
  long sends = 0, sent_bytes = 0;
  long receives = 0, received_bytes = 0;
  long reductions = 0, reduced_bytes = 0;  // NCCL's, and what each rank sums there
  long copies = 0;                         // within the device
  long fills = 0;
  long events = 0, waits = 0;  // recorded or written; waited for by streams
  long host_functions = 0;
  long allocations = 0;          // called from libucudnn
  long calling_allocations = 0;  // of these, by the calling thread

  DeviceCalls operator-(const DeviceCalls& before) const;
};

DeviceCalls Counted();

// From now on the calls counted above return at once and do nothing, so that what remains of a call
// is libucudnn's own time. The heap is not affected. REQUIRES: nothing is enqueued.
void LeaveOutDevice();

}  // namespace ucudnn::bench
