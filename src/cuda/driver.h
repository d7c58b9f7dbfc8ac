// The CUDA driver as ucudnn uses it: a table of functions that are found at run time in
// libcuda.so.1, so that processes without CUDA can load the library. child_graphs.cpp has a table
// of its own. Thread-safe; read-only after the first call of GetDriver.
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

// Functions that are needed only to exchange data between ranks (transport/, spatial/). Null if a
// driver lacks them.
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

// Functions that record streams as a graph and launch it again (planner/multigrid/device). Null if
// a driver lacks them.
#define UCUDNN_DRIVER_GRAPH_FUNCTIONS(F) \
  F(cuGraphDestroy)                      \
  F(cuGraphExecDestroy)                  \
  F(cuGraphInstantiateWithFlags)         \
  F(cuGraphLaunch)                       \
  F(cuStreamBeginCapture)                \
  F(cuStreamEndCapture)

namespace ucudnn::cuda {

struct Driver {
// cuda.h defines some names as versioned ones (cuMemAlloc as cuMemAlloc_v2), so the members have
// the versioned names, too.
#define UCUDNN_MEMBER(name) decltype(&::name) name = nullptr;
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_EXCHANGE_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_GRAPH_FUNCTIONS(UCUDNN_MEMBER)
#undef UCUDNN_MEMBER
  // Has the signature of CUDA 12.0, because newer headers declare another one.
  CUresult (*cuStreamGetCaptureInfo)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                     const CUgraphNode**, size_t*) = nullptr;

  // Returns the name of a function of UCUDNN_DRIVER_EXCHANGE_FUNCTIONS that the driver lacks; null
  // if it has all.
  const char* MissingForExchange() const;
  // Returns the name of a function of UCUDNN_DRIVER_GRAPH_FUNCTIONS that the driver lacks; null if
  // it has all.
  const char* MissingForGraphs() const;
};

// Returns the table. Returns null if there is no driver, which one line of level kInfo says, or if
// the driver lacks a function that the table must have, of which one warning tells.
const Driver* GetDriver();

}  // namespace ucudnn::cuda
