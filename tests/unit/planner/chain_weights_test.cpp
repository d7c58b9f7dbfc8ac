#include "planner/multigrid/data/chain_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ucudnn::multigrid {
namespace {

using ::testing::ElementsAre;

NamedArray Array(const std::string& name, const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  return {name, shape, std::vector<double>(count, 1)};
}

std::string Error(const std::vector<int64_t>& kernels, const std::vector<int64_t>& biases,
                  const std::vector<int64_t>& state) {
  return TakeChainWeights({Array("K", kernels), Array("b", biases), Array("u0", state)},
                          "w.safetensors")
      .message();
}

// make_arrays.py wrote whole numbers, each array in the type that NumPy chooses for it.
TEST(ChainWeights, ThoseOfNumPyAreRead) {
  const auto weights = LoadChainWeights(PLANNER_TEST_FOLDER "/safetensors/chain.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.message();
  EXPECT_EQ(weights->layers, 3);
  EXPECT_EQ(weights->channels, 2);
  EXPECT_EQ(weights->kernel, 3);
  EXPECT_EQ(weights->rows, 4);
  EXPECT_EQ(weights->columns, 5);
  ASSERT_EQ(weights->kernels.size(), 108u);
  for (size_t i = 0; i < 108; ++i) EXPECT_EQ(weights->kernels[i], static_cast<double>(i));
  EXPECT_THAT(weights->biases, ElementsAre(0, -1, -2, -3, -4, -5));
  ASSERT_EQ(weights->state.size(), 40u);
  EXPECT_EQ(weights->state.back(), 39);
}

TEST(ChainWeights, AMissingArrayIsNamed) {
  EXPECT_EQ(TakeChainWeights({Array("K", {1, 1, 1, 1, 1}), Array("B", {1, 1})}, "w.safetensors")
                .message(),
            "w.safetensors: no array 'b' among 'K', 'B'; expected 'K' [N, C, C, k, k], 'b' [N, C] "
            "and 'u0' "
            "[C, H, W]");
  EXPECT_EQ(
      TakeChainWeights({}, "w.safetensors").message(),
      "w.safetensors: no array 'K'; expected 'K' [N, C, C, k, k], 'b' [N, C] and 'u0' [C, H, W]");
}

TEST(ChainWeights, TheArrayOfTheWrongShapeIsNamed) {
  EXPECT_EQ(Error({8, 2, 2, 3, 3}, {8, 2}, {2, 4, 4}), "");
  for (const std::vector<int64_t>& kernels : std::vector<std::vector<int64_t>>{{8, 2, 2, 3},
                                                                               {8, 2, 3, 3, 3},
                                                                               {8, 2, 2, 3, 5},
                                                                               {8, 2, 2, 4, 4},
                                                                               {0, 2, 2, 3, 3},
                                                                               {8, 0, 0, 3, 3}}) {
    std::string shape;
    for (const int64_t extent : kernels)
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    EXPECT_EQ(Error(kernels, {8, 2}, {2, 4, 4}),
              "w.safetensors: 'K' is [" + shape + "]; expected [N, C, C, k, k] with k odd");
  }
  EXPECT_EQ(Error({8, 2, 2, 3, 3}, {7, 2}, {2, 4, 4}),
            "w.safetensors: 'b' is [7, 2]; expected [8, 2], as 'K' is [8, 2, 2, 3, 3]");
  EXPECT_EQ(Error({8, 2, 2, 3, 3}, {8, 2}, {3, 4, 4}),
            "w.safetensors: 'u0' is [3, 4, 4]; expected [2, H, W], as 'K' is [8, 2, 2, 3, 3]");
  EXPECT_EQ(Error({8, 2, 2, 3, 3}, {8, 2}, {2, 0, 4}),
            "w.safetensors: 'u0' is [2, 0, 4]; expected [2, H, W], as 'K' is [8, 2, 2, 3, 3]");
}

TEST(ChainWeights, AValueThatIsNotFiniteIsNamedByItsPlace) {
  std::vector<NamedArray> arrays = {Array("K", {8, 2, 2, 3, 3}), Array("b", {8, 2}),
                                    Array("u0", {2, 4, 5})};
  arrays[2].values[1 * 20 + 2 * 5 + 3] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(TakeChainWeights(arrays, "w.safetensors").message(),
            "w.safetensors: 'u0' is -inf at [1, 2, 3]; expected finite values");
  arrays[0].values[7 * 36 + 1 * 18 + 0 * 9 + 2 * 3 + 1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(TakeChainWeights(arrays, "w.safetensors").message(),
            "w.safetensors: 'K' is nan at [7, 1, 0, 2, 1]; expected finite values");
}

}  // namespace
}  // namespace ucudnn::multigrid
