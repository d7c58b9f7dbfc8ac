// Tests HOSTGPU_DEVICES and HOSTGPU_MEMORY.
#include "shim/host/cuda/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace hostgpu {
namespace {

Settings With(const char* variable, const char* value) {
  unsetenv("HOSTGPU_DEVICES");
  unsetenv("HOSTGPU_MEMORY");
  if (variable) setenv(variable, value, 1);
  return ReadSettings();
}

TEST(Settings, DefaultIsOneDeviceOf4GiB) {
  const Settings settings = With(nullptr, nullptr);
  EXPECT_EQ(settings.devices, 1);
  EXPECT_EQ(settings.memory_bytes, size_t{4} << 30);
}

TEST(Settings, MemoryTakesUnits) {
  EXPECT_EQ(With("HOSTGPU_MEMORY", "4096").memory_bytes, 4096u);
  EXPECT_EQ(With("HOSTGPU_MEMORY", "4096B").memory_bytes, 4096u);
  EXPECT_EQ(With("HOSTGPU_MEMORY", "8KiB").memory_bytes, 8192u);
  EXPECT_EQ(With("HOSTGPU_MEMORY", "64 mib").memory_bytes, size_t{64} << 20);
  EXPECT_EQ(With("HOSTGPU_MEMORY", "2GiB").memory_bytes, size_t{2} << 30);
}

TEST(Settings, UnreadableValuesAreReportedAndTheDefaultUsed) {
  for (const char* value : {"lots", "-1", "4GB", "1.5GiB", "0", "99999999999GiB"}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(With("HOSTGPU_MEMORY", value).memory_bytes, size_t{4} << 30) << value;
    const std::string message = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(message.find(std::string("HOSTGPU_MEMORY=") + value), std::string::npos) << message;
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(With("HOSTGPU_DEVICES", "two").devices, 1);
  EXPECT_FALSE(::testing::internal::GetCapturedStderr().empty());
}

TEST(Settings, NoDeviceIsAnAllowedMachine) { EXPECT_EQ(With("HOSTGPU_DEVICES", "0").devices, 0); }

}  // namespace
}  // namespace hostgpu
