// Tests structs that later versions have extended: members that an older program's struct lacks are
// read as 0 and not written.
#include "layer_parallel/versioned.h"

#include <gtest/gtest.h>

#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel_test {
namespace {

struct Grown {
  size_t struct_size;
  double first;
  double second;  // since version 2
};
constexpr size_t kSizes[] = {offsetof(Grown, second), sizeof(Grown)};

TEST(LayerParallelVersions, AStructIsReadAsFarAsItReaches) {
  for (const size_t size : kSizes) {
    const auto read = layer_parallel::ReadVersion("grown", Grown{size, 1.5, 2.5}, kSizes);
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(read->first, 1.5);
    EXPECT_EQ(read->second, size == sizeof(Grown) ? 2.5 : 0);
  }
}

TEST(LayerParallelVersions, AnOlderStructIsWrittenAsFarAsItReaches) {
  Grown given = {kSizes[0], 0, 7};
  layer_parallel::WriteVersion(Grown{sizeof(Grown), 1.5, 2.5}, given);
  EXPECT_EQ(given.struct_size, kSizes[0]);
  EXPECT_EQ(given.first, 1.5);
  EXPECT_EQ(given.second, 7);
}

TEST(LayerParallelVersions, ASizeThatNoVersionHadIsRefused) {
  for (const size_t size : {size_t{0}, size_t{8}, size_t{20}, size_t{32}}) {
    const Grown given = {size, 0, 0};
    const Status status = layer_parallel::CheckVersion("grown", given, kSizes);
    EXPECT_EQ(status.message(),
              "grown->struct_size is " + std::to_string(size) + "; 16 or 24 is expected");
  }
}

// Programs that were compiled with version 0.1 of the header have these sizes and offsets.
static_assert(sizeof(ucudnnLayerParallelOptions_t) == 48);
static_assert(offsetof(ucudnnLayerParallelOptions_t, coarse) == 24);
static_assert(UCUDNN_LAYER_PARALLEL_COARSE_SUM == 2);
static_assert(sizeof(ucudnnLayerParallelSolveOptions_t) == 72);
static_assert(offsetof(ucudnnLayerParallelSolveOptions_t, reserved_cycle) == 28);
static_assert(offsetof(ucudnnLayerParallelSolveOptions_t, reserved_c_weights) == 48);
static_assert(offsetof(ucudnnLayerParallelSolveOptions_t, skips_residuals) == 64);

}  // namespace
}  // namespace ucudnn::layer_parallel_test
