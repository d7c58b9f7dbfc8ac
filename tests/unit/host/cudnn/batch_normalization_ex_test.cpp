// Tests that batch normalisation's Ex calls without an activation give the same results as the
// plain calls, and what the Ex calls refuse.
#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kShape = {3, 2, 2, 2, 3};
constexpr double kSmall = 0.01;
constexpr auto kBn = CUDNN_BATCHNORM_OPS_BN;

// Holds the tensors of a layer, with the same values in every instance.
struct Norm {
  Norm(cudnnBatchNormMode_t norm_mode, DataType type, Layout layout)
      : mode(norm_mode),
        x(kShape, layout, type),
        y(kShape, layout, type),
        dy(kShape, layout, type),
        dx(kShape, Layout::kPadded, type),
        parameters{Make(), Make(), Make(), Make(), Make(), Make(), Make(), Make()} {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> values(-2, 2);
    for (DeviceTensor* tensor : Tensors()) {
      tensor->FillWith([&](const Index&) { return values(random); });
    }
  }

  std::unique_ptr<DeviceTensor> Make() const {
    const Index shape = mode == CUDNN_BATCHNORM_PER_ACTIVATION
                            ? Index{1, kShape[1], kShape[2], kShape[3], kShape[4]}
                            : Index{1, kShape[1], 1, 1, 1};
    return std::make_unique<DeviceTensor>(
        shape, Layout::kNchw, x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat);
  }
  std::vector<DeviceTensor*> Tensors() const {
    std::vector<DeviceTensor*> all = {&x, &y, &dy, &dx};
    for (const auto& parameter : parameters) all.push_back(parameter.get());
    return all;
  }
  void* Parameter(size_t i) const { return parameters[i]->data; }
  void* scale() const { return Parameter(0); }
  void* bias() const { return Parameter(1); }
  void* mean() const { return Parameter(2); }
  void* variance() const { return Parameter(3); }
  void* saved_mean() const { return Parameter(4); }
  void* saved_inverse() const { return Parameter(5); }
  void* dscale() const { return Parameter(6); }
  void* dbias() const { return Parameter(7); }

  const cudnnBatchNormMode_t mode;
  mutable DeviceTensor x, y, dy, dx;
  const std::array<std::unique_ptr<DeviceTensor>, 8> parameters;
};

class BatchNormalizationExTest : public LayerTest {
 protected:
  struct Descriptors {
    cudnnTensorDescriptor_t x, y, dy, dx, parameters;
  };
  Descriptors DescriptorsOf(const Norm& norm) {
    return {Describe(norm.x), Describe(norm.y), Describe(norm.dy), Describe(norm.dx),
            Describe(*norm.parameters[0])};
  }

