// Tests measuring on several devices: three of the stand-in's (HOSTGPU_DEVICES=3).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "measured_kernels_setting.h"
#include "tests/support/becomes.h"
#include "tuning/held_device.h"

namespace ucudnn::tuning {
namespace {

BenchmarkDevices All() { return {true, {}}; }

bool IsActive(int ordinal) {
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(ordinal, &flags, &active), CUDA_SUCCESS);
  return active != 0;
}

std::vector<int> OrdinalsOf(const HeldDevices& held) {
  std::vector<int> ordinals;
  for (const auto& device : held.devices) ordinals.push_back(device->ordinal());
  return ordinals;
}

// Watch notes here in which contexts convolutions ran. If `wait_for_help` is set, a convolution on
// the first device waits until another device helps. If `others_fail` is set, convolutions on other
// devices fail.
struct Watched {
  std::mutex mutex;
  std::map<CUcontext, size_t> least_free;  // free bytes, by context
  CUcontext first = nullptr;
  std::atomic<bool> helped = false, wait_for_help = false, others_fail = false;
} watched;

cudnnStatus_t Watch(cudnnConvolutionDescriptor_t) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  {
    std::lock_guard lock(watched.mutex);
    size_t& least = watched.least_free.try_emplace(context, FreeBytes()).first->second;
    least = std::min(least, FreeBytes());
  }
  if (context != watched.first) {
    watched.helped = true;
    if (watched.others_fail) return CUDNN_STATUS_EXECUTION_FAILED;
  }
  if (watched.wait_for_help) {
    EXPECT_TRUE(test::Becomes([&] { return watched.helped.load(); })) << "no other device helps";
  }
  return CUDNN_STATUS_SUCCESS;
}

class DevicesTest : public MeasuredKernelsTest {
 protected:
  DevicesTest() {
    device_.functions = &watching_;
    std::lock_guard lock(watched.mutex);
    watched.least_free.clear();
    watched.first = device_.context;
    watched.helped = watched.wait_for_help = watched.others_fail = false;
  }
  ~DevicesTest() override {
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, device_.context);
    EXPECT_FALSE(IsActive(1));
    EXPECT_FALSE(IsActive(2));
  }
  // Returns the engines, sizes, workspaces and determinism of the rows, without the times.
  static std::set<std::tuple<EngineId, int, size_t, bool>> WhatOf(const Rows& rows) {
    std::set<std::tuple<EngineId, int, size_t, bool>> what;
    for (const MicroConfiguration& row : rows) {
      what.emplace(row.engine, row.micro_batch, row.workspace_bytes, row.deterministic);
      EXPECT_GT(row.time_ms, 0);
    }
    EXPECT_EQ(what.size(), rows.size());
    return what;
  }
  Result<Rows> GetWith(BenchmarkDevices helpers, planning::MeasurementStore* store = nullptr) {
    MeasuredKernels kernels(store, Tuning{.kernel_seconds = 600, .process_seconds = 600}, kNoFolder,
                            std::move(helpers));
    Result<Rows> rows = Get(kernels);
    measured_ = kernels.measured();
    return rows;
  }
  size_t ContextsUsed() const {
    std::lock_guard lock(watched.mutex);
    return watched.least_free.size();
  }
  const cudnn::Functions watching_ = ObservedStandIn(Watch);
  long measured_ = 0;
};

TEST_F(DevicesTest, AllAreHeldAndGivenBack) {
  {
    cudnn::Functions functions = watching_;
    // Destroying a handle would wait for the device, and break captures on it.
    functions.cudnnDestroy = [](cudnnHandle_t) {
      ADD_FAILURE() << "a handle is destroyed";
      return CUDNN_STATUS_SUCCESS;
    };
    const auto held = HoldDevices(*cuda::GetDriver(), functions, All());
    ASSERT_TRUE(held.ok()) << held.message();
    EXPECT_EQ(OrdinalsOf(*held), (std::vector{0, 1, 2}));
    EXPECT_TRUE(held->refused.empty());
    EXPECT_TRUE(IsActive(1) && IsActive(2));
    const auto handle = held->devices[1]->Handle();
    ASSERT_TRUE(handle.ok()) << handle.message();
    EXPECT_EQ(*held->devices[1]->Handle(), *handle);
  }
  EXPECT_TRUE(IsActive(0));  // since the test itself has a context there
}

TEST_F(DevicesTest, NothingNamedIsTheFirst) {
  const auto held = HoldDevices(*cuda::GetDriver(), watching_, {});
  ASSERT_TRUE(held.ok()) << held.message();
  EXPECT_EQ(OrdinalsOf(*held), std::vector{0});
}

