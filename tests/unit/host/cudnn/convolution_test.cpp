// Tests that the three convolutions equal naive loops, for every combination that the stand-in
// supports, and that they are asynchronous.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

std::vector<ConvolutionCase> Geometries(int spatial) {
  std::vector<ConvolutionCase> cases(6);
  cases[1].pad = {0, 2, 1};
  cases[1].stride = {1, 2, 3};
  cases[2].dilation = {1, 2, 3};
  cases[2].pad = {0, 1, 2};
  cases[3].groups = 2;
  cases[3].w = {6, 2, 1, 3, 2};
  cases[4].flip = true;
  cases[4].pad = {0, 1, 1};
  cases[5].groups = 4;  // depthwise, flipped, strided and dilated at once
  cases[5].w = {4, 1, 1, 2, 2};
  cases[5].flip = true;
  cases[5].stride = {1, 2, 1};
  cases[5].dilation = {1, 1, 2};
  for (ConvolutionCase& c : cases) {
    c.spatial = spatial;
    if (spatial == 2) continue;
    c.x[2] = 4;
    c.w[2] = 2;
    c.pad[0] = c.pad[1];
    c.stride[0] = c.stride[1];
    c.dilation[0] = c.dilation[1];
  }
  return cases;
}

// Runs every algorithm that supports the case, and compares the results with naive loops. Returns
// the number of these algorithms.
int CheckEveryAlgorithm(const ConvolutionCase& c, std::mt19937& random) {
  int served = 0;
  for (int algorithm = 0; algorithm < AlgorithmCount(c.operation); ++algorithm) {
    Convolution convolution(c);
    convolution.FillAll(random);
    size_t needed = 0;
    if (convolution.WorkspaceSize(algorithm, &needed) != CUDNN_STATUS_SUCCESS) continue;
    ++served;
    DeviceMemory workspace(needed);
    EXPECT_OK(convolution.Run(algorithm, workspace.data, needed));
    convolution.ComputeExpected();
    EXPECT_OK(cudaStreamSynchronize(nullptr));
    EXPECT_TRUE(convolution.x.Matches()) << "x, algorithm " << algorithm;
    EXPECT_TRUE(convolution.w.Matches()) << "w, algorithm " << algorithm;
    EXPECT_TRUE(convolution.y.Matches()) << "y, algorithm " << algorithm;
  }
  return served;
}

class NaiveLoops : public testing::TestWithParam<std::tuple<Operation, DataType>> {};

TEST_P(NaiveLoops, AgreeForEveryLayoutGeometryAndScale) {
  std::mt19937 random(20240607);
  int served = 0;
  int cases = 0;
  for (int spatial : {2, 3}) {
    int geometry = 0;
    for (ConvolutionCase c : Geometries(spatial)) {
      ++geometry;
      for (Layout layout : {Layout::kNchw, Layout::kNhwc, Layout::kPadded}) {
        for (auto [alpha, beta] :
             {std::pair{1.0, 0.0}, std::pair{2.0, -1.0}, std::pair{1.0, 1.0}}) {
          std::tie(c.operation, c.type) = GetParam();
          c.layout = layout;
          c.alpha = alpha;
          c.beta = beta;
          SCOPED_TRACE(testing::Message()
                       << spatial << "-D, geometry " << geometry << ", layout "
                       << static_cast<int>(layout) << ", alpha " << alpha << ", beta " << beta);
          const int algorithms = CheckEveryAlgorithm(c, random);
          EXPECT_GE(algorithms, 1) << "algorithm 0 serves everything";
          served += algorithms;
          ++cases;
          if (HasFailure()) return;
        }
      }
    }
  }
  // oneDNN has no fp64, so there may be only algorithm 0 for doubles.
  if (std::get<1>(GetParam()) != DataType::kDouble) {
    EXPECT_GT(served, cases) << "no fast engine ran";
  }
}

INSTANTIATE_TEST_SUITE_P(All, NaiveLoops,
                         testing::Combine(testing::ValuesIn(kOperations),
                                          testing::Values(DataType::kFloat, DataType::kHalf,
                                                          DataType::kBfloat16, DataType::kDouble)));

