#include "convolution/layers_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

const std::vector<Operation> kForwardOnly = {Operation::kForward};

constexpr const char* kTwoLayers =
    "name,n,c,h,w,k,r,s,stride_h,stride_w,pad_h,pad_w\n"
    "conv1,64,3,224,224,64,11,11,4,4,2,2\n"
    "conv2,64,64,27,27,192,5,5,1,1,2,2\n";

TEST(LayersCsv, EachLayerComesOncePerOperation) {
  const auto layers =
      ParseLayersCsv(kTwoLayers, "l.csv", {Operation::kForward, Operation::kBackwardData});
  ASSERT_TRUE(layers.ok()) << layers.message();
  ASSERT_EQ(layers->size(), 4u);
  EXPECT_EQ((*layers)[0].name, "conv1");
  EXPECT_EQ((*layers)[0].problem.operation, Operation::kForward);
  EXPECT_EQ((*layers)[1].name, "conv1");
  EXPECT_EQ((*layers)[1].problem.operation, Operation::kBackwardData);
  EXPECT_EQ((*layers)[3].name, "conv2");
  EXPECT_EQ(OutputExtents((*layers)[0].problem), (Spatial{1, 55, 55}));
}

TEST(LayersCsv, PaddingAndStrideHaveDefaults) {
  const auto layers = ParseLayersCsv("name,n,c,h,w,k,r,s\na,1,3,8,8,4,3,3\n", "l", kForwardOnly);
  ASSERT_TRUE(layers.ok()) << layers.message();
  EXPECT_EQ(OutputExtents((*layers)[0].problem), (Spatial{1, 6, 6}));
}

TEST(LayersCsv, RefusalsNameFileLineAndColumn) {
  const std::string header = "name,n,c,h,w,k,r,s\n";
  const auto message = [&](const std::string& rows) {
    return ParseLayersCsv(header + rows, "l.csv", kForwardOnly).message();
  };
  EXPECT_EQ(message("a,1,3,8,8,4,3,3\nb,1,3,8,8,4,9,3\n"),
            "l.csv:3: column 'r': '9'; expected a filter that with its dilation spans at most the "
            "padded image, but it spans 9 of 8");
  EXPECT_EQ(message("a,,3,8,8,4,3,3\n"), "l.csv:2: column 'n': empty; expected the mini-batch");
  EXPECT_EQ(message(",1,3,8,8,4,3,3\n"), "l.csv:2: column 'name': empty; expected a name");
  EXPECT_EQ(message(""), "l.csv: a header and no layer; expected at least one row");
}

TEST(LayersCsv, MeasurementColumnsAreUnknown) {
  EXPECT_THAT(ParseLayersCsv("name,n,c,h,w,k,r,s,op\n", "l.csv", kForwardOnly).message(),
              ::testing::HasSubstr("l.csv:1: unknown column 'op'"));
}

TEST(LayersCsv, AMissingFileIsNamed) {
  EXPECT_EQ(ReadLayersCsv("/nonexistent.csv", kForwardOnly).message(),
            "/nonexistent.csv: cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace ucudnn
