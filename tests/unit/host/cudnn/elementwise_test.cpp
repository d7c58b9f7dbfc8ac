// Tests AddTensor, SetTensor, ScaleTensor, activations and the bias gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kElementwiseDims = {2, 3, 2, 4, 5};

using Elementwise = LayerTest;
INSTANTIATE_TEST_SUITE_P(All, Elementwise, EveryTypeAndLayout());

TEST_P(Elementwise, AddTensorRepeatsTheSmallOne) {
  for (const Index& small : {Index{1, 3, 1, 1, 1}, Index{1, 1, 1, 4, 5}, kElementwiseDims}) {
    DeviceTensor a(small, layout_, type_), c(kElementwiseDims, layout_, type_);
    a.Fill(random_);
    c.Fill(random_);
    ASSERT_OK(
        cudnnAddTensor(handle_, Scale(2), Describe(a), a.data, Scale(-1), Describe(c), c.data));
    c.ForEach([&](const Index& at) {
      Index from;
      for (int i = 0; i < 5; ++i) from[i] = small[i] == 1 ? 0 : at[i];
      c.Set(at, 2 * a.At(from) - c.At(at));
    });
    cudaStreamSynchronize(stream_);
    EXPECT_TRUE(c.Matches());
  }
}

TEST_P(Elementwise, SetAndScale) {
  DeviceTensor y(kElementwiseDims, layout_, type_);
  y.Fill(random_);
  WithElement(type_, [&](auto value) {
    Store(value, 3);
    EXPECT_OK(cudnnSetTensor(handle_, Describe(y), y.data, &value));
  });
  EXPECT_OK(cudnnScaleTensor(handle_, Describe(y), y.data, Scale(-2)));
  y.ForEach([&](const Index& at) { y.Set(at, -6); });
  cudaStreamSynchronize(stream_);
  EXPECT_TRUE(y.Matches());
}

TEST_P(Elementwise, BackwardBiasSumsPerChannel) {
  for (const int dim_count : {4, 5}) {
    const Index dims = {2, 3, dim_count == 4 ? 1 : 2, 4, 5};
    DeviceTensor dy(dims, layout_, type_), db({1, 3, 1, 1, 1}, layout_, type_);
    dy.Fill(random_);
    db.Fill(random_);
    ASSERT_OK(Enqueue([&] {
      return cudnnConvolutionBackwardBias(handle_, Scale(-1), Describe(dy, dim_count), dy.data,
                                          Scale(2), Describe(db, dim_count), db.data);
    }));
    double sums[3] = {};
    dy.ForEach([&](const Index& at) { sums[at[1]] += dy.At(at); });
    db.ForEach([&](const Index& at) { db.Set(at, -sums[at[1]] + 2 * db.At(at)); });
    EXPECT_TRUE(db.Matches());
  }
}

TEST_P(Elementwise, ActivationsAndTheirSlopes) {
  // The result is computed in fp32 or better, has a magnitude below 4, and is rounded once to its
  // type.
  const double tolerance = type_ == DataType::kDouble  ? 1e-13
                           : type_ == DataType::kFloat ? 4e-6
                           : type_ == DataType::kHalf  ? std::ldexp(4, -11)
                                                       : std::ldexp(4, -8);
  cudnnActivationDescriptor_t activation;
  cudnnCreateActivationDescriptor(&activation);
  for (cudnnActivationMode_t mode :
       {CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_TANH,
        CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_ACTIVATION_ELU, CUDNN_ACTIVATION_SWISH}) {
    cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0.5);
    const auto f = [&](double x) {
      switch (mode) {
        case CUDNN_ACTIVATION_SIGMOID:
          return 1 / (1 + std::exp(-x));
        case CUDNN_ACTIVATION_RELU:
          return std::fmax(x, 0);
        case CUDNN_ACTIVATION_TANH:
          return std::tanh(x);
        case CUDNN_ACTIVATION_CLIPPED_RELU:
          return std::fmin(std::fmax(x, 0), 0.5);
        case CUDNN_ACTIVATION_ELU:
          return x > 0 ? x : 0.5 * (std::exp(x) - 1);
        default:
          return x / (1 + std::exp(-x));
      }
    };
    DeviceTensor x(kElementwiseDims, layout_, type_), y(kElementwiseDims, layout_, type_),
        dy(kElementwiseDims, layout_, type_), dx(kElementwiseDims, layout_, type_);
    x.Fill(random_);
    // No input lies where a slope jumps.
    x.FillWith([&](const Index& at) { return x.At(at) + 0.25; });
    dy.Fill(random_);
    ASSERT_OK(cudnnActivationForward(handle_, activation, Scale(1), Describe(x), x.data, Scale(0),
                                     Describe(y), y.data));
    ASSERT_OK(cudnnActivationBackward(handle_, activation, Scale(1), Describe(y), y.data,
                                      Describe(dy), dy.data, Describe(x), x.data, Scale(0),
                                      Describe(dx), dx.data));
    ASSERT_OK(cudaStreamSynchronize(stream_));
    y.Download();
    dx.Download();
    x.ForEach([&](const Index& at) {
      const double step = 1e-6, value = x.At(at);
      const double slope = (f(value + step) - f(value - step)) / (2 * step);
      EXPECT_NEAR(y.At(at), f(value), tolerance) << "mode " << mode;
      // The slope may be computed from a rounded y, hence 3 tolerances.
      EXPECT_NEAR(dx.At(at), dy.At(at) * slope, 3 * tolerance + 1e-8) << "mode " << mode;
    });
  }
  cudnnDestroyActivationDescriptor(activation);
}

TEST_P(Elementwise, RefusesShapesThatDoNotFit) {
  DeviceTensor a({1, 2, 1, 1, 1}, layout_, type_), c(kElementwiseDims, layout_, type_);
  EXPECT_EQ(cudnnAddTensor(handle_, Scale(1), Describe(a), a.data, Scale(1), Describe(c), c.data),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnConvolutionBackwardBias(handle_, Scale(1), Describe(c), c.data, Scale(0),
                                         Describe(a), a.data),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnScaleTensor(nullptr, Describe(c), c.data, Scale(1)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnScaleTensor(handle_, Describe(c), nullptr, Scale(1)), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace hostgpu::test
