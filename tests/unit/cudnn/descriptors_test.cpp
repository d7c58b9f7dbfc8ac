// Tests reading a program's cuDNN descriptors and creating ucudnn's own. The stand-in for cuDNN
// provides the descriptors.
#include "cudnn/descriptors.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/problem.h"
#include "tests/support/stand_in.h"

namespace ucudnn::cudnn {
namespace {

const Functions& Library() {
  static const Functions functions = test::StandIn();
  return functions;
}

// The extents of each tensor differ, so that swapped axes are noticed.
constexpr test::SmallProblem kPlane = {.n = 3,
                                       .c = 4,
                                       .k = 6,
                                       .x = {1, 9, 11},
                                       .w = {1, 3, 5},
                                       .pad = {0, 1, 2},
                                       .stride = {1, 2, 1},
                                       .dilation = {1, 1, 2},
                                       .alignment = kLegacyAlignment};

ConvolutionProblem Problem2d() { return test::ProblemWith(kPlane); }

ConvolutionProblem Problem3d() {
  test::SmallProblem volume = kPlane;
  volume.spatial_rank = 3;
  volume.x[0] = 7;
  volume.w[0] = 3;
  volume.pad[0] = 1;
  volume.stride[0] = 2;
  return test::ProblemWith(volume);
}

// Writes `problem` to descriptors, reads it back and compares.
void ExpectRoundTrip(const ConvolutionProblem& problem) {
  OwnedDescriptors descriptors(Library());
  const Status status = descriptors.Create(problem);
  ASSERT_TRUE(status.ok()) << status.message();
  ConvolutionProblem read;
  const char* const refused = ReadProblem(Library(), problem.operation, descriptors.get(), read);
  ASSERT_EQ(refused, nullptr) << refused;
  EXPECT_TRUE(read == problem) << Describe(read) << " instead of " << Describe(problem);
}

TEST(OwnedDescriptors, RoundTrip2dIn3Operations) {
  for (const Operation operation : test::kOperations) {
    ConvolutionProblem problem = Problem2d();
    problem.operation = operation;
    ExpectRoundTrip(problem);
  }
}

TEST(OwnedDescriptors, RoundTrip3d) { ExpectRoundTrip(Problem3d()); }

TEST(OwnedDescriptors, RoundTripNhwc) {
  ConvolutionProblem problem = Problem2d();
  problem.layout = Layout::kNhwc;
  SetPackedStrides(problem);
  ExpectRoundTrip(problem);
}

TEST(OwnedDescriptors, RoundTripStrided) {
  ConvolutionProblem problem = Problem2d();
  problem.x_strides[0] += 24;
  problem.y_strides[0] += 8;
  ExpectRoundTrip(problem);
}

TEST(OwnedDescriptors, RoundTripGroupsModesAndTypes) {
  ConvolutionProblem problem = Problem2d();
  problem.groups = 2;
  problem.mode = ConvolutionMode::kConvolution;
  problem.math = MathType::kFma;
  ExpectRoundTrip(problem);
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
    problem.type = type;
    problem.compute = type == DataType::kDouble ? type : DataType::kFloat;
    ExpectRoundTrip(problem);
  }
}

TEST(OwnedDescriptors, MovingLeavesNothingBehind) {
  OwnedDescriptors from(Library());
  ASSERT_TRUE(from.Create(Problem2d()).ok());
  const auto x = from.get().x;
  const OwnedDescriptors to(std::move(from));
  EXPECT_EQ(to.get().x, x);
  EXPECT_EQ(from.get().x, nullptr);  // NOLINT: the moved-from object is what the test looks at
}

class ReadProblemTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(descriptors_.Create(Problem2d()).ok()); }
  std::string Refusal(const Descriptors& descriptors) {
    ConvolutionProblem problem;
    const char* const why = ReadProblem(Library(), Operation::kForward, descriptors, problem);
    return why == nullptr ? "" : why;
  }
  std::string Refusal() { return Refusal(descriptors_.get()); }
  void SetTensor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int n, int c, int h, int w) {
    ASSERT_EQ(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, type, n, c, h, w),
              CUDNN_STATUS_SUCCESS);
  }
  OwnedDescriptors descriptors_{Library()};
};

