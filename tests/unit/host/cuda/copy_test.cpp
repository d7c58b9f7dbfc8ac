// Tests copies and fills: where the bytes are written, who waits, what is refused.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

constexpr size_t kBytes = 256 << 10;  // above the 64 KiB of pageable memory that the driver stages

class Copy : public HostCuda {
 protected:
  void SetUp() override {
    HostCuda::SetUp();
    ASSERT_OK(cudaMalloc(reinterpret_cast<void**>(&device_), kBytes));
    ASSERT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes));
    std::iota(pageable_.begin(), pageable_.end(), 0);
  }
  void TearDown() override {
    EXPECT_OK(cudaFreeHost(pinned_));
    EXPECT_OK(cudaFree(device_));
    HostCuda::TearDown();
  }
  unsigned char* device_ = nullptr;
  unsigned char* pinned_ = nullptr;
  Stream stream_;
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
  const Stream blocking(cudaStreamDefault);
  Gate gate;
  gate.Launch(blocking);
  ASSERT_OK(cudaMemcpy(device_ + kBytes / 2, device_, kBytes / 2, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaDeviceSynchronize());
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

TEST_F(Copy, RowsKeepTheirPitches) {
  ASSERT_OK(cudaMemset(device_, 0, kBytes));
  ASSERT_OK(cudaMemcpy2DAsync(device_, 512, pageable_.data(), 100, 10, 3, cudaMemcpyHostToDevice,
                              nullptr));
  std::vector<unsigned char> back(30);
  ASSERT_OK(
      cudaMemcpy2DAsync(back.data(), 10, device_, 512, 10, 3, cudaMemcpyDeviceToHost, nullptr));
  for (int row = 0; row < 3; ++row) {
    for (int x = 0; x < 10; ++x) EXPECT_EQ(back[row * 10 + x], pageable_[row * 100 + x]);
  }
  unsigned char between = 1;
  ASSERT_OK(cudaMemcpy(&between, device_ + 10, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(between, 0);
  EXPECT_EQ(
      cudaMemcpy2DAsync(device_, 5, pageable_.data(), 100, 10, 3, cudaMemcpyHostToDevice, nullptr),
      cudaErrorInvalidPitchValue);
}

// Copies a box of 5 x 3 x 2 bytes between memories of different pitch and height.
class BoxCopy : public Copy {
 protected:
  static constexpr size_t kWidth = 5, kHeight = 3, kDepth = 2;

  // Returns a copy from (2, 1, 1) in `pageable_`, whose planes have 17 x 6 bytes, to (4, 2, 1) in
  // device memory, whose planes have 32 x 8 bytes.
  CUDA_MEMCPY3D ToDevice() {
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pageable_.data();
    copy.srcXInBytes = 2;
    copy.srcY = 1;
    copy.srcZ = 1;
    copy.srcPitch = 17;
    copy.srcHeight = 6;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(device_);
    copy.dstXInBytes = 4;
    copy.dstY = 2;
    copy.dstZ = 1;
    copy.dstPitch = 32;
    copy.dstHeight = 8;
    copy.WidthInBytes = kWidth;
    copy.Height = kHeight;
    copy.Depth = kDepth;
    return copy;
  }

  // Returns what device memory full of 0xee holds after ToDevice().
  std::vector<unsigned char> Expected() {
    std::vector<unsigned char> expected(3 * 8 * 32, 0xee);
    for (size_t z = 0; z < kDepth; ++z) {
      for (size_t y = 0; y < kHeight; ++y) {
        for (size_t x = 0; x < kWidth; ++x) {
          expected[((z + 1) * 8 + y + 2) * 32 + x + 4] =
              pageable_[((z + 1) * 6 + y + 1) * 17 + x + 2];
        }
      }
    }
    return expected;
  }

  std::vector<unsigned char> OnDevice() {
    std::vector<unsigned char> bytes(3 * 8 * 32);
    EXPECT_OK(cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
  }
};

TEST_F(BoxCopy, KeepsPitchesHeightsAndOrigins) {
  const CUDA_MEMCPY3D copy = ToDevice();
  ASSERT_OK(cudaMemset(device_, 0xee, kBytes));
  ASSERT_OK(cudaDeviceSynchronize());
  ASSERT_OK(cuMemcpy3DAsync(&copy, stream_));
  ASSERT_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(OnDevice(), Expected());
}

TEST_F(BoxCopy, BetweenDeviceBuffersIsOrderedByTheStream) {
  CUDA_MEMCPY3D copy = ToDevice();
  ASSERT_OK(cudaMemset(device_, 0xee, kBytes));
  ASSERT_OK(cudaMemcpy(device_ + kBytes / 2, pageable_.data(), 1024, cudaMemcpyHostToDevice));
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(device_ + kBytes / 2);
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cuMemcpy3DAsync(&copy, stream_));
  EXPECT_EQ(OnDevice(), std::vector<unsigned char>(3 * 8 * 32, 0xee));
  gate.Open();
  ASSERT_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(OnDevice(), Expected());
}

TEST_F(BoxCopy, IsRecordedByACapture) {
  std::copy(pageable_.begin(), pageable_.end(), pinned_);
  CUDA_MEMCPY3D copy = ToDevice();
  copy.srcHost = pinned_;
  ASSERT_OK(cudaMemset(device_, 0xee, kBytes));
  ASSERT_OK(cudaDeviceSynchronize());
  const auto enqueue = [&] { EXPECT_OK(cuMemcpy3DAsync(&copy, stream_)); };
  const Executable exec = Captured(stream_, enqueue, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(OnDevice(), std::vector<unsigned char>(3 * 8 * 32, 0xee));
  exec.Run(stream_);
  EXPECT_EQ(OnDevice(), Expected());
}

TEST_F(BoxCopy, RefusesOperandsThatDoNotHoldTheBox) {
  const auto refused = [&](auto change) {
    CUDA_MEMCPY3D copy = ToDevice();
    change(copy);
    return cuMemcpy3DAsync(&copy, stream_);
  };
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.srcPitch = 6; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.dstHeight = 4; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.dstPitch = 0; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.srcLOD = 1; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.Depth = 1 << 20; }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) {
              copy.dstHeight = SIZE_MAX / 2;
              copy.Depth = 3;
            }),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused([](CUDA_MEMCPY3D& copy) { copy.srcMemoryType = CU_MEMORYTYPE_ARRAY; }),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(refused([](CUDA_MEMCPY3D& copy) { copy.Depth = 0; }));
  EXPECT_EQ(cuMemcpy3DAsync(nullptr, stream_), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace hostgpu::testing
