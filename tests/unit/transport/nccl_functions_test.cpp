// Tests where ucudnn finds NCCL. It refuses a release that is too old, with its version and path.
#include "transport/nccl_functions.h"

#include <gtest/gtest.h>

namespace ucudnn::transport::nccl {
namespace {

TEST(NcclFunctions, VersionsAreWrittenAsReleasesAreCalled) {
  EXPECT_EQ(VersionText(22809), "2.28.9");
  EXPECT_EQ(VersionText(21800), "2.18.0");
  EXPECT_EQ(VersionText(2708), "2.7.8");
}

// NCCL is looked for in the wheels next to cuDNN before it is looked for in the system.
TEST(NcclFunctions, OneThatIsTooOldIsRefusedByNameAndPlace) {
  const Result<Functions> found = Load(WHEELS "/cudnn/lib/libcudnn.so.9");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.message(), "NCCL 2.16.5 (" WHEELS "/nccl/lib/libnccl.so.2) is older than 2.18.0");
  // Load has loaded the wheel's NCCL into this process, so Load("") finds it again.
  EXPECT_EQ(Load("").message(), found.message());
}

}  // namespace
}  // namespace ucudnn::transport::nccl
