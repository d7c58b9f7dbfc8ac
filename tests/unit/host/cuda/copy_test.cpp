// Copies and fills: where the bytes go, who waits, what is refused.
#include <numeric>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

constexpr size_t kBytes = 256 << 10;  // above what the driver stages

class Copy : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    ASSERT_OK(cudaMalloc(reinterpret_cast<void**>(&device_), kBytes));
    ASSERT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes));
    ASSERT_OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    std::iota(pageable_.begin(), pageable_.end(), 0);
  }
  void TearDown() override {
    EXPECT_OK(cudaStreamDestroy(stream_));
    EXPECT_OK(cudaFreeHost(pinned_));
    EXPECT_OK(cudaFree(device_));
    HostCuda::TearDown();
  }
  unsigned char* device_ = nullptr;
  unsigned char* pinned_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<unsigned char> pageable_ = std::vector<unsigned char>(kBytes);
};

TEST_F(Copy, RoundTripKeepsEveryByte) {
  std::vector<unsigned char> back(kBytes);
  ASSERT_OK(cudaMemcpy(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice));
  ASSERT_OK(cudaMemcpy(pinned_, device_, kBytes, cudaMemcpyDefault));
  ASSERT_OK(cudaMemcpy(back.data(), pinned_, kBytes, cudaMemcpyHostToHost));
  EXPECT_EQ(back, pageable_);
}

TEST_F(Copy, PinnedMemoryDoesNotKeepTheCallerWaiting) {
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cudaMemcpyAsync(device_, pinned_, kBytes, cudaMemcpyHostToDevice, stream_));
  ASSERT_OK(cudaMemcpyAsync(pinned_, device_, kBytes, cudaMemcpyDeviceToHost, stream_));
  ASSERT_OK(cudaMemsetAsync(device_, 1, kBytes, stream_));
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(stream_));
}

TEST_F(Copy, SmallPageableSourceMayBeReusedAtOnce) {
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cudaMemcpyAsync(device_, pageable_.data(), 1024, cudaMemcpyHostToDevice, stream_));
  const std::vector<unsigned char> sent(pageable_.begin(), pageable_.begin() + 1024);
  std::fill(pageable_.begin(), pageable_.end(), 0xee);
  gate.Open();
  std::vector<unsigned char> back(1024);
  ASSERT_OK(cudaMemcpyAsync(back.data(), device_, 1024, cudaMemcpyDeviceToHost, stream_));
  EXPECT_EQ(back, sent);
}

TEST_F(Copy, PageableTargetIsCompleteOnReturn) {
  ASSERT_OK(cudaMemsetAsync(device_, 7, kBytes, stream_));
  ASSERT_OK(cudaMemcpyAsync(pageable_.data(), device_, kBytes, cudaMemcpyDeviceToHost, stream_));
  EXPECT_EQ(pageable_, std::vector<unsigned char>(kBytes, 7));
}

TEST_F(Copy, DeviceToDeviceReturnsBeforeItIsDone) {
  cudaStream_t blocking;
  ASSERT_OK(cudaStreamCreate(&blocking));
  Gate gate;
  gate.Launch(blocking);
  ASSERT_OK(cudaMemcpy(device_ + kBytes / 2, device_, kBytes / 2, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_OK(cudaStreamDestroy(blocking));
}

TEST_F(Copy, RefusesWhatRunsPastItsAllocation) {
  EXPECT_EQ(cudaMemcpy(device_ + 1, pageable_.data(), kBytes, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device_ + 1, 0, kBytes), cudaErrorInvalidValue);
}

TEST_F(Copy, RefusesHostMemoryWhereTheKindSaysDevice) {
  EXPECT_EQ(cudaMemcpy(pageable_.data(), pinned_, 16, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device_, pageable_.data(), 16, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device_, pinned_, 16, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
}

TEST_F(Copy, NothingIsCopiedForNoBytes) {
  EXPECT_OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
}

TEST_F(Copy, FillsByTheWord) {
  const auto address = reinterpret_cast<CUdeviceptr>(device_);
  ASSERT_OK(cuMemsetD32Async(address, 0x01020304, 16, reinterpret_cast<CUstream>(stream_)));
  std::vector<unsigned> back(16);
  ASSERT_OK(cudaMemcpyAsync(back.data(), device_, 64, cudaMemcpyDeviceToHost, stream_));
  EXPECT_EQ(back, std::vector<unsigned>(16, 0x01020304));
  EXPECT_EQ(cuMemsetD32(address + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, RowsKeepTheirPitches) {
  ASSERT_OK(cudaMemset(device_, 0, kBytes));
  ASSERT_OK(cudaMemcpy2D(device_, 512, pageable_.data(), 100, 10, 3, cudaMemcpyHostToDevice));
  std::vector<unsigned char> back(30);
  ASSERT_OK(cudaMemcpy2D(back.data(), 10, device_, 512, 10, 3, cudaMemcpyDeviceToHost));
  for (int row = 0; row < 3; ++row) {
    for (int x = 0; x < 10; ++x) EXPECT_EQ(back[row * 10 + x], pageable_[row * 100 + x]);
  }
  unsigned char between = 1;
  ASSERT_OK(cudaMemcpy(&between, device_ + 10, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(between, 0);
  EXPECT_EQ(cudaMemcpy2D(device_, 5, pageable_.data(), 100, 10, 3, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
}

}  // namespace
}  // namespace hostgpu::testing
