// Tests which calls a capture forbids, against the driver's documented rules. Makes every call in
// each mode of the capture and in each mode of the calling thread. The calling thread is first the
// capturing thread, and then another one.
#include <string>
#include <utility>

#include "tests/unit/host/cuda/capturing.h"

namespace hostgpu::testing {
namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};
constexpr const char* kModeNames[] = {"global", "thread_local", "relaxed"};

// Holds the objects that the calls work on. They are made before the capture begins.
struct Objects {
  Stream capturing, idle;
  Event event{cudaEventDisableTiming};  // recorded outside of the capture
  CUmemoryPool pool = nullptr;
  CUdeviceptr memory = 0, spare = 0;
  void* pinned = nullptr;
  char host[64] = {};
};

struct PreparedCall {
  const char* name;
  CUresult (*run)(Objects&);
};

// The calls that the driver's documentation names "potentially unsafe". The modes of the capture
// and of the calling thread determine whether a capture forbids them.
const PreparedCall kUnsafe[] = {
    {"cuMemAlloc", [](Objects& o) { return cuMemAlloc(&o.memory, 64); }},
    {"cuMemFree",
     [](Objects& o) {
       const CUresult result = cuMemFree(o.spare);
       if (result == CUDA_SUCCESS) o.spare = 0;
       return result;
     }},
    {"cuMemHostAlloc", [](Objects& o) { return cuMemHostAlloc(&o.pinned, 64, 0); }},
    {"cuMemHostRegister",
     [](Objects& o) {
       const CUresult result = cuMemHostRegister(o.host, sizeof o.host, 0);
       return result == CUDA_SUCCESS ? cuMemHostUnregister(o.host) : result;
     }},
    {"cuMemcpyHtoD", [](Objects& o) { return cuMemcpyHtoD(o.spare, o.host, sizeof o.host); }},
    {"cuMemcpyDtoH", [](Objects& o) { return cuMemcpyDtoH(o.host, o.spare, sizeof o.host); }},
    {"cuEventQuery", [](Objects& o) { return cuEventQuery(o.event); }},
    {"cuEventSynchronize", [](Objects& o) { return cuEventSynchronize(o.event); }},
};

// A capture forbids these calls in every mode, because they concern the capturing stream or its
// context.
const PreparedCall kConflicting[] = {
    {"cuStreamSynchronize", [](Objects& o) { return cuStreamSynchronize(o.capturing); }},
    {"cuStreamQuery", [](Objects& o) { return cuStreamQuery(o.capturing); }},
    {"cuStreamDestroy", [](Objects& o) { return cuStreamDestroy(o.capturing); }},
    {"cuCtxSynchronize", [](Objects&) { return cuCtxSynchronize(); }},
    {"cuMemAllocFromPoolAsync",
     [](Objects& o) { return cuMemAllocFromPoolAsync(&o.memory, 64, o.pool, o.capturing); }},
    {"cuMemFreeAsync", [](Objects& o) { return cuMemFreeAsync(o.spare, o.capturing); }},
};

// These calls are allowed during any capture.
const PreparedCall kHarmless[] = {
    {"cuStreamSynchronize of another", [](Objects& o) { return cuStreamSynchronize(o.idle); }},
    {"cuStreamQuery of another", [](Objects& o) { return cuStreamQuery(o.idle); }},
    {"cuMemsetD8Async elsewhere",
     [](Objects& o) { return cuMemsetD8Async(o.spare, 1, 64, o.idle); }},
    {"cuMemAllocFromPoolAsync elsewhere",
     [](Objects& o) {
       const CUresult result = cuMemAllocFromPoolAsync(&o.memory, 64, o.pool, o.idle);
       if (result != CUDA_SUCCESS) return result;
       return cuMemFreeAsync(std::exchange(o.memory, 0), o.idle);
     }},
    {"cuMemGetInfo",
     [](Objects&) {
       size_t free_bytes = 0, total_bytes = 0;
       return cuMemGetInfo(&free_bytes, &total_bytes);
     }},
    {"cuEventCreate",
     [](Objects&) {
       CUevent event = nullptr;
       const CUresult result = cuEventCreate(&event, 0);
       return result == CUDA_SUCCESS ? cuEventDestroy(event) : result;
     }},
    {"cuStreamCreate",
     [](Objects&) {
       CUstream stream = nullptr;
       const CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
       return result == CUDA_SUCCESS ? cuStreamDestroy(stream) : result;
     }},
    {"cuEventRecord elsewhere", [](Objects& o) { return cuEventRecord(o.event, o.idle); }},
    {"the legacy stream", [](Objects& o) { return cuMemsetD8Async(o.spare, 1, 64, nullptr); }},
};

