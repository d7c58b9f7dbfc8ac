// Tests which context a thread has, and how contexts are made, bound and destroyed.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

using ContextDeathTest = HostCuda;
class Contexts : public HostCuda {
 protected:
  // Runs `body` on a thread that has not called CUDA before.
  template <class Body>
  void OnFreshThread(Body body) {
    std::thread(body).join();
  }
};

TEST_F(Contexts, FreshThreadHasNoneForTheDriver) {
  OnFreshThread([] {
    CUcontext context = reinterpret_cast<CUcontext>(1);
    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT_EQ(context, nullptr);
    CUdeviceptr address = 0;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(Contexts, RuntimeCallBindsThePrimaryContextOfTheDefaultDevice) {
  OnFreshThread([] {
    void* pointer = nullptr;
    ASSERT_OK(cudaMalloc(&pointer, 64));
    CUdevice device = -1;
    EXPECT_OK(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 0);
    EXPECT_OK(cudaFree(pointer));
  });
}

// The last release destroys the context that was released, never a context that another thread
// makes meanwhile.
TEST_F(Contexts, WhoRetainsWhileTheLastReferenceGoesHasAContextOfItsOwn) {
  constexpr CUdevice kDevice = 1;
  constexpr int kRounds = 20000;
  ASSERT_OK(cuDevicePrimaryCtxReset(kDevice));  // drops the references of other tests
  const auto come_and_go = [] {
    for (int round = 0; round < kRounds; ++round) {
      CUcontext context = nullptr;
      CUstream stream = nullptr;
      ASSERT_OK(cuDevicePrimaryCtxRetain(&context, kDevice));
      ASSERT_OK(cuCtxSetCurrent(context));
      ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      ASSERT_OK(cuStreamSynchronize(stream));
      ASSERT_OK(cuStreamDestroy(stream));
      ASSERT_OK(cuCtxSetCurrent(nullptr));
      ASSERT_OK(cuDevicePrimaryCtxRelease(kDevice));
    }
  };
  std::thread first(come_and_go);
  std::thread second(come_and_go);
  first.join();
  second.join();
  CUcontext context = nullptr;  // stays retained, because the runtime still uses it
  EXPECT_OK(cuDevicePrimaryCtxRetain(&context, kDevice));
}

TEST_F(Contexts, AskingForTheDeviceBindsNothing) {
  OnFreshThread([] {
    int device = -1;
    EXPECT_OK(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
    CUcontext context = nullptr;
    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT_EQ(context, nullptr);
  });
}

TEST_F(Contexts, RuntimeFollowsTheDriversContext) {
  OnFreshThread([] {
    CUcontext second = nullptr;
    ASSERT_OK(cuDevicePrimaryCtxRetain(&second, 1));
    ASSERT_OK(cuCtxPushCurrent(second));
    int device = -1;
    EXPECT_OK(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
    CUcontext popped = nullptr;
    EXPECT_OK(cuCtxPopCurrent(&popped));
    EXPECT_EQ(popped, second);
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_OK(cuDevicePrimaryCtxRelease(1));
  });
}

TEST_F(Contexts, StreamTellsItsContextToAThreadWithoutOne) {
  const Stream stream(cudaStreamDefault);
  CUcontext expected = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&expected));
  OnFreshThread([&] {
    CUcontext context = nullptr;
    EXPECT_OK(cuStreamGetCtx(stream, &context));
    EXPECT_EQ(context, expected);
    EXPECT_EQ(cuStreamGetCtx(nullptr, &context), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(Contexts, EnqueueOfAStandInBindsOneToAFreshThread) {
  OnFreshThread([] {
    bool ran = false;
    ASSERT_EQ(Enqueue(
                  nullptr, [](void* flag) { *static_cast<bool*>(flag) = true; }, &ran),
              1);
    EXPECT_OK(cuStreamSynchronize(nullptr));
    EXPECT_TRUE(ran);
  });
}

TEST_F(Contexts, IdsDifferAndAreNewAfterAReset) {
  unsigned long long first = 0, second = 0, again = 0;
  ASSERT_OK(cuCtxGetId(nullptr, &first));
  ASSERT_OK(cudaSetDevice(1));
  ASSERT_OK(cudaFree(nullptr));
  ASSERT_OK(cuCtxGetId(nullptr, &second));
  EXPECT_NE(first, second);
  ASSERT_OK(cudaDeviceReset());
  ASSERT_OK(cudaFree(nullptr));
  ASSERT_OK(cuCtxGetId(nullptr, &again));
  EXPECT_NE(again, first);
  EXPECT_NE(again, second);
  ASSERT_OK(cudaSetDevice(0));
  ASSERT_OK(cuCtxGetId(nullptr, &again));
  EXPECT_EQ(again, first);
}

TEST_F(Contexts, LastReleaseDestroysWhatTheContextHeld) {
  ASSERT_OK(cudaSetDevice(1));
  void* pointer = nullptr;
  cudaStream_t stream;
  ASSERT_OK(cudaMalloc(&pointer, 64));
  ASSERT_OK(cudaStreamCreate(&stream));
  int host = 0;
  ASSERT_OK(cudaHostRegister(&host, sizeof host, cudaHostRegisterDefault));
  ASSERT_OK(cudaDeviceReset());
  EXPECT_EQ(hostgpuHostAlias(pointer), nullptr);
  EXPECT_EQ(hostgpuHostAlias(&host), nullptr);
  unsigned flags = 0;
  int active = 1;
  EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 1) << "a runtime call brings the context back";
  EXPECT_EQ(cuDevicePrimaryCtxRelease(7), CUDA_ERROR_INVALID_DEVICE);
}

// There is no fixture, because the child of a thread-safe death test is a new process in which
// nothing is initialised.
TEST(InitialisationDeathTest, DriverCallsBeforeItAreRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        int count = 0;
        CUcontext context = nullptr;
        const bool refused = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                             cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED &&
                             cuInit(1) == CUDA_ERROR_INVALID_VALUE;
        const bool works = cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS;
        _exit(refused && works ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(InitialisationDeathTest, MachineWithoutDevicesSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HOSTGPU_DEVICES", "0", 1);
        int count = -1;
        const bool none = cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0;
        _exit(none && cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(InitialisationDeathTest, FaultsMayComeFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HOSTGPU_FAULT", "event:2", 1);
        cudaEvent_t event = nullptr;
        const bool first = cudaEventCreate(&event) == cudaSuccess;
        const bool second = cudaEventCreate(&event) == cudaErrorMemoryAllocation;
        const bool third = cudaEventCreate(&event) == cudaSuccess;
        _exit(first && second && third ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Contexts, ForkedChildWorksWithoutCudaAndIsRefusedWithIt) {
  const DeviceMemory memory(64);
  Gate gate;
  gate.Launch(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cudaGetDeviceCount(&count) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate.Open();
}

TEST_F(ContextDeathTest, ExitDoesNotWaitForStreams) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto* gate = new Gate;
        gate->Launch(nullptr);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hostgpu::testing
