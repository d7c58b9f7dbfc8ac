// What the stand-ins share among themselves and with tests: version node HOSTGPU_PRIVATE of the
// stand-in libcuda.so.1. Not CUDA; an application never sees it. All functions are thread-safe.
#pragma once

#include <cstddef>

extern "C" {

// The readable and writable host address behind a device address (device addresses themselves fault
// when the host dereferences them). Null when the address is in no live allocation.
void* hostgpuHostAlias(const void* device_address);

// Bytes from a device address to the end of its allocation; 0 when it is in no live allocation.
size_t hostgpuBytesFrom(const void* device_address);

// For a stand-in whose peers in other processes read this one's device memory: a new descriptor
// (close-on-exec) of the file that holds all memory of `device` and keeps its size; -1 without one.
int hostgpuDeviceFile(int device);
// Where in that file of `device` a device address is; SIZE_MAX when it is in no live allocation of
// that device's memory.
size_t hostgpuDeviceOffset(int device, const void* device_address);

// What a stand-in has a stream do. Captured into a graph it runs at every replay, at two at once
// where two graphs hold it.
struct hostgpuWork {
  void (*run)(void* argument);
  void (*release)(void* argument);  // once, when it will not run again; may be null
  void* argument;
  const void* const* uses;  // addresses of the device memory it works on: a graph that outlives
  size_t use_count;         // them is refused at its launch
};

// Runs `work` on `stream` (a CUstream or cudaStream_t, the default streams' handles included) in
// stream order, or records it where the stream captures, and returns at once. The stream is
// resolved in the calling thread's current context; a thread without one gets the primary context
// of device 0, as a runtime call would. Fails (0), with the argument released, without a device,
// with an unknown stream, when a capture forbids it, or when called from a host function.
int hostgpuEnqueue(void* stream, const struct hostgpuWork* work);

// Makes `work` a node of `graph` (a CUgraph or cudaGraph_t) that waits for nothing. `kernel` tells
// what is run from what it is run with. Fails (0), with the argument released, with an unknown
// graph or when called from a host function.
int hostgpuAddToGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);
// From now on the only node of `graph`, made by hostgpuAddToGraph with this `kernel`, does `work`;
// executable graphs do what they did. Fails like that, and with any other graph.
int hostgpuUpdateInGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);

// Fault injection. Sites: "alloc" (device memory, of pools too), "pool" (cuMemPoolCreate),
// "stream", "event", "synchronize" (waiting for a stream, an event or a context), "handle"
// (cudnnCreate), "query" (every cudnnGet/FindConvolution*, and finalizing engine heuristics),
// "plan" (finalizing an execution plan), "sum" (cudnnOpTensor), "convolution" (every convolution
// call and every execution of a plan that has one), "native" (populating or updating a CUDA graph
// with such a plan). The k-th occurrence (1 = next) at `site` from
// now on fails with the real library's error for exhausted resources (of synchronising: for a
// failed launch); 0 only resets the count. HOSTGPU_FAULT=site:k does the same at start.
void hostgpuInjectFault(const char* site, long kth);
// Occurrences at `site` since the last hostgpuInjectFault on it (or since start).
long hostgpuFaultCount(const char* site);
// For the stand-ins: counts an occurrence and tells whether it is the one to fail.
int hostgpuFaultDue(const char* site);

// What the time between two events is told as: the timer gets when they happened (CLOCK_MONOTONIC,
// ns) and gives milliseconds. Null: as it was.
typedef float (*hostgpuTimer)(long long from_ns, long long to_ns);
void hostgpuSetTimer(hostgpuTimer timer);

}  // extern "C"
