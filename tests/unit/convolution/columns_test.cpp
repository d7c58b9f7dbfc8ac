#include "convolution/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/problem.h"
#include "tests/support/random_problem.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::map<std::string, std::string>;

const Row kConv2 = {{"n", "64"}, {"c", "64"}, {"h", "27"},    {"w", "27"},   {"k", "192"},
                    {"r", "5"},  {"s", "5"},  {"pad_h", "2"}, {"pad_w", "2"}};

Result<ConvolutionProblem> Read(const Row& row) {
  return FromColumns([&](const std::string& column) -> const std::string* {
    const auto found = row.find(column);
    return found == row.end() || found->second.empty() ? nullptr : &found->second;
  });
}

Row Changed(std::initializer_list<std::pair<std::string, std::string>> changes) {
  Row row = kConv2;
  for (const auto& [column, value] : changes) row[column] = value;
  return row;
}

TEST(Columns, AbsentColumnsMeanTheDefaults) {
  const auto problem = Read(kConv2);
  ASSERT_TRUE(problem.ok()) << problem.message();
  EXPECT_EQ(*problem,
            test::ProblemWith(
                {.n = 64, .c = 64, .k = 192, .x = {1, 27, 27}, .w = {1, 5, 5}, .pad = {0, 2, 2}}));
}

TEST(Columns, WithoutNItIsAKernelFamily) {
  const auto problem = Read(Changed({{"n", ""}}));
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(*problem, KernelFamily(*Read(kConv2)));
}

TEST(Columns, ARowWithDepthIsThreeDimensional) {
  const auto problem = Read(Changed({{"d", "9"}, {"t", "3"}, {"stride_d", "2"}}));
  ASSERT_TRUE(problem.ok()) << problem.message();
  EXPECT_EQ(problem->spatial_rank, 3);
  EXPECT_EQ(problem->x, (Spatial{9, 27, 27}));
  EXPECT_EQ(problem->w, (Spatial{3, 5, 5}));
  EXPECT_EQ(problem->stride, (Spatial{2, 1, 1}));
  EXPECT_EQ(OutputExtents(*problem), (Spatial{4, 27, 27}));
}

TEST(Columns, StridesAreReadInTheOrderOfTheTensor) {
  const auto problem = Read(Changed({{"x_strides", "154587:51529:227:1"}}));
  ASSERT_TRUE(problem.ok()) << problem.message();
  EXPECT_EQ(problem->x_strides[0], 154587);
  EXPECT_EQ(problem->x_strides[1], 51529);
  EXPECT_EQ(problem->x_strides[3], 227);
  EXPECT_EQ(problem->x_strides[4], 1);
  EXPECT_EQ(problem->y_strides, PackedStrides(Layout::kNchw, 192, {1, 27, 27}));
}

TEST(Columns, Fp64ComputesInFp64UnlessSaidOtherwise) {
  EXPECT_EQ(Read(Changed({{"dtype", "fp64"}}))->compute, DataType::kDouble);
  EXPECT_EQ(Read(Changed({{"dtype", "fp16"}}))->compute, DataType::kFloat);
  EXPECT_EQ(Read(Changed({{"dtype", "fp16"}, {"compute", "fp16"}}))->compute, DataType::kHalf);
}

TEST(Columns, EveryValidProblemSurvivesTheTextForm) {
  const unsigned seed = 4711;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 5000; ++i) {
    ConvolutionProblem problem = RandomProblem(random);
    if (i % 3 == 0) {
      for (int axis = kMaxSpatial - problem.spatial_rank; axis < kMaxSpatial; ++axis) {
        problem.extra_pad[axis] = static_cast<int32_t>(random() % 5) - problem.pad[axis];
        problem.x[axis] += 2 * problem.pad[axis];
      }
      SetPackedStrides(problem);
    }
    Row row = {{"op", OperationName(problem.operation)}};
    for (const auto& [column, value] : ToColumns(problem)) row[column] = value;
    const auto read = Read(row);
    ASSERT_TRUE(read.ok()) << read.message();
    ASSERT_EQ(*read, problem) << Describe(problem);
    ASSERT_EQ(ToColumns(*read), ToColumns(problem));
  }
}

TEST(Columns, TheLargestProblemsSurviveTheTextForm) {
  for (const Row& row : {Changed({{"n", "2147483647"}, {"c", "1"}, {"k", "1"}, {"h", "30000"}}),
                         Changed({{"h", "2147483643"}, {"w", "1"}, {"n", "1"}}),
                         Changed({{"x_strides", "576460752303423487:1:1:1"}, {"n", "2"}})}) {
    const auto problem = Read(row);
    ASSERT_TRUE(problem.ok()) << problem.message();
    Row again;
    for (const auto& [column, value] : ToColumns(*problem)) again[column] = value;
    EXPECT_EQ(*Read(again), *problem);
  }
}

