// Descriptors of pooling and OpTensor, pooling's output extents and the descriptors derived for
// batch normalisation: as the real library, status by status and value by value.
//
// Left out, because the real library crashes or reads uninitialised memory there: null arrays
// and result pointers, a derived descriptor of no image, reading a descriptor never set,
// dividing by a stride of 0 that a refused setter left behind.
#include "tests/unit/host/cudnn/random_calls.h"

namespace {

constexpr int kLayerCalls = 30000;

class LayerDescriptorConformance : public RandomCalls {
 protected:
  cudnnPoolingMode_t PoolingMode() {
    return static_cast<cudnnPoolingMode_t>(Chance(92) ? Between(0, 3) : Pick({-1, 4, 100}));
  }
  cudnnNanPropagation_t Nan() {
    return static_cast<cudnnNanPropagation_t>(Chance(92) ? Between(0, 1) : Pick({-1, 2}));
  }
  void ImageCall();
  void PoolingCall();
  void OutputCall();
  bool StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling);
  void OpTensorCall();
  void DeriveCall();
  // Values and strides of a tensor, after a call that may have changed them.
  static void AppendTensor(Outcome& outcome, const Library& library,
                           cudnnTensorDescriptor_t tensor) {
    int v[25];
    std::fill_n(v, 25, kUntouched);
    auto type = static_cast<cudnnDataType_t>(kUntouched);
    outcome.push_back(library.cudnnGetTensorNdDescriptor(tensor, 8, &type, v, v + 1, v + 13));
    outcome.push_back(type);
    Append(outcome, v, 25);
  }

  std::array<Twin<cudnnTensorDescriptor_t>, 3> images_;
  std::array<Twin<cudnnTensorDescriptor_t>, 2> derived_;
  std::array<Twin<cudnnPoolingDescriptor_t>, 3> poolings_;
  std::array<Twin<cudnnOpTensorDescriptor_t>, 2> operations_;
};

void LayerDescriptorConformance::ImageCall() {
  const auto twin = images_[Between(0, 2)];
  const auto d = Extents();
  const auto type = Type();
  const int count = DimCount();
  if (Chance(50)) {
    const auto s = Strides();
    return Compare("SetTensorNd", [&](const Library& l, const int* side) -> Outcome {
      return {l.cudnnSetTensorNdDescriptor(On(twin, side), type, count, d.data(), s.data())};
    });
  }
  const auto format = Format();
  const int safe = count < 3 ? 4 : count;  // see descriptor_conformance_test.cpp
  Compare("SetTensorNdEx", [&](const Library& l, const int* side) -> Outcome {
    return {l.cudnnSetTensorNdDescriptorEx(On(twin, side), format, type, safe, d.data())};
  });
}

void LayerDescriptorConformance::PoolingCall() {
  const auto twin = One(poolings_);
  const auto mode = PoolingMode();
  const auto nan = Nan();
  const auto w = Windows(1), p = Windows(0), s = Windows(1);
  switch (Between(0, 4)) {
    case 0:
    case 1:
      return Compare("SetPooling2d", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetPooling2dDescriptor(On(twin, side), mode, nan, w[0], w[1], p[0], p[1],
                                              s[0], s[1])};
      });
    case 2: {
      const int count = Chance(80) ? Between(1, 4) : Between(-1, 9);
      return Compare("SetPoolingNd", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetPoolingNdDescriptor(On(twin, side), mode, nan, count, w.data(), p.data(),
                                              s.data())};
      });
    }
    case 3:
      return Compare("GetPooling2d", [&](const Library& l, const int* side) {
        int v[6];
        std::fill_n(v, 6, kUntouched);
        auto mode_now = static_cast<cudnnPoolingMode_t>(kUntouched);
        auto nan_now = static_cast<cudnnNanPropagation_t>(kUntouched);
        Outcome outcome{l.cudnnGetPooling2dDescriptor(On(twin, side), &mode_now, &nan_now, v, v + 1,
                                                      v + 2, v + 3, v + 4, v + 5)};
        outcome.insert(outcome.end(), {mode_now, nan_now});
        Append(outcome, v, 6);
        return outcome;
      });
    default: {
      const int requested = Between(-1, 9);
      return Compare("GetPoolingNd", [&](const Library& l, const int* side) {
        int v[31];
        std::fill_n(v, 31, kUntouched);
        auto mode_now = static_cast<cudnnPoolingMode_t>(kUntouched);
        auto nan_now = static_cast<cudnnNanPropagation_t>(kUntouched);
        Outcome outcome{l.cudnnGetPoolingNdDescriptor(On(twin, side), requested, &mode_now,
                                                      &nan_now, v, v + 1, v + 11, v + 21)};
        outcome.insert(outcome.end(), {mode_now, nan_now});
        Append(outcome, v, 31);
        return outcome;
      });
    }
  }
}

// False where a refused setter left a stride of 0 behind.
bool LayerDescriptorConformance::StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling) {
  if (pooling.real == nullptr) return true;
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  int count, window[6], pad[6], stride[6];
  real_.cudnnGetPoolingNdDescriptor(pooling.real, 6, &mode, &nan, &count, window, pad, stride);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}

