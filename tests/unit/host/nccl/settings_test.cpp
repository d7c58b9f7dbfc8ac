// Tests the HOSTGPU_NCCL_ variables.
#include "shim/host/nccl/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace hostgpu::nccl {
namespace {

constexpr const char* kVariables[] = {"HOSTGPU_NCCL_DELAY_US", "HOSTGPU_NCCL_BANDWIDTH",
                                      "HOSTGPU_NCCL_SERIAL", "HOSTGPU_NCCL_VERSION"};

Settings With(const char* variable, const char* value) {
  for (const char* other : kVariables) unsetenv(other);
  if (variable) setenv(variable, value, 1);
  return ReadSettings();
}

TEST(Settings, DefaultIsAsFastAsMemory) {
  const Settings settings = With(nullptr, nullptr);
  EXPECT_EQ(settings.delay_ns, 0);
  EXPECT_EQ(settings.TransferNs(1 << 30), 0);
  EXPECT_FALSE(settings.serial);
  EXPECT_EQ(settings.version, 22809);
}

TEST(Settings, AreRead) {
  EXPECT_EQ(With("HOSTGPU_NCCL_DELAY_US", "25").delay_ns, 25000);
  EXPECT_EQ(With("HOSTGPU_NCCL_BANDWIDTH", "1000").TransferNs(500), 500'000'000);
  EXPECT_EQ(With("HOSTGPU_NCCL_BANDWIDTH", "2MiB").TransferNs(1 << 20), 500'000'000);
  EXPECT_TRUE(With("HOSTGPU_NCCL_SERIAL", "1").serial);
  EXPECT_FALSE(With("HOSTGPU_NCCL_SERIAL", "0").serial);
  EXPECT_EQ(With("HOSTGPU_NCCL_VERSION", "21005").version, 21005);
}

TEST(Settings, UnreadableValuesAreReportedOnceAndTheDefaultUsed) {
  const Settings defaults = With(nullptr, nullptr);
  for (const char* variable : kVariables) {
    for (const char* value : {"soon", "-1", "1.5", "99999999999999999999", "12xB", " 1"}) {
      ::testing::internal::CaptureStderr();
      const Settings settings = With(variable, value);
      const std::string message = ::testing::internal::GetCapturedStderr();
      EXPECT_EQ(message.find(std::string("hostgpu: ") + variable + "=" + value + " is not"), 0u)
          << message;
      EXPECT_EQ(message.find('\n'), message.size() - 1) << message;
      EXPECT_EQ(settings.delay_ns, defaults.delay_ns) << value;
      EXPECT_EQ(settings.bytes_per_second, defaults.bytes_per_second) << value;
      EXPECT_EQ(settings.serial, defaults.serial) << value;
      EXPECT_EQ(settings.version, defaults.version) << value;
    }
  }
}

}  // namespace
}  // namespace hostgpu::nccl
