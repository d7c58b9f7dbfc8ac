// Tests softmax against its definition in fp64, and its gradient against finite differences of the
// definition.
#include <cmath>

#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kSoftmaxDims = {2, 5, 2, 2, 3};
constexpr cudnnSoftmaxAlgorithm_t kAlgorithms[] = {CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_ACCURATE,
                                                   CUDNN_SOFTMAX_LOG};
constexpr cudnnSoftmaxMode_t kSoftmaxModes[] = {CUDNN_SOFTMAX_MODE_INSTANCE,
                                                CUDNN_SOFTMAX_MODE_CHANNEL};

// Returns the same index for all elements whose exponentials are summed together.
Index GroupOf(const Index& at, cudnnSoftmaxMode_t mode) {
  if (mode == CUDNN_SOFTMAX_MODE_INSTANCE) return {at[0], 0, 0, 0, 0};
  return {at[0], 0, at[2], at[3], at[4]};
}

Values Softmax(const Values& x, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode) {
  Values sums, y;
  for (const auto& [at, value] : x) sums[GroupOf(at, mode)] += std::exp(value);
  for (const auto& [at, value] : x) {
    const double share = std::exp(value) / sums[GroupOf(at, mode)];
    y[at] = algorithm == CUDNN_SOFTMAX_LOG ? std::log(share) : share;
  }
  return y;
}

class SoftmaxTest : public LayerTest {
 protected:
  cudnnStatus_t Forward(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                        const DeviceTensor& x, const DeviceTensor& y, double alpha = 1,
                        double beta = 0) {
    return cudnnSoftmaxForward(handle_, algorithm, mode, Scale(alpha), Describe(x), x.data,
                               Scale(beta), Describe(y), y.data);
  }
};
INSTANTIATE_TEST_SUITE_P(All, SoftmaxTest, EveryTypeAndLayout());

TEST_P(SoftmaxTest, ForwardIsTheDefinition) {
  for (const auto algorithm : kAlgorithms) {
    for (const auto mode : kSoftmaxModes) {
      SCOPED_TRACE(testing::Message() << "algorithm " << algorithm << ", mode " << mode);
      // The output may have another layout than the input.
      DeviceTensor x(kSoftmaxDims, layout_, type_), y(kSoftmaxDims, Layout::kPadded, type_);
      FillReal(x);
      y.Fill(random_);
      ASSERT_OK(Enqueue([&] { return Forward(algorithm, mode, x, y, 2, -1); }));
      const Values expected = Softmax(ValuesOf(x), algorithm, mode), before = ValuesOf(y);
      y.Download();
      for (const auto& [at, value] : expected) {
        ASSERT_NEAR(y.At(at), 2 * value - before.at(at), Tolerance(16));
      }
    }
  }
}

TEST_P(SoftmaxTest, GradientIsTheFiniteDifference) {
  for (const auto algorithm : kAlgorithms) {
    for (const auto mode : kSoftmaxModes) {
      SCOPED_TRACE(testing::Message() << "algorithm " << algorithm << ", mode " << mode);
      DeviceTensor x(kSoftmaxDims, layout_, type_), y(kSoftmaxDims, layout_, type_),
          dy(kSoftmaxDims, layout_, type_), dx(kSoftmaxDims, Layout::kPadded, type_);
      FillReal(x);
      dy.Fill(random_);
      dx.Fill(random_);
      ASSERT_OK(Enqueue([&] {
        const cudnnStatus_t status = Forward(algorithm, mode, x, y);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        return cudnnSoftmaxBackward(handle_, algorithm, mode, Scale(2), Describe(y), y.data,
                                    Describe(dy), dy.data, Scale(-1), Describe(dx), dx.data);
      }));
      const Values before = ValuesOf(dx);
      dx.Download();
      Values point = ValuesOf(x);
      const auto loss = [&] {
        double sum = 0;
        for (const auto& [at, value] : Softmax(point, algorithm, mode)) sum += value * dy.At(at);
        return sum;
      };
      for (auto& [at, value] : point) {
        // y is rounded to the type before its gradient is taken; sums have up to 60 terms.
        ASSERT_NEAR(dx.At(at), 2 * Slope(value, loss) - before.at(at), Tolerance(256) + 1e-8);
      }
    }
  }
}

TEST_P(SoftmaxTest, LargeInputsOverflowInTheFastAlgorithmAlone) {
  DeviceTensor x(kSoftmaxDims, layout_, type_), y(kSoftmaxDims, layout_, type_);
  LayerTest::Fill(x, 1000);
  for (const auto algorithm : kAlgorithms) {
    ASSERT_OK(Enqueue([&] { return Forward(algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, x, y); }));
    y.Download();
    const double value = y.At({1, 4, 1, 1, 2});
    if (algorithm == CUDNN_SOFTMAX_FAST) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_NEAR(value, algorithm == CUDNN_SOFTMAX_LOG ? std::log(0.2) : 0.2, Tolerance(2));
    }
  }
}

TEST_P(SoftmaxTest, WorksInPlace) {
  DeviceTensor x(kSoftmaxDims, layout_, type_);
  FillReal(x);
  const Values expected = Softmax(ValuesOf(x), CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE);
  ASSERT_OK(
      Enqueue([&] { return Forward(CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, x, x); }));
  x.Download();
  for (const auto& [at, value] : expected) ASSERT_NEAR(x.At(at), value, Tolerance(1));
}

}  // namespace
}  // namespace hostgpu::test
