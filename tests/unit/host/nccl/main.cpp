// Runs the tests, or plays one rank if the arguments name a role.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/run_tests.h"
#include "tests/unit/host/nccl/processes.h"

int main(int argc, char** argv) {
  setenv("HOSTGPU_DEVICES", "5", 0);
  setenv("HOSTGPU_MEMORY", "64MiB", 0);
  if (const int code = hostgpu::nccl::testing::PlayRole(argc, argv); code >= 0) return code;
  testing::InitGoogleTest(&argc, argv);
  return ucudnn::test::RunSelectedTests();
}
