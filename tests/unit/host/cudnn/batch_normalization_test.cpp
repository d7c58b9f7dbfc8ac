// Tests batch normalisation against its definition in fp64, and its gradients against finite
// differences of the definition.
#include <cmath>
#include <map>

#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kDims = {3, 2, 2, 2, 3};
constexpr double kEpsilon = 0.01;
constexpr cudnnBatchNormMode_t kModes[] = {CUDNN_BATCHNORM_PER_ACTIVATION, CUDNN_BATCHNORM_SPATIAL,
                                           CUDNN_BATCHNORM_SPATIAL_PERSISTENT};

// Returns the index of the parameter that applies to element `at`.
Index ParameterOf(const Index& at, cudnnBatchNormMode_t mode) {
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION) return {0, at[1], at[2], at[3], at[4]};
  return {0, at[1], 0, 0, 0};
}

struct Statistics {
  Values mean, variance;  // `variance` is the biased one
  double count = 0;       // elements that share a parameter
};

Statistics StatisticsOf(const Values& x, cudnnBatchNormMode_t mode) {
  Statistics result;
  std::map<Index, double> counts;
  for (const auto& [at, value] : x) ++counts[ParameterOf(at, mode)];
  for (const auto& [at, value] : x) {
    const Index p = ParameterOf(at, mode);
    result.mean[p] += value / counts[p];
  }
  for (const auto& [at, value] : x) {
    const Index p = ParameterOf(at, mode);
    result.variance[p] += (value - result.mean[p]) * (value - result.mean[p]) / counts[p];
  }
  result.count = counts.begin()->second;
  return result;
}

Values Normalized(const Values& x, Statistics statistics, Values scale, Values bias,
                  cudnnBatchNormMode_t mode) {
  Values y;
  for (const auto& [at, value] : x) {
    const Index p = ParameterOf(at, mode);
    y[at] = scale[p] * (value - statistics.mean[p]) / std::sqrt(statistics.variance[p] + kEpsilon) +
            bias[p];
  }
  return y;
}

class BatchNormalizationTest : public LayerTest {
 protected:
  // A scale, bias or statistic. Its type is fp64 if the data are fp64, and fp32 otherwise.
  struct Parameter : DeviceTensor {
    Parameter(cudnnBatchNormMode_t mode, DataType type)
        : DeviceTensor(mode == CUDNN_BATCHNORM_PER_ACTIVATION
                           ? Index{1, kDims[1], kDims[2], kDims[3], kDims[4]}
                           : Index{1, kDims[1], 1, 1, 1},
                       Layout::kNchw,
                       type == DataType::kDouble ? DataType::kDouble : DataType::kFloat) {}
  };

  cudnnTensorDescriptor_t Derive(const DeviceTensor& x, cudnnBatchNormMode_t mode) {
    cudnnTensorDescriptor_t derived;
    cudnnCreateTensorDescriptor(&derived);
    EXPECT_OK(cudnnDeriveBNTensorDescriptor(derived, Describe(x), mode));
    descriptors_.push_back(derived);
    return derived;
  }
  // Statistics are rounded to the type of the parameters, never to a narrower type of the data.
  double ParameterTolerance() const { return type_ == DataType::kDouble ? 1e-12 : 1e-5; }
};

INSTANTIATE_TEST_SUITE_P(All, BatchNormalizationTest, EveryTypeAndLayout());