void LayerDescriptorConformance::OutputCall() {
  const auto pooling = One(poolings_);
  const auto image = One(images_);
  if (!StridesDivide(pooling)) return;
  if (Chance(50)) {
    return Compare("PoolingOutput2d", [&](const Library& l, const int* side) {
      int v[4];
      std::fill_n(v, 4, kUntouched);
      Outcome outcome{l.cudnnGetPooling2dForwardOutputDim(On(pooling, side), On(image, side), v,
                                                          v + 1, v + 2, v + 3)};
      Append(outcome, v, 4);
      return outcome;
    });
  }
  const int count = Chance(75) ? Between(3, 6) : Between(-1, 10);
  Compare("PoolingOutputNd", [&](const Library& l, const int* side) {
    int v[12];
    std::fill_n(v, 12, kUntouched);
    Outcome outcome{
        l.cudnnGetPoolingNdForwardOutputDim(On(pooling, side), On(image, side), count, v)};
    Append(outcome, v, 12);
    return outcome;
  });
}

void LayerDescriptorConformance::OpTensorCall() {
  const auto twin = One(operations_);
  const auto op = static_cast<cudnnOpTensorOp_t>(Between(-1, 7));
  const auto type = Type();
  const auto nan = Nan();
  if (Chance(50)) {
    return Compare("SetOpTensor", [&](const Library& l, const int* side) -> Outcome {
      return {l.cudnnSetOpTensorDescriptor(On(twin, side), op, type, nan)};
    });
  }
  Compare("GetOpTensor", [&](const Library& l, const int* side) -> Outcome {
    auto op_now = static_cast<cudnnOpTensorOp_t>(kUntouched);
    auto type_now = static_cast<cudnnDataType_t>(kUntouched);
    auto nan_now = static_cast<cudnnNanPropagation_t>(kUntouched);
    const auto status = l.cudnnGetOpTensorDescriptor(On(twin, side), &op_now, &type_now, &nan_now);
    return {status, op_now, type_now, nan_now};
  });
}

void LayerDescriptorConformance::DeriveCall() {
  const auto derived = One(derived_);
  const auto image = images_[Between(0, 2)];
  const auto mode = static_cast<cudnnBatchNormMode_t>(Chance(90) ? Between(0, 2) : Pick({-1, 3}));
  Compare("DeriveBNTensor", [&](const Library& l, const int* side) {
    Outcome outcome{l.cudnnDeriveBNTensorDescriptor(On(derived, side), On(image, side), mode)};
    AppendTensor(outcome, l, On(derived, side));
    return outcome;
  });
}

TEST_F(LayerDescriptorConformance, RandomCallsAnswerAsTheRealLibrary) {
  for (auto* pool : {&images_[0], &images_[1], &images_[2], &derived_[0], &derived_[1]}) {
    real_.cudnnCreateTensorDescriptor(&pool->real);
    ours_.cudnnCreateTensorDescriptor(&pool->ours);
  }
  for (auto& twin : poolings_) {
    real_.cudnnCreatePoolingDescriptor(&twin.real);
    ours_.cudnnCreatePoolingDescriptor(&twin.ours);
  }
  for (auto& twin : operations_) {
    real_.cudnnCreateOpTensorDescriptor(&twin.real);
    ours_.cudnnCreateOpTensorDescriptor(&twin.ours);
    real_.cudnnSetOpTensorDescriptor(twin.real, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
                                     CUDNN_PROPAGATE_NAN);
    ours_.cudnnSetOpTensorDescriptor(twin.ours, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
                                     CUDNN_PROPAGATE_NAN);
  }
  while (calls_ < kLayerCalls) {
    switch (Between(0, 9)) {
      case 0:
      case 1:
        ImageCall();
        break;
      case 2:
      case 3:
      case 4:
        PoolingCall();
        break;
      case 5:
      case 6:
        OutputCall();
        break;
      case 7:
        OpTensorCall();
        break;
      default:
        DeriveCall();
    }
    if (HasFatalFailure()) return;
  }
  ReportCalls();
  EXPECT_GE(3 * refused_, calls_) << "at least a third of the calls are to be invalid";
  EXPECT_GE(3 * (calls_ - refused_), calls_) << "and a third valid";
  for (auto& twin : poolings_) {
    EXPECT_EQ(ours_.cudnnDestroyPoolingDescriptor(twin.ours),
              real_.cudnnDestroyPoolingDescriptor(twin.real));
  }
  for (auto& twin : operations_) {
    EXPECT_EQ(ours_.cudnnDestroyOpTensorDescriptor(twin.ours),
              real_.cudnnDestroyOpTensorDescriptor(twin.real));
  }
  for (auto* pool : {&images_[0], &images_[1], &images_[2], &derived_[0], &derived_[1]}) {
    real_.cudnnDestroyTensorDescriptor(pool->real);
    ours_.cudnnDestroyTensorDescriptor(pool->ours);
  }
}

TEST_F(LayerDescriptorConformance, CreatingNowhereAndDestroyingNothing) {
  EXPECT_EQ(ours_.cudnnCreatePoolingDescriptor(nullptr),
            real_.cudnnCreatePoolingDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyPoolingDescriptor(nullptr),
            real_.cudnnDestroyPoolingDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnCreateOpTensorDescriptor(nullptr),
            real_.cudnnCreateOpTensorDescriptor(nullptr));
  EXPECT_EQ(ours_.cudnnDestroyOpTensorDescriptor(nullptr),
            real_.cudnnDestroyOpTensorDescriptor(nullptr));
}

}  // namespace
