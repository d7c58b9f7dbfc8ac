// Functions that the stand-ins share with each other and with tests: version node HOSTGPU_PRIVATE
// of the stand-in libcuda.so.1. It is no part of CUDA; an application never sees it. All functions
// are thread-safe.
#pragma once

#include <cstddef>

extern "C" {

// Returns the readable and writable host address behind a device address (device addresses
// themselves fault when the host dereferences them). Null if the address is in no live allocation.
void* hostgpuHostAlias(const void* device_address);

// Returns the bytes from a device address to the end of its allocation; 0 if it is in no live
// allocation.
size_t hostgpuBytesFrom(const void* device_address);

// Returns a new descriptor (close-on-exec) of the file that holds all memory of `device` and keeps
// its size, or -1 if there is none. A stand-in needs it if its peers in other processes read this
// process's device memory.
int hostgpuDeviceFile(int device);
// Returns the offset of a device address in that file of `device`; SIZE_MAX if it is in no live
// allocation of that device's memory.
size_t hostgpuDeviceOffset(int device, const void* device_address);

// Work that a stand-in gives to a stream. If it is captured into a graph, it runs at every replay,
// and concurrently if two graphs hold it.
struct hostgpuWork {
  void (*run)(void* argument);
  void (*release)(void* argument);  // once, when it will not run again; may be null
  void* argument;
  const void* const* uses;  // addresses of the device memory that it uses: a graph that outlives
  size_t use_count;         // them is refused at its launch
};

// Runs `work` on `stream` (a CUstream or cudaStream_t, the default streams' handles included) in
// stream order, or records it if the stream captures, and returns at once. The stream is resolved
// in the calling thread's current context; a thread without one gets the primary context of device
// 0, as a runtime call would. Fails (0), with the argument released, if there is no device, the
// stream is unknown, a capture forbids it, or a host function calls it.
int hostgpuEnqueue(void* stream, const struct hostgpuWork* work);

// Makes `work` a node of `graph` (a CUgraph or cudaGraph_t) that waits for nothing. `kernel`
// identifies the function, whatever its arguments. Fails (0), with the argument released, if the
// graph is unknown or a host function calls it.
int hostgpuAddToGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);
// Makes `work` the work of the only node of `graph`, which hostgpuAddToGraph made with this
// `kernel`; executable graphs do not change. Fails as hostgpuAddToGraph does, and for any other
// graph.
int hostgpuUpdateInGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);

// Fault injection. Sites: "alloc" (device memory, of pools too), "pool" (cuMemPoolCreate),
// "stream", "event", "synchronize" (waiting for a stream, an event or a context), "handle"
// (cudnnCreate), "query" (every cudnnGet/FindConvolution*, and finalizing engine heuristics),
// "plan" (finalizing an execution plan), "sum" (cudnnOpTensor), "convolution" (every convolution
// call and every execution of a plan that has one), "native" (populating or updating a CUDA graph
// with such a plan). The k-th occurrence (1 = next) at `site` from now on fails with the real
// library's error for exhausted resources (synchronising fails with the error of a failed launch);
// 0 only resets the count. HOSTGPU_FAULT=site:k does the same at start.
void hostgpuInjectFault(const char* site, long kth);
// Occurrences at `site` since the last hostgpuInjectFault on it (or since start).
long hostgpuFaultCount(const char* site);
// Called by the stand-ins: counts an occurrence and returns whether it must fail.
int hostgpuFaultDue(const char* site);

// Sets how the time between two events is computed: the timer gets the times when they happened
// (CLOCK_MONOTONIC, ns) and returns milliseconds. Null: restores the default.
typedef float (*hostgpuTimer)(long long from_ns, long long to_ns);
void hostgpuSetTimer(hostgpuTimer timer);

}  // extern "C"
