// The functions that need no descriptor, and those of descriptors given none, answer as the real
// library does.
#include "tests/unit/host/cudnn/library_pair.h"

namespace {

constexpr int kUntouched = -77;

class PlainConformance : public LibraryPair {};

TEST_F(PlainConformance, CreatingNowhereAndDestroyingNothing) {
  EXPECT_EQ(ours_.cudnnCreateTensorDescriptor(nullptr), real_.cudnnCreateTensorDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnCreateFilterDescriptor(nullptr), real_.cudnnCreateFilterDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnCreateConvolutionDescriptor(nullptr),
            real_.cudnnCreateConvolutionDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnCreateActivationDescriptor(nullptr),
            real_.cudnnCreateActivationDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyTensorDescriptor(nullptr),
            real_.cudnnDestroyTensorDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyFilterDescriptor(nullptr),
            real_.cudnnDestroyFilterDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyConvolutionDescriptor(nullptr),
            real_.cudnnDestroyConvolutionDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyActivationDescriptor(nullptr),
            real_.cudnnDestroyActivationDescriptor(nullptr));
}

TEST_F(PlainConformance, VersionsPropertiesAndErrorNames) {
  EXPECT_EQ(ours_.cudnnGetVersion(), real_.cudnnGetVersion());
  EXPECT_EQ(ours_.cudnnGetMaxDeviceVersion(), real_.cudnnGetMaxDeviceVersion());
  EXPECT_EQ(ours_.cudnnGetCudartVersion(), real_.cudnnGetCudartVersion());
  EXPECT_EQ(ours_.cudnnGraphVersionCheck(), real_.cudnnGraphVersionCheck());
  EXPECT_EQ(ours_.cudnnOpsVersionCheck(), real_.cudnnOpsVersionCheck());
  EXPECT_EQ(ours_.cudnnCnnVersionCheck(), real_.cudnnCnnVersionCheck());
  EXPECT_EQ(ours_.cudnnAdvVersionCheck(), real_.cudnnAdvVersionCheck());
  for (int property = -1; property < 6; ++property) {
    int ours = kUntouched, real = kUntouched;
    EXPECT_EQ(ours_.cudnnGetProperty(static_cast<libraryPropertyType>(property), &ours),
              real_.cudnnGetProperty(static_cast<libraryPropertyType>(property), &real));
    EXPECT_EQ(ours, real);
  }
  for (int code = -1; code < 6000; ++code) {
    const auto status = static_cast<cudnnStatus_t>(code);
    ASSERT_STREQ(ours_.cudnnGetErrorString(status), real_.cudnnGetErrorString(status)) << code;
  }
}

}  // namespace
