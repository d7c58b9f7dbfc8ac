// Counts calls that libucudnn makes to the CUDA driver and to NCCL, and its heap allocations, in a
// program that is linked with device_calls.cpp. DeviceCalls lists what is counted. device_calls.cpp
// replaces dlsym, by which libucudnn finds the driver and NCCL; other libraries get the functions
// that they ask for. allocation_count.cpp replaces malloc. Sanitizer builds cannot use this, since
// sanitizers replace dlsym and malloc themselves.
#pragma once

namespace ucudnn::bench {

// Counts since the program started, of all threads. Over the transport loopback, sends and receives
// are copies to and from the host.
struct DeviceCalls {
  long sends = 0, sent_bytes = 0;
  long receives = 0, received_bytes = 0;
  // `reductions` counts calls of ncclAllReduce, `reduced_bytes` the bytes that each rank gives
  // them.
  long reductions = 0, reduced_bytes = 0;
  long copies = 0;  // the number of copies within the device
  long fills = 0;
  // `events` counts recorded events and written words, `waits` the waits of streams for either.
  long events = 0, waits = 0;
  long host_functions = 0;
  long allocations = 0;          // the number of allocations by libucudnn's code
  long calling_allocations = 0;  // the number of these that the calling thread made

  DeviceCalls operator-(const DeviceCalls& before) const;
};

DeviceCalls Counted();

// From now on the functions of the driver and of NCCL that are counted above return at once and do
// nothing, so that only libucudnn's own time remains. Heap functions still work. REQUIRES: no work
// is enqueued on the device.
void LeaveOutDevice();

}  // namespace ucudnn::bench
