// Counts what libucudnn does in a program that is linked with device_calls.cpp: its calls to the
// CUDA driver and to NCCL, and its heap allocations. DeviceCalls lists what is counted. libucudnn
// finds the driver and NCCL by dlsym, which device_calls.cpp replaces; other libraries get the
// functions that they ask for. allocation_count.cpp replaces malloc. Sanitizer builds cannot use
// this file, since sanitizers replace dlsym and malloc themselves.
#pragma once

namespace ucudnn::bench {

// The numbers of calls and bytes since the program started, summed over all threads. With the
// transport loopback, copies to the host count as sends, and copies from the host as receives.
struct DeviceCalls {
  long sends = 0, sent_bytes = 0;
  long receives = 0, received_bytes = 0;
  // `reductions` counts calls of ncclAllReduce. `reduced_bytes` is the size of their input on this
  // rank.
  long reductions = 0, reduced_bytes = 0;
  long copies = 0;  // the number of copies within a device or between devices
  long fills = 0;
  // `events` counts cuEventRecord and cuStreamWriteValue32. `waits` counts the calls that make a
  // stream wait for an event or a value.
  long events = 0, waits = 0;
  long host_functions = 0;
  long allocations = 0;          // the number of allocations by libucudnn's code
  long calling_allocations = 0;  // the part of `allocations` that the calling thread made

  DeviceCalls operator-(const DeviceCalls& before) const;
};

DeviceCalls Counted();

// After this call, all functions of the driver and of NCCL that DeviceCalls counts return at once
// and do nothing, so that only libucudnn's own time remains. Heap functions still work. REQUIRES:
// no work is enqueued on the device.
void LeaveOutDevice();

}  // namespace ucudnn::bench