TEST(Convolution, ReturnsBeforeItRunsAndReadsItsScalesAtOnce) {
  // alpha and beta are local variables of RunAt, so they are gone before the work starts.
  ConvolutionCase c{.alpha = 2, .beta = 1};
  Convolution convolution(c, 5);
  const Stream stream;
  ASSERT_OK(cudnnSetStream(convolution.handle, stream));
  Gate gate;
  gate.Launch(stream);
  ASSERT_OK(convolution.Run(0, nullptr, 0));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.Open();
  convolution.ComputeExpected();
  ASSERT_OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(convolution.y.Matches());
}

TEST(Convolution, ThreadsWithOwnHandlesDoNotDisturbEachOther) {
  const auto work = [](unsigned seed) {
    std::mt19937 random(seed);
    for (const Operation operation : kOperations) {
      ConvolutionCase c{.operation = operation};
      CheckEveryAlgorithm(c, random);
      int count = 0;
      Convolution query(c);
      cudnnConvolutionFwdAlgoPerf_t results[8];
      EXPECT_OK(cudnnGetConvolutionForwardAlgorithm_v7(query.handle, query.x_desc, query.w_desc,
                                                       query.conv_desc, query.y_desc, 8, &count,
                                                       results));
    }
  };
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
}

TEST(Convolution, RefusesWhatContradictsItself) {
  Convolution c(ConvolutionCase{}, 3);
  const float one = 1, zero = 0;
  const auto run = [&](cudnnHandle_t handle, const void* x, cudnnConvolutionFwdAlgo_t algorithm) {
    return cudnnConvolutionForward(handle, &one, c.x_desc, x, c.w_desc, c.w.data, c.conv_desc,
                                   algorithm, nullptr, 0, &zero, c.y_desc, c.y.data);
  };
  const auto implicit_gemm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  EXPECT_OK(run(c.handle, c.x.data, implicit_gemm));
  EXPECT_EQ(run(nullptr, c.x.data, implicit_gemm), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(c.handle, nullptr, implicit_gemm), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(c.handle, c.x.data, static_cast<cudnnConvolutionFwdAlgo_t>(8)),
            CUDNN_STATUS_BAD_PARAM);

  cudnnSetConvolutionGroupCount(c.conv_desc, 2);
  EXPECT_EQ(run(c.handle, c.x.data, implicit_gemm), CUDNN_STATUS_BAD_PARAM);
  cudnnSetConvolutionGroupCount(c.conv_desc, 1);
  cudnnSetTensor4dDescriptor(c.y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 4, 5);
  EXPECT_EQ(run(c.handle, c.x.data, implicit_gemm), CUDNN_STATUS_BAD_PARAM) << "y's width is 4";
  cudnnSetTensor4dDescriptor(c.y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 2, 4, 4, 4);
  EXPECT_EQ(run(c.handle, c.x.data, implicit_gemm), CUDNN_STATUS_NOT_SUPPORTED) << "mixed types";
  cudnnSetTensor4dDescriptorEx(c.y_desc, CUDNN_DATA_FLOAT, 2, 4, 4, 4, 64, 16, -4, 1);
  EXPECT_EQ(run(c.handle, c.x.data, implicit_gemm), CUDNN_STATUS_NOT_SUPPORTED)
      << "negative stride";
  cudnnSetTensor4dDescriptor(c.y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 4, 4);
  cudnnSetConvolution2dDescriptor(c.conv_desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_DOUBLE);
  EXPECT_EQ(run(c.handle, c.x.data, implicit_gemm), CUDNN_STATUS_NOT_SUPPORTED) << "compute type";
}

TEST(Convolution, HalfAcceptsHalfCompute) {
  ConvolutionCase half{.type = DataType::kHalf};
  Convolution c(half, 4);
  cudnnSetConvolution2dDescriptor(c.conv_desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_HALF);
  EXPECT_OK(c.Run(0, nullptr, 0));
  c.ComputeExpected();
  cudaDeviceSynchronize();
  EXPECT_TRUE(c.y.Matches());
}

}  // namespace
}  // namespace hostgpu::test
