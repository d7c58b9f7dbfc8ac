// What libucudnn asks of the CUDA driver, of NCCL and of the heap, counted inside a program that is
// linked with device_calls.cpp: that replaces dlsym, by which libucudnn finds the driver and NCCL,
// for libucudnn alone, and malloc and its kin. Not for sanitizer builds, which have both replaced.
#pragma once

namespace ucudnn::bench {

// By all threads so far. Of messages and reductions the bytes, of the others how many. Over the
// transport loopback a message is a copy to or from the host.
struct DeviceCalls {
  long sends = 0, sent_bytes = 0;
  long receives = 0, received_bytes = 0;
  long reductions = 0, reduced_bytes = 0;  // of NCCL, and of what each rank sums there
  long copies = 0;                         // within the device
  long fills = 0;
  long events = 0, waits = 0;  // recorded and written; waited for by streams
  long host_functions = 0;
  long allocations = 0;          // whose caller is libucudnn
  long calling_allocations = 0;  // of them, by the thread that asks

  DeviceCalls operator-(const DeviceCalls& before) const;
};

DeviceCalls Counted();

// From now on what is counted above is answered at once, and not done: what remains of a call is
// libucudnn's own time. The heap stays. REQUIRES: nothing is enqueued.
void LeaveOutDevice();

}  // namespace ucudnn::bench
