// Functions that the stand-ins and the tests call in the stand-in libcuda.so.1, under the version
// node HOSTGPU_PRIVATE. They do not belong to CUDA, so applications do not see them. All functions
// are thread-safe.
#pragma once

#include <cstddef>

extern "C" {

// Returns the readable and writable host address of the memory at a device address; a device
// address itself faults when the host dereferences it. Returns null if the address is in no live
// allocation.
void* hostgpuHostAlias(const void* device_address);

// Returns the number of bytes from a device address to the end of its allocation; 0 if the address
// is in no live allocation.
size_t hostgpuBytesFrom(const void* device_address);

// Returns a new descriptor (close-on-exec) of the file that contains all memory of `device`; -1 if
// there is none. The file never changes its size. A stand-in passes the descriptor to other
// processes that read this process's device memory.
int hostgpuDeviceFile(int device);
// Returns the offset of a device address in the file of `device`; SIZE_MAX if the address is in no
// live allocation of that device.
size_t hostgpuDeviceOffset(int device, const void* device_address);

// Work that a stand-in gives to a stream. If a capture records it in a graph, it runs at every
// launch of the graph. It may run twice at the same time if two graphs contain it.
struct hostgpuWork {
  void (*run)(void* argument);
  void (*release)(void* argument);  // called once, when `run` will not be called again; may be null
  void* argument;
  // Addresses of the device memory that the work uses. A graph whose memory has been freed is
  // refused at its launch.
  const void* const* uses;
  size_t use_count;
};

// Runs `work` on `stream` in stream order, or records it if the stream is capturing; returns
// without waiting. `stream` is a CUstream or cudaStream_t, or a handle of a default stream. Such a
// handle means the default stream of the calling thread's current context. A thread without a
// context gets the primary context of device 0, as in a runtime call. Returns 0, and releases the
// argument, if there is no device, if the stream is unknown, if a capture forbids the call, or if a
// host function makes it.
int hostgpuEnqueue(void* stream, const struct hostgpuWork* work);

// Adds `work` to `graph` (a CUgraph or cudaGraph_t) as a node without dependencies. `kernel`
// identifies the function that the node runs, whatever its arguments. Returns 0, and releases the
// argument, if the graph is unknown or a host function makes the call.
int hostgpuAddToGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);
// Replaces the work of the only node of `graph`, which hostgpuAddToGraph added with the same
// `kernel`. Graphs that were made executable before do not change. Fails as hostgpuAddToGraph does,
// and if `graph` does not consist of such a node.
int hostgpuUpdateInGraph(void* graph, const struct hostgpuWork* work, unsigned long long kernel);

// Injects a fault: from now on, the k-th occurrence (1 = the next) at `site` fails with the real
// library's error for exhausted resources; at "synchronize" it fails with the error of a failed
// launch. With kth = 0 no fault is injected, and the count is reset. HOSTGPU_FAULT=site:k does the
// same when the process starts.
//
// The sites are "alloc" (device memory, also of pools), "pool" (cuMemPoolCreate), "stream",
// "event", "synchronize" (waiting for a stream, an event or a context), "handle" (cudnnCreate),
// "query" (every cudnnGet/FindConvolution*, and finalizing engine heuristics), "plan" (finalizing
// an execution plan), "sum" (cudnnOpTensor), "convolution" (every convolution call and every
// execution of a plan with a convolution) and "native" (populating or updating a CUDA graph with
// such a plan).
void hostgpuInjectFault(const char* site, long kth);
// Returns the number of occurrences at `site` since the last hostgpuInjectFault for it, or since
// the process started.
long hostgpuFaultCount(const char* site);
// Counts an occurrence and returns whether it must fail. The stand-ins call this.
int hostgpuFaultDue(const char* site);

// Sets the function that computes the time between two events. It gets the times at which the
// events happened (CLOCK_MONOTONIC, or processor time with HOSTGPU_CLOCK=processor; in ns), and
// returns milliseconds. Null restores the default.
typedef float (*hostgpuTimer)(long long from_ns, long long to_ns);
void hostgpuSetTimer(hostgpuTimer timer);

}  // extern "C"
