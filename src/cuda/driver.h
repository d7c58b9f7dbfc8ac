// The CUDA driver as ucudnn uses it: a table of functions that are found at run time in
// libcuda.so.1, so that processes without CUDA can load libucudnn. child_graphs.cpp has another
// table. Thread-safe; read-only after the first call of GetDriver.
#pragma once

#include <cuda.h>

#define UCUDNN_DRIVER_FUNCTIONS(F) \
  F(cuCtxGetCurrent)               \
  F(cuCtxGetDevice)                \
  F(cuCtxGetId)                    \
  F(cuCtxPopCurrent)               \
  F(cuCtxPushCurrent)              \
  F(cuDeviceGet)                   \
  F(cuDeviceGetAttribute)          \
  F(cuDeviceGetCount)              \
  F(cuDeviceGetName)               \
  F(cuDeviceGetUuid)               \
  F(cuDevicePrimaryCtxRelease)     \
  F(cuDevicePrimaryCtxRetain)      \
  F(cuDriverGetVersion)            \
  F(cuEventCreate)                 \
  F(cuEventDestroy)                \
  F(cuEventElapsedTime)            \
  F(cuEventQuery)                  \
  F(cuEventRecord)                 \
  F(cuEventSynchronize)            \
  F(cuGetErrorName)                \
  F(cuInit)                        \
  F(cuMemAlloc)                    \
  F(cuMemAllocFromPoolAsync)       \
  F(cuMemFree)                     \
  F(cuMemFreeAsync)                \
  F(cuMemGetInfo)                  \
  F(cuMemPoolCreate)               \
  F(cuMemPoolDestroy)              \
  F(cuMemcpyDtoDAsync)             \
  F(cuMemcpyDtoHAsync)             \
  F(cuMemcpyHtoDAsync)             \
  F(cuMemsetD8Async)               \
  F(cuStreamCreate)                \
  F(cuStreamDestroy)               \
  F(cuStreamGetCtx)                \
  F(cuStreamGetId)                 \
  F(cuStreamIsCapturing)           \
  F(cuStreamSynchronize)           \
  F(cuStreamWaitEvent)             \
  F(cuThreadExchangeStreamCaptureMode)

// Functions for exchanging data between ranks (transport/, spatial/), not needed otherwise. A
// driver may lack them; their members are then null.
#define UCUDNN_DRIVER_EXCHANGE_FUNCTIONS(F) \
  F(cuCtxEnablePeerAccess)                  \
  F(cuCtxGetStreamPriorityRange)            \
  F(cuDeviceCanAccessPeer)                  \
  F(cuGraphRetainUserObject)                \
  F(cuLaunchHostFunc)                       \
  F(cuMemHostGetDevicePointer)              \
  F(cuMemHostRegister)                      \
  F(cuMemHostUnregister)                    \
  F(cuMemcpy3DAsync)                        \
  F(cuMemcpyPeerAsync)                      \
  F(cuMemsetD2D8Async)                      \
  F(cuStreamCreateWithPriority)             \
  F(cuStreamWaitValue32)                    \
  F(cuStreamWriteValue32)                   \
  F(cuUserObjectCreate)                     \
  F(cuUserObjectRelease)

// Functions for recording streams as a graph and launching the graph again
// (planner/multigrid/device), not needed otherwise. A driver may lack them; their members are then
// null.
#define UCUDNN_DRIVER_GRAPH_FUNCTIONS(F) \
  F(cuGraphDestroy)                      \
  F(cuGraphExecDestroy)                  \
  F(cuGraphInstantiateWithFlags)         \
  F(cuGraphLaunch)                       \
  F(cuStreamBeginCapture)                \
  F(cuStreamEndCapture)

namespace ucudnn::cuda {

struct Driver {
// cuda.h maps some names to versioned ones by macros (cuMemAlloc to cuMemAlloc_v2), so these
// members have the versioned names.
#define UCUDNN_MEMBER(name) decltype(&::name) name = nullptr;
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_EXCHANGE_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_GRAPH_FUNCTIONS(UCUDNN_MEMBER)
#undef UCUDNN_MEMBER
  // Declared with the signature of CUDA 12.0, because newer versions of cuda.h declare another
  // signature.
  CUresult (*cuStreamGetCaptureInfo)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                     const CUgraphNode**, size_t*) = nullptr;

  // Returns the name of a function of UCUDNN_DRIVER_EXCHANGE_FUNCTIONS that the driver lacks; null
  // if it has all.
  const char* MissingForExchange() const;
  // Returns the name of a function of UCUDNN_DRIVER_GRAPH_FUNCTIONS that the driver lacks; null if
  // it has all.
  const char* MissingForGraphs() const;
};

// Returns the table. Returns null if there is no driver (one log line of level kInfo says so), or
// if the driver lacks a function of UCUDNN_DRIVER_FUNCTIONS (one warning says so).
const Driver* GetDriver();

}  // namespace ucudnn::cuda
