#include "convolution/engine_name.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(EngineName, IsTheAlgorithmsOfTheOperation) {
  EXPECT_EQ(EngineName(Operation::kForward, "legacy:1"), "IMPLICIT_PRECOMP_GEMM (legacy:1)");
  EXPECT_EQ(EngineName(Operation::kBackwardData, "legacy:1"), "ALGO_1 (legacy:1)");
  EXPECT_EQ(EngineName(Operation::kBackwardFilter, "legacy:3"), "ALGO_3 (legacy:3)");
  EXPECT_EQ(EngineName(Operation::kForward, "legacy:6[math=1]"), "WINOGRAD (legacy:6[math=1])");
}

TEST(EngineName, IsTheTextWhereCudnnNamesNone) {
  for (const char* text : {"legacy:8", "legacy:99", "legacy:100", "graph:38[k2=1,k14=0]+bias+relu",
                           "sum", "MIOpen 3", "", "legacy:-1"}) {
    EXPECT_EQ(EngineName(Operation::kForward, text), text);
  }
  EXPECT_EQ(EngineName(Operation::kBackwardData, "legacy:6"), "legacy:6");
}

TEST(EngineName, OfAPlanNamesEachEngineOnce) {
  const Configuration configuration{{{{"legacy:6", 4, 1, 0, true}, 2},
                                     {{"graph:5", 2, 1, 0, true}, 1},
                                     {{"legacy:6", 1, 1, 0, true}, 1}}};
  EXPECT_EQ(EngineNames(Operation::kForward, configuration), "WINOGRAD (legacy:6), graph:5");
  EXPECT_EQ(EngineNames(Operation::kForward, {}), "");
}

}  // namespace
}  // namespace ucudnn
