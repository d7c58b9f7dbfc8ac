// Calls <ucudnn/layer_parallel.h> from C.
#include <gtest/gtest.h>

extern "C" int CheckLayerParallelInC(void);

namespace ucudnn::layer_parallel_test {
namespace {

TEST(LayerParallelC, EveryFunctionIsCalledFromC) {
  EXPECT_EQ(CheckLayerParallelInC(), 0) << "the line of c_calls.c whose check failed";
}

}  // namespace
}  // namespace ucudnn::layer_parallel_test