TEST(Columns, ToColumnsNamesExactlyTheDocumentedColumns) {
  std::vector<std::string> expected = {"n"};
  for (const auto* columns : {&LayerColumns(), &NumericColumns(), &PostPadColumns()}) {
    expected.insert(expected.end(), columns->begin(), columns->end());
  }
  std::vector<std::string> names;
  for (const auto& [column, value] : ToColumns(ConvolutionProblem())) names.push_back(column);
  EXPECT_EQ(names, expected);
}

struct Bad {
  const char* column;
  const char* value;
  const char* expected;
};

class ColumnsRefusal : public ::testing::TestWithParam<Bad> {};

TEST_P(ColumnsRefusal, NamesColumnValueAndWhatWasExpected) {
  const Bad& bad = GetParam();
  const auto problem = Read(Changed({{bad.column, bad.value}}));
  ASSERT_FALSE(problem.ok());
  EXPECT_THAT(problem.message(), HasSubstr(std::string("column '") + bad.column + "': "));
  if (bad.value[0] != '\0') {
    EXPECT_THAT(problem.message(), HasSubstr(std::string("'") + bad.value + "'"));
  }
  EXPECT_THAT(problem.message(), HasSubstr(std::string("; expected ") + bad.expected));
}

INSTANTIATE_TEST_SUITE_P(
    Columns, ColumnsRefusal,
    ::testing::Values(
        Bad{"n", "0", "a whole number from 1 to 2147483647"},
        Bad{"n", "-4", "a whole number from 1 to"}, Bad{"n", "64.0", "a whole number"},
        Bad{"n", "2147483648", "a whole number"}, Bad{"n", "99999999999999999999", "a whole"},
        Bad{"c", "", "a whole number from 1"}, Bad{"h", "x", "a whole number"},
        Bad{"k", "0x10", "a whole number"}, Bad{"r", "0", "a whole number from 1"},
        Bad{"pad_h", "-1", "a whole number from 0"}, Bad{"stride_w", "0", "a whole number from 1"},
        Bad{"dilation_h", "0", "a whole number from 1"},
        Bad{"groups", "3", "a divisor of c = 64 and k = 192"},
        Bad{"dtype", "float", "one of fp32, fp16, bf16, fp64"},
        Bad{"layout", "NCHW", "one of nchw, nhwc"}, Bad{"op", "backward", "one of forward, "},
        Bad{"math", "tf32", "one of default, tensor_op, "},
        Bad{"compute", "int8", "one of fp32, fp16, bf16, fp64"},
        Bad{"mode", "x", "one of cross_correlation, convolution"},
        Bad{"align", "3", "a power of two"}, Bad{"align", "131072", "a power of two"},
        Bad{"t", "3", "nothing: the row has no 'd'"},
        Bad{"dilation_d", "1", "nothing: the row has no 'd'"},
        Bad{"r", "32", "a filter that with its dilation spans at most the padded image"},
        Bad{"s", "2147483647", "a filter that with its dilation spans"},
        Bad{"pad_h", "2147483647", "a padded image of at most 2147483647"},
        Bad{"x_strides", "1:2:3", "4 strides in elements"},
        Bad{"x_strides", "1:2:3:4:5", "4 strides in elements"},
        Bad{"x_strides", "1:2:3:", "4 strides in elements"},
        Bad{"x_strides", "1:2:0:4", "4 strides in elements"},
        Bad{"y_strides", "1:2:-3:4", "4 strides in elements"},
        Bad{"y_strides", "576460752303423488:1:1:1", "4 strides in elements"},
        Bad{"y_strides", "576460752303423487:1:1:1", "a tensor of less than 2^63 bytes"}));

TEST(Columns, ThreeDimensionsWantFiveStrides) {
  const auto problem = Read(Changed({{"d", "9"}, {"t", "3"}, {"x_strides", "1:2:3:4"}}));
  EXPECT_THAT(problem.message(), HasSubstr("5 strides in elements"));
  EXPECT_THAT(problem.message(), HasSubstr("n:c:d:h:w"));
}

TEST(Columns, ExtentsWhoseProductNeedsMoreThan63BitsAreRefused) {
  const auto problem =
      Read(Changed({{"n", "2147483647"}, {"h", "2000000000"}, {"w", "5"}, {"groups", "64"}}));
  ASSERT_FALSE(problem.ok());
  EXPECT_THAT(problem.message(), HasSubstr("larger than 2^63 bytes; expected extents"));
}

TEST(Columns, OperationListsAreReadInOrder) {
  const auto operations = ParseOperations("backward_filter, forward");
  ASSERT_TRUE(operations.ok()) << operations.message();
  EXPECT_THAT(*operations, ElementsAre(Operation::kBackwardFilter, Operation::kForward));
}

TEST(Columns, OperationListsRefuseUnknownRepeatedAndEmptyOnes) {
  EXPECT_EQ(ParseOperations("forward,backward").message(),
            "'backward' is not an operation; expected one of forward, backward_data, "
            "backward_filter");
  EXPECT_EQ(ParseOperations("forward,forward").message(),
            "'forward' occurs twice; expected each operation once");
  EXPECT_FALSE(ParseOperations("").ok());
}

}  // namespace
}  // namespace ucudnn