// Returns true if the documented rule forbids unsafe calls to a thread in `thread_mode`.
// `same_thread` is true for the capturing thread.
bool Forbidden(CUstreamCaptureMode capture_mode, CUstreamCaptureMode thread_mode,
               bool same_thread) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (same_thread) return capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

class CaptureModes : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    ASSERT_OK(cuEventRecord(objects_.event, objects_.idle));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    ASSERT_OK(cuMemPoolCreate(&objects_.pool, &properties));
  }
  void TearDown() override {
    EXPECT_OK(cuMemPoolDestroy(objects_.pool));
    HostCuda::TearDown();
  }

  // Begins a capture in `capture_mode`, and makes `call` on a thread in `thread_mode`: on the
  // capturing thread if `same_thread`, otherwise on another thread. Expects the result `expected`.
  // Also expects that the call invalidated the capture if it was refused, and only then.
  void Check(const PreparedCall& call, CUstreamCaptureMode capture_mode,
             CUstreamCaptureMode thread_mode, bool same_thread, CUresult expected) {
    SCOPED_TRACE(std::string(call.name) + ", capture " + kModeNames[capture_mode] + ", thread " +
                 kModeNames[thread_mode] + (same_thread ? ", its own" : ", another"));
    ASSERT_OK(cuMemAlloc(&objects_.spare, 64));
    ASSERT_OK(cuStreamBeginCapture(objects_.capturing, capture_mode));
    const auto run = [&] {
      CUstreamCaptureMode mode = thread_mode;
      EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(call.run(objects_), expected);
      EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(mode, thread_mode);
    };
    if (same_thread) {
      run();
    } else {
      OnAnotherThread(run);
    }
    EXPECT_EQ(StatusOf(objects_.capturing), expected == CUDA_SUCCESS
                                                ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                : CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(End(objects_.capturing),
              expected == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(StatusOf(objects_.capturing), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_OK(cuMemFree(std::exchange(objects_.spare, 0)));
    EXPECT_OK(cuMemFree(std::exchange(objects_.memory, 0)));
    if (objects_.pinned) {
      EXPECT_OK(cuMemFreeHost(std::exchange(objects_.pinned, nullptr)));
    }
  }

  template <class Expected>
  void CheckAll(const PreparedCall& call, Expected expected) {
    for (const CUstreamCaptureMode capture_mode : kModes) {
      for (const CUstreamCaptureMode thread_mode : kModes) {
        for (const bool same_thread : {true, false}) {
          Check(call, capture_mode, thread_mode, same_thread,
                expected(capture_mode, thread_mode, same_thread));
        }
      }
    }
  }

  Objects objects_;
};

TEST_F(CaptureModes, DecideOnUnsafeCalls) {
  for (const PreparedCall& call : kUnsafe) {
    CheckAll(call, [](auto capture_mode, auto thread_mode, bool same_thread) {
      return Forbidden(capture_mode, thread_mode, same_thread)
                 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                 : CUDA_SUCCESS;
    });
  }
}

TEST_F(CaptureModes, NeverAllowWhatConflictsWithTheCapture) {
  for (const PreparedCall& call : kConflicting) {
    CheckAll(call, [](auto, auto, bool) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; });
  }
}

TEST_F(CaptureModes, AlwaysAllowWhatHasNothingToDoWithTheCapture) {
  for (const PreparedCall& call : kHarmless) {
    CheckAll(call, [](auto, auto, bool) { return CUDA_SUCCESS; });
  }
}

TEST_F(CaptureModes, BelongToTheThread) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  OnAnotherThread([] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  });
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  mode = static_cast<CUstreamCaptureMode>(3);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CaptureModes, OneUnsafeCallSpoilsEveryGlobalCapture) {
  ASSERT_OK(cuStreamBeginCapture(objects_.capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OnAnotherThread([&] {
    EXPECT_OK(cuStreamBeginCapture(objects_.idle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(End(objects_.idle), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
  EXPECT_EQ(End(objects_.capturing), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureModes, SynchronisingAnotherDeviceIsHarmless) {
  ASSERT_OK(cuStreamBeginCapture(objects_.capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cudaSetDevice(1));
  EXPECT_OK(cuCtxSynchronize());
  ASSERT_OK(cudaSetDevice(0));
  EXPECT_EQ(End(objects_.capturing), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hostgpu::testing