TEST_F(ReadProblemTest, MissingDescriptorsAreRefused) {
  EXPECT_EQ(Refusal(), "");
  const auto without = [&](auto Descriptors::*member) {
    Descriptors some = descriptors_.get();
    some.*member = nullptr;
    return Refusal(some);
  };
  EXPECT_NE(without(&Descriptors::x), "");
  EXPECT_NE(without(&Descriptors::y), "");
  EXPECT_NE(without(&Descriptors::w), "");
  EXPECT_NE(without(&Descriptors::convolution), "");
}

TEST_F(ReadProblemTest, OtherTypesAreRefused) {
  SetTensor(descriptors_.get().x, CUDNN_DATA_HALF, 3, 4, 9, 11);
  EXPECT_NE(Refusal(), "");
  SetTensor(descriptors_.get().x, CUDNN_DATA_INT8, 3, 4, 9, 11);
  EXPECT_NE(Refusal(), "");
}

TEST_F(ReadProblemTest, MismatchedExtentsAreRefused) {
  const struct {
    int n, c, h, w;
  } wrong[] = {{2, 4, 9, 11}, {3, 5, 9, 11}, {3, 4, 13, 11}, {3, 4, 9, 12}};
  for (const auto& [n, c, h, w] : wrong) {
    SetTensor(descriptors_.get().x, CUDNN_DATA_FLOAT, n, c, h, w);
    EXPECT_NE(Refusal(), "") << n << "x" << c << "x" << h << "x" << w;
  }
  SetTensor(descriptors_.get().x, CUDNN_DATA_FLOAT, 3, 4, 9, 11);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(ReadProblemTest, GroupsThatDoNotMatchAreRefused) {
  ASSERT_EQ(cudnnSetConvolutionGroupCount(descriptors_.get().convolution, 2), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(Refusal(), "");
}

TEST_F(ReadProblemTest, VectorisedTypesAndLayoutsAreRefused) {
  // This table reports a vectorised filter, so that the test does not depend on whether the
  // stand-in can make one.
  Functions vectorised = Library();
  vectorised.cudnnGetFilterNdDescriptor = [](const cudnnFilterDescriptor_t filter, int requested,
                                             cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                             int* rank, int extents[]) {
    const auto status = cudnnGetFilterNdDescriptor(filter, requested, type, format, rank, extents);
    *format = CUDNN_TENSOR_NCHW_VECT_C;
    return status;
  };
  ConvolutionProblem problem;
  EXPECT_NE(ReadProblem(vectorised, Operation::kForward, descriptors_.get(), problem), nullptr);
  Functions int8x4 = Library();
  int8x4.cudnnGetTensorNdDescriptor = [](const cudnnTensorDescriptor_t tensor, int requested,
                                         cudnnDataType_t* type, int* rank, int extents[],
                                         int strides[]) {
    const auto status = cudnnGetTensorNdDescriptor(tensor, requested, type, rank, extents, strides);
    *type = CUDNN_DATA_INT8x4;
    return status;
  };
  EXPECT_NE(ReadProblem(int8x4, Operation::kForward, descriptors_.get(), problem), nullptr);
}

TEST(SameTensor, ComparesTypeExtentsAndStrides) {
  OwnedDescriptors a(Library()), b(Library()), strided(Library()), half(Library());
  ConvolutionProblem problem = Problem2d();
  ASSERT_TRUE(a.CreateTensors(problem).ok() && b.CreateTensors(problem).ok());
  problem.x_strides[0] += 4;
  ASSERT_TRUE(strided.CreateTensors(problem).ok());
  problem = Problem2d();
  problem.type = DataType::kHalf;
  ASSERT_TRUE(half.CreateTensors(problem).ok());
  EXPECT_TRUE(SameTensor(Library(), a.get().x, b.get().x));
  EXPECT_FALSE(SameTensor(Library(), a.get().x, a.get().y));
  EXPECT_FALSE(SameTensor(Library(), a.get().x, strided.get().x));
  EXPECT_FALSE(SameTensor(Library(), a.get().x, half.get().x));
  EXPECT_FALSE(SameTensor(Library(), a.get().x, nullptr));
}

TEST(TensorBytes, ReachBehindTheLastElement) {
  ConvolutionProblem problem = Problem2d();
  EXPECT_EQ(ImageBytes(problem), 3u * 4 * 9 * 11 * 4);
  EXPECT_EQ(FilterBytes(problem), 6u * 4 * 3 * 5 * 4);
  problem.x_strides[0] += 10;  // a gap of 10 elements between images, but none after the last one
  EXPECT_EQ(ImageBytes(problem), (3u * 4 * 9 * 11 + 2 * 10) * 4);
}

}  // namespace
}  // namespace ucudnn::cudnn