TEST_F(DevicesTest, DevicesOfAnotherModelAreLeftOutByName) {
  cuda::Driver driver = *cuda::GetDriver();
  driver.cuDeviceGetName = [](char* name, int length, CUdevice device) {
    return device == 1
               ? cuDeviceGetName(name, length, 0)
               : (std::snprintf(name, static_cast<size_t>(length), "Other model"), CUDA_SUCCESS);
  };
  driver.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    EXPECT_EQ(device, 1) << "an unlike device is touched";
    return cuDevicePrimaryCtxRetain(context, device);
  };
  const auto held = HoldDevices(driver, watching_, {false, {1, 0, 7, 2}});
  ASSERT_TRUE(held.ok()) << held.message();
  EXPECT_EQ(OrdinalsOf(*held), std::vector{1});
  ASSERT_EQ(held->refused.size(), 3u);
  const std::string name = device_.platform.device;
  EXPECT_EQ(held->refused[0], "device 0 is left out: it is 'Other model' with driver 13000, not '" +
                                  name + "' with driver 13000");
  EXPECT_EQ(held->refused[1], "device 7 is left out: there are devices 0 to 2");
  EXPECT_EQ(held->refused[2].find("device 2 is left out: it is 'Other model'"), 0u);
}

TEST_F(DevicesTest, NoDeviceLeftIsAnError) {
  const auto held = HoldDevices(*cuda::GetDriver(), watching_, {false, {8, 9}});
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.message(),
            "device 8 is left out: there are devices 0 to 2; device 9 is left out: there are "
            "devices 0 to 2");
}

TEST_F(DevicesTest, SizesSpreadOverDevicesGiveTheRowsOfOne) {
  const Rows alone = Must(GetWith({}));
  EXPECT_EQ(ContextsUsed(), 1u);
  const long measured_alone = measured_;
  watched.wait_for_help = true;
  const Rows spread = Must(GetWith(All(), &store_));
  EXPECT_TRUE(watched.helped);
  EXPECT_EQ(WhatOf(spread), WhatOf(alone));
  EXPECT_EQ(measured_, measured_alone);
  // The store has all rows by now.
  const Rows again = Must(GetWith({}, &store_));
  EXPECT_EQ(measured_, 0);
  EXPECT_EQ(WhatOf(again), WhatOf(alone));
}

TEST_F(DevicesTest, HelpersAreLetGoWhenMeasuringIsOverAndOpenedAgainAfterAll) {
  MeasuredKernels kernels(nullptr, Tuning{.kernel_seconds = 600, .process_seconds = 600}, kNoFolder,
                          All());
  EXPECT_FALSE(IsActive(1) || IsActive(2));
  for (const int channels : {2, 3}) {
    ConvolutionProblem problem = Problem();
    problem.k = channels;
    SetPackedStrides(problem);
    const Rows rows = Must(Get(kernels, problem));
    EXPECT_TRUE(IsActive(1) && IsActive(2));
    kernels.ReleaseHelpers();
    EXPECT_FALSE(IsActive(1) || IsActive(2));
  }
}

TEST_F(DevicesTest, AHelperThatOthersUseStaysTheirs) {
  CUcontext others = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&others, 1), CUDA_SUCCESS);
  {
    MeasuredKernels kernels(nullptr, Tuning{.kernel_seconds = 600, .process_seconds = 600},
                            kNoFolder, All());
    const Rows rows = Must(Get(kernels));
    kernels.ReleaseHelpers();
    EXPECT_TRUE(IsActive(1));
    EXPECT_FALSE(IsActive(2));
  }
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(DevicesTest, FailingHelpersSizesAreMeasuredByTheDeviceItself) {
  const Rows alone = Must(GetWith({}));
  watched.wait_for_help = watched.others_fail = true;
  const Rows spread = Must(GetWith(All()));
  EXPECT_TRUE(watched.helped);
  EXPECT_EQ(WhatOf(spread), WhatOf(alone));
}

TEST_F(DevicesTest, HelperThatOthersMeasureOnIsLeftAlone) {
  const auto held = HoldDevices(*cuda::GetDriver(), watching_, All());
  ASSERT_TRUE(held.ok()) << held.message();
  std::vector<DeviceLock> locks;
  for (const int ordinal : {1, 2}) {
    const auto name = DeviceName(held->devices[static_cast<size_t>(ordinal)]->device());
    ASSERT_TRUE(name.ok());
    auto lock = DeviceLock::Acquire(kNoFolder, *name, Clock::now());
    ASSERT_TRUE(lock);
    locks.push_back(std::move(*lock));
  }
  Result<Rows> rows = Status::Error("not asked");
  // Another thread asks for the rows, because this thread holds the locks of the helpers.
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(device_.context), CUDA_SUCCESS);
    rows = GetWith(All());
  }).join();
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(SizesOf(*rows), (std::set{1, 2, 4, 8}));
  EXPECT_EQ(ContextsUsed(), 1u);
}

TEST_F(DevicesTest, MemoryBoundHoldsOnEachDevice) {
  watched.wait_for_help = true;
  Tuning bounds{.kernel_seconds = 600, .process_seconds = 600};
  bounds.memory_bytes = 512 << 10;
  MeasuredKernels kernels(nullptr, bounds, kNoFolder, All());
  const size_t free_before = FreeBytes();  // the same on each device
  const Rows rows = Must(Get(kernels));
  EXPECT_GE(ContextsUsed(), 2u);
  std::lock_guard lock(watched.mutex);
  for (const auto& [context, free] : watched.least_free) {
    EXPECT_GE(free + *bounds.memory_bytes, free_before);
    EXPECT_LT(free, free_before);
  }
}

}  // namespace
}  // namespace ucudnn::tuning