TEST_P(BatchNormalizationTest, TrainingNormalizesAndKeepsStatistics) {
  for (const auto mode : kModes) {
    SCOPED_TRACE(testing::Message() << "mode " << mode);
    DeviceTensor x(kDims, layout_, type_), y(kDims, Layout::kPadded, type_);
    Parameter scale(mode, type_), bias(mode, type_), mean(mode, type_), variance(mode, type_),
        saved_mean(mode, type_), saved_inverse(mode, type_);
    FillReal(x, scale, bias, mean, variance);
    y.Fill(random_);
    ASSERT_OK(Enqueue([&] {
      return cudnnBatchNormalizationForwardTraining(
          handle_, mode, Scale(2), Scale(-1), Describe(x), x.data, Describe(y), y.data,
          Derive(x, mode), scale.data, bias.data, 0.25, mean.data, variance.data, kEpsilon,
          saved_mean.data, saved_inverse.data);
    }));
    Statistics now = StatisticsOf(ValuesOf(x), mode);
    const Values before = ValuesOf(y), mean_before = ValuesOf(mean),
                 variance_before = ValuesOf(variance);
    const Values normalized = Normalized(ValuesOf(x), now, ValuesOf(scale), ValuesOf(bias), mode);
    y.Download();
    mean.Download();
    variance.Download();
    saved_mean.Download();
    saved_inverse.Download();
    for (const auto& [at, value] : normalized) {
      ASSERT_NEAR(y.At(at), 2 * value - before.at(at), Tolerance(32));
    }
    for (const auto& [p, value] : now.mean) {
      const double unbiased = now.variance[p] * now.count / (now.count - 1);
      EXPECT_NEAR(mean.At(p), 0.25 * value + 0.75 * mean_before.at(p), ParameterTolerance());
      EXPECT_NEAR(variance.At(p), 0.25 * unbiased + 0.75 * variance_before.at(p),
                  ParameterTolerance());
      EXPECT_NEAR(saved_mean.At(p), value, ParameterTolerance());
      EXPECT_NEAR(saved_inverse.At(p), 1 / std::sqrt(now.variance[p] + kEpsilon),
                  10 * ParameterTolerance());
    }
  }
}

TEST_P(BatchNormalizationTest, FirstStepReadsNoRunningStatisticsAndNoOutput) {
  const auto mode = CUDNN_BATCHNORM_SPATIAL;
  DeviceTensor x(kDims, layout_, type_), y(kDims, layout_, type_);
  Parameter scale(mode, type_), bias(mode, type_), mean(mode, type_), variance(mode, type_);
  FillReal(x);
  LayerTest::Fill(y, NAN);
  LayerTest::Fill(scale, 0);
  LayerTest::Fill(bias, 3);
  LayerTest::Fill(mean, NAN);
  LayerTest::Fill(variance, NAN);
  ASSERT_OK(Enqueue([&] {
    return cudnnBatchNormalizationForwardTraining(handle_, mode, Scale(1), Scale(0), Describe(x),
                                                  x.data, Describe(y), y.data, Derive(x, mode),
                                                  scale.data, bias.data, 1, mean.data,
                                                  variance.data, kEpsilon, nullptr, nullptr);
  }));
  y.ForEach([&](const Index& at) { y.Set(at, 3); });
  EXPECT_TRUE(y.Matches());
  Statistics now = StatisticsOf(ValuesOf(x), mode);
  mean.Download();
  for (const auto& [p, value] : now.mean) EXPECT_NEAR(mean.At(p), value, ParameterTolerance());
  // The pointers to the running statistics may be null.
  EXPECT_OK(Enqueue([&] {
    return cudnnBatchNormalizationForwardTraining(
        handle_, mode, Scale(1), Scale(0), Describe(x), x.data, Describe(y), y.data,
        Derive(x, mode), scale.data, bias.data, 1, nullptr, nullptr, kEpsilon, nullptr, nullptr);
  }));
  EXPECT_TRUE(y.Matches());
}