  cudnnStatus_t TrainEx(const Norm& norm, cudnnBatchNormOps_t operations,
                        cudnnActivationDescriptor_t activation = nullptr) {
    const Descriptors d = DescriptorsOf(norm);
    return Enqueue([&] {
      return cudnnBatchNormalizationForwardTrainingEx(
          handle_, norm.mode, operations, Scale(2), Scale(-1), d.x, norm.x.data, nullptr, nullptr,
          d.y, norm.y.data, d.parameters, norm.scale(), norm.bias(), 0.25, norm.mean(),
          norm.variance(), kSmall, norm.saved_mean(), norm.saved_inverse(), activation, nullptr, 0,
          nullptr, 0);
    });
  }
  cudnnStatus_t Train(const Norm& norm) {
    const Descriptors d = DescriptorsOf(norm);
    return Enqueue([&] {
      return cudnnBatchNormalizationForwardTraining(
          handle_, norm.mode, Scale(2), Scale(-1), d.x, norm.x.data, d.y, norm.y.data, d.parameters,
          norm.scale(), norm.bias(), 0.25, norm.mean(), norm.variance(), kSmall, norm.saved_mean(),
          norm.saved_inverse());
    });
  }
  cudnnStatus_t BackwardEx(const Norm& norm, cudnnBatchNormOps_t operations, bool is_saved,
                           cudnnActivationDescriptor_t activation = nullptr) {
    const Descriptors d = DescriptorsOf(norm);
    return Enqueue([&] {
      return cudnnBatchNormalizationBackwardEx(
          handle_, norm.mode, operations, Scale(2), Scale(-1), Scale(3), Scale(1), d.x, norm.x.data,
          nullptr, nullptr, d.dy, norm.dy.data, nullptr, nullptr, d.dx, norm.dx.data, d.parameters,
          norm.scale(), nullptr, norm.dscale(), norm.dbias(), kSmall,
          is_saved ? norm.saved_mean() : nullptr, is_saved ? norm.saved_inverse() : nullptr,
          activation, nullptr, 0, nullptr, 0);
    });
  }
  cudnnStatus_t Backward(const Norm& norm, bool is_saved) {
    const Descriptors d = DescriptorsOf(norm);
    return Enqueue([&] {
      return cudnnBatchNormalizationBackward(
          handle_, norm.mode, Scale(2), Scale(-1), Scale(3), Scale(1), d.x, norm.x.data, d.dy,
          norm.dy.data, d.dx, norm.dx.data, d.parameters, norm.scale(), norm.dscale(), norm.dbias(),
          kSmall, is_saved ? norm.saved_mean() : nullptr,
          is_saved ? norm.saved_inverse() : nullptr);
    });
  }
  // Sizes() returns the sizes that the three queries report, and kUntold for a query that reports
  // none.
  static constexpr size_t kUntold = 77;
  std::vector<size_t> Sizes(const Norm& norm, cudnnBatchNormOps_t operations,
                            cudnnActivationDescriptor_t activation, cudnnStatus_t expected) {
    const Descriptors d = DescriptorsOf(norm);
    std::vector<size_t> sizes(3, kUntold);
    EXPECT_EQ(
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
            handle_, norm.mode, operations, d.x, nullptr, d.y, d.parameters, activation, &sizes[0]),
        expected);
    EXPECT_EQ(cudnnGetBatchNormalizationBackwardExWorkspaceSize(
                  handle_, norm.mode, operations, d.x, nullptr, d.dy, nullptr, d.dx, d.parameters,
                  activation, &sizes[1]),
              expected);
    EXPECT_EQ(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle_, norm.mode, operations,
                                                                   activation, d.x, &sizes[2]),
              expected);
    return sizes;
  }

  // Expects that all tensors of both layers hold the same bytes, gaps included.
  static void ExpectEqual(const Norm& one, const Norm& other) {
    const auto left = one.Tensors(), right = other.Tensors();
    for (size_t i = 0; i < left.size(); ++i) {
      left[i]->Download();
      right[i]->Download();
      EXPECT_EQ(left[i]->bytes, right[i]->bytes) << "tensor " << i;
    }
  }
  static void ExpectUntouched(const Norm& norm) {
    for (const DeviceTensor* tensor : norm.Tensors()) EXPECT_TRUE(tensor->Matches());
  }
};

INSTANTIATE_TEST_SUITE_P(All, BatchNormalizationExTest, EveryTypeAndLayout());

constexpr cudnnBatchNormMode_t kEveryMode[] = {
    CUDNN_BATCHNORM_PER_ACTIVATION, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_SPATIAL_PERSISTENT};

TEST_P(BatchNormalizationExTest, WithoutActivationIsThePlainCallToTheBit) {
  for (const auto mode : kEveryMode) {
    for (const bool is_saved : {true, false}) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << ", saved " << is_saved);
      const Norm plain(mode, type_, layout_), extended(mode, type_, layout_);
      ASSERT_OK(Train(plain));
      ASSERT_OK(TrainEx(extended, kBn));
      ASSERT_OK(Backward(plain, is_saved));
      ASSERT_OK(BackwardEx(extended, kBn, is_saved));
      ExpectEqual(plain, extended);
    }
  }
}

TEST_P(BatchNormalizationExTest, NeedsNoWorkspaceAndNoReserveSpace) {
  for (const auto mode : kEveryMode) {
    const Norm norm(mode, type_, layout_);
    EXPECT_EQ(Sizes(norm, kBn, nullptr, CUDNN_STATUS_SUCCESS), std::vector<size_t>(3, 0));
  }
}

TEST_P(BatchNormalizationExTest, WhatHasAnActivationIsNotSupported) {
  cudnnActivationDescriptor_t relu = nullptr;
  ASSERT_OK(cudnnCreateActivationDescriptor(&relu));
  ASSERT_OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  const Norm norm(CUDNN_BATCHNORM_SPATIAL, type_, layout_);
  for (const auto operations :
       {CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION}) {
    EXPECT_EQ(TrainEx(norm, operations, relu), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(BackwardEx(norm, operations, true, relu), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(Sizes(norm, operations, relu, CUDNN_STATUS_NOT_SUPPORTED),
              std::vector<size_t>(3, kUntold));
  }
  ExpectUntouched(norm);
  cudnnDestroyActivationDescriptor(relu);
}

}  // namespace
}  // namespace hostgpu::test