TEST_P(BatchNormalizationTest, InferenceUsesTheEstimates) {
  for (const auto mode : kModes) {
    SCOPED_TRACE(testing::Message() << "mode " << mode);
    DeviceTensor x(kDims, layout_, type_), y(kDims, layout_, type_);
    Parameter scale(mode, type_), bias(mode, type_), mean(mode, type_), variance(mode, type_);
    FillReal(x, scale, bias, mean, variance);
    variance.FillWith([&](const Index& at) { return 1 + std::abs(variance.At(at)); });
    y.Fill(random_);
    ASSERT_OK(Enqueue([&] {
      return cudnnBatchNormalizationForwardInference(
          handle_, mode, Scale(2), Scale(-1), Describe(x), x.data, Describe(y), y.data,
          Derive(x, mode), scale.data, bias.data, mean.data, variance.data, kEpsilon);
    }));
    const Values before = ValuesOf(y);
    const Values normalized = Normalized(ValuesOf(x), {ValuesOf(mean), ValuesOf(variance), 0},
                                         ValuesOf(scale), ValuesOf(bias), mode);
    y.Download();
    for (const auto& [at, value] : normalized) {
      ASSERT_NEAR(y.At(at), 2 * value - before.at(at), Tolerance(32));
    }
    EXPECT_TRUE(mean.Matches());
    EXPECT_TRUE(variance.Matches());
  }
}

// Backward is called with and without the statistics that training saved.
TEST_P(BatchNormalizationTest, GradientsAreTheFiniteDifferences) {
  for (const auto mode : kModes) {
    for (const bool saved : {true, false}) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << ", saved " << saved);
      DeviceTensor x(kDims, layout_, type_), y(kDims, layout_, type_), dy(kDims, layout_, type_),
          dx(kDims, Layout::kPadded, type_);
      Parameter scale(mode, type_), bias(mode, type_), mean(mode, type_), inverse(mode, type_),
          dscale(mode, type_), dbias(mode, type_);
      FillReal(x, scale, bias);
      for (DeviceTensor* tensor : std::initializer_list<DeviceTensor*>{&dy, &dx, &dscale, &dbias}) {
        tensor->Fill(random_);
      }
      const auto derived = Derive(x, mode);
      ASSERT_OK(Enqueue([&] {
        const cudnnStatus_t status = cudnnBatchNormalizationForwardTraining(
            handle_, mode, Scale(1), Scale(0), Describe(x), x.data, Describe(y), y.data, derived,
            scale.data, bias.data, 1, nullptr, nullptr, kEpsilon, mean.data, inverse.data);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        return cudnnBatchNormalizationBackward(
            handle_, mode, Scale(2), Scale(-1), Scale(3), Scale(1), Describe(x), x.data,
            Describe(dy), dy.data, Describe(dx), dx.data, derived, scale.data, dscale.data,
            dbias.data, kEpsilon, saved ? mean.data : nullptr, saved ? inverse.data : nullptr);
      }));
      const Values dx_before = ValuesOf(dx), dscale_before = ValuesOf(dscale),
                   dbias_before = ValuesOf(dbias);
      dx.Download();
      dscale.Download();
      dbias.Download();
      Values point = ValuesOf(x), scales = ValuesOf(scale), biases = ValuesOf(bias);
      const auto loss = [&] {
        double sum = 0;
        for (const auto& [at, value] :
             Normalized(point, StatisticsOf(point, mode), scales, biases, mode)) {
          sum += value * dy.At(at);
        }
        return sum;
      };
      // A central difference with step 1e-5 is off by about 1e-10 times the third derivative. This
      // derivative is at most the third power of the inverse deviation, 1 / sqrt(kEpsilon) = 10.
      // 1e-6 is ten times 1e-10 * 10^3.
      const double left_out = 1e-6;
      for (auto& [at, value] : point) {
        ASSERT_NEAR(dx.At(at), 2 * Slope(value, loss) - dx_before.at(at), Tolerance(64) + left_out);
      }
      for (auto& [p, value] : scales) {
        EXPECT_NEAR(dscale.At(p), 3 * Slope(value, loss) + dscale_before.at(p),
                    100 * ParameterTolerance() + left_out);
      }
      for (auto& [p, value] : biases) {
        EXPECT_NEAR(dbias.At(p), 3 * Slope(value, loss) + dbias_before.at(p),
                    100 * ParameterTolerance() + left_out);
      }
    }
  }
}

}  // namespace
}  // namespace hostgpu::test
