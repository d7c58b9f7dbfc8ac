// The descriptor functions answer as the real library does: status codes, values, and what a
// refused call leaves behind. Random calls on a few long-lived descriptors, so that state is
// compared too.
//
// Left out, because the real library crashes or reads uninitialised memory there: null arrays
// and result pointers, a two-dimensional NHWC tensor, a vector layout of fewer than two dimensions,
// reading an activation never set, dividing by a stride of 0 that a refused setter left behind.
#include "tests/unit/host/cudnn/random_calls.h"

namespace {

constexpr int kCalls = 40000;

class DescriptorConformance : public RandomCalls {
 protected:
  void TensorCall();
  void FilterCall();
  void ConvolutionCall();
  void OutputCall();
  void ActivationCall();
  bool StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution);

  std::array<Twin<cudnnTensorDescriptor_t>, 4> tensors_;
  std::array<Twin<cudnnFilterDescriptor_t>, 4> filters_;
  std::array<Twin<cudnnConvolutionDescriptor_t>, 4> convolutions_;
  std::array<Twin<cudnnActivationDescriptor_t>, 2> activations_;
};

void DescriptorConformance::TensorCall() {
  const auto twin = One(tensors_);
  switch (Between(0, 8)) {
    case 0: {
      const auto d = Extents();
      const auto format = Format();
      const auto type = Type();
      return Compare("SetTensor4d", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetTensor4dDescriptor(On(twin, side), format, type, d[0], d[1], d[2], d[3])};
      });
    }
    case 1: {
      const auto d = Extents();
      const auto s = Strides();
      const auto type = Type();
      return Compare("SetTensor4dEx", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetTensor4dDescriptorEx(On(twin, side), type, d[0], d[1], d[2], d[3], s[0],
                                               s[1], s[2], s[3])};
      });
    }
    case 2:
    case 3: {
      const auto d = Extents();
      const auto s = Strides();
      const auto type = Type();
      const int count = DimCount();
      return Compare("SetTensorNd", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetTensorNdDescriptor(On(twin, side), type, count, d.data(), s.data())};
      });
    }
    case 4:
    case 5: {
      const auto d = Extents();
      const auto type = Type();
      const auto format = Format();
      int count = DimCount();
      if (format == CUDNN_TENSOR_NHWC && count == 2) count = 4;
      if (format == CUDNN_TENSOR_NCHW_VECT_C && count < 2) count = 5;
      return Compare("SetTensorNdEx", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetTensorNdDescriptorEx(On(twin, side), format, type, count, d.data())};
      });
    }
    case 6:
      return Compare("GetTensor4d", [&](const Library& l, const int* side) {
        int v[8];
        std::fill_n(v, 8, kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        Outcome outcome{l.cudnnGetTensor4dDescriptor(On(twin, side), &type, v, v + 1, v + 2, v + 3,
                                                     v + 4, v + 5, v + 6, v + 7)};
        outcome.push_back(type);
        Append(outcome, v, 8);
        return outcome;
      });
    case 7: {
      const int requested = Between(-1, 10);
      return Compare("GetTensorNd", [&](const Library& l, const int* side) {
        int v[25];
        std::fill_n(v, 25, kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        Outcome outcome{
            l.cudnnGetTensorNdDescriptor(On(twin, side), requested, &type, v, v + 1, v + 13)};
        if (requested < 2) v[2] = kUntouched;
        outcome.push_back(type);
        Append(outcome, v, 25);
        return outcome;
      });
    }
    default:
      return Compare("GetTensorSize", [&](const Library& l, const int* side) -> Outcome {
        size_t bytes = 12345;
        const auto status = l.cudnnGetTensorSizeInBytes(On(twin, side), &bytes);
        return {status, static_cast<int64_t>(bytes)};
      });
  }
}

void DescriptorConformance::FilterCall() {
  const auto twin = One(filters_);
  switch (Between(0, 5)) {
    case 0:
    case 1: {
      const auto d = Extents();
      const auto format = Format();
      const auto type = Type();
      return Compare("SetFilter4d", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetFilter4dDescriptor(On(twin, side), type, format, d[0], d[1], d[2], d[3])};
      });
    }
    case 2: {
      const auto d = Extents();
      const auto format = Format();
      const auto type = Type();
      const int count = DimCount();
      return Compare("SetFilterNd", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetFilterNdDescriptor(On(twin, side), type, format, count, d.data())};
      });
    }
    case 3:
      return Compare("GetFilter4d", [&](const Library& l, const int* side) {
        int v[4];
        std::fill_n(v, 4, kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        auto format = static_cast<cudnnTensorFormat_t>(kUntouched);
        Outcome outcome{
            l.cudnnGetFilter4dDescriptor(On(twin, side), &type, &format, v, v + 1, v + 2, v + 3)};
        outcome.insert(outcome.end(), {type, format});
        Append(outcome, v, 4);
        return outcome;
      });
    case 4: {
      const int requested = Between(-1, 10);
      return Compare("GetFilterNd", [&](const Library& l, const int* side) {
        int v[13];
        std::fill_n(v, 13, kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        auto format = static_cast<cudnnTensorFormat_t>(kUntouched);
        Outcome outcome{
            l.cudnnGetFilterNdDescriptor(On(twin, side), requested, &type, &format, v, v + 1)};
        if (requested < 2) v[2] = kUntouched;
        outcome.insert(outcome.end(), {type, format});
        Append(outcome, v, 13);
        return outcome;
      });
    }
    default:
      return Compare("GetFilterSize", [&](const Library& l, const int* side) -> Outcome {
        size_t bytes = 12345;
        const auto status = l.cudnnGetFilterSizeInBytes(On(twin, side), &bytes);
        return {status, static_cast<int64_t>(bytes)};
      });
  }
}

void DescriptorConformance::ConvolutionCall() {
  const auto twin = One(convolutions_);
  switch (Between(0, 8)) {
    case 0:
    case 1: {
      const auto p = Windows(0), s = Windows(1), d = Windows(1);
      const auto mode = Mode();
      const auto type = ComputeType();
      return Compare("SetConvolution2d", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetConvolution2dDescriptor(On(twin, side), p[0], p[1], s[0], s[1], d[0],
                                                  d[1], mode, type)};
      });
    }
    case 2:
    case 3: {
      const auto p = Windows(0), s = Windows(1), d = Windows(1);
      const auto mode = Mode();
      const auto type = ComputeType();
      const int count = Chance(80) ? Between(2, 3) : Between(-1, 9);
      return Compare("SetConvolutionNd", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetConvolutionNdDescriptor(On(twin, side), count, p.data(), s.data(),
                                                  d.data(), mode, type)};
      });
    }
    case 4: {
      const auto math = static_cast<cudnnMathType_t>(Between(-2, 6));
      return Compare("MathType", [&](const Library& l, const int* side) -> Outcome {
        auto now = static_cast<cudnnMathType_t>(kUntouched);
        const auto set = l.cudnnSetConvolutionMathType(On(twin, side), math);
        return {set, l.cudnnGetConvolutionMathType(On(twin, side), &now), now};
      });
    }
    case 5: {
      const int groups = Chance(50) ? Between(1, 3) : Pick({0, -1, INT_MIN, INT_MAX, 32});
      return Compare("GroupCount", [&](const Library& l, const int* side) -> Outcome {
        int now = kUntouched;
        const auto set = l.cudnnSetConvolutionGroupCount(On(twin, side), groups);
        return {set, l.cudnnGetConvolutionGroupCount(On(twin, side), &now), now};
      });
    }
    case 6: {
      const auto reorder = static_cast<cudnnReorderType_t>(Between(-1, 3));
      return Compare("ReorderType", [&](const Library& l, const int* side) -> Outcome {
        auto now = static_cast<cudnnReorderType_t>(kUntouched);
        const auto set = l.cudnnSetConvolutionReorderType(On(twin, side), reorder);
        return {set, l.cudnnGetConvolutionReorderType(On(twin, side), &now), now};
      });
    }
    case 7:
      return Compare("GetConvolution2d", [&](const Library& l, const int* side) {
        int v[6];
        std::fill_n(v, 6, kUntouched);
        auto mode = static_cast<cudnnConvolutionMode_t>(kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        Outcome outcome{l.cudnnGetConvolution2dDescriptor(On(twin, side), v, v + 1, v + 2, v + 3,
                                                          v + 4, v + 5, &mode, &type)};
        outcome.insert(outcome.end(), {mode, type});
        Append(outcome, v, 6);
        return outcome;
      });
    default: {
      const int requested = Between(-1, 9);
      return Compare("GetConvolutionNd", [&](const Library& l, const int* side) {
        int v[31];
        std::fill_n(v, 31, kUntouched);
        auto mode = static_cast<cudnnConvolutionMode_t>(kUntouched);
        auto type = static_cast<cudnnDataType_t>(kUntouched);
        Outcome outcome{l.cudnnGetConvolutionNdDescriptor(On(twin, side), requested, v, v + 1,
                                                          v + 11, v + 21, &mode, &type)};
        outcome.insert(outcome.end(), {mode, type});
        Append(outcome, v, 31);
        return outcome;
      });
    }
  }
}

bool DescriptorConformance::StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution) {
  if (convolution.real == nullptr) return true;
  int count, pad[6], stride[6], dilation[6];
  cudnnConvolutionMode_t mode;
  cudnnDataType_t type;
  real_.cudnnGetConvolutionNdDescriptor(convolution.real, 6, &count, pad, stride, dilation, &mode,
                                        &type);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}

void DescriptorConformance::OutputCall() {
  const auto convolution = One(convolutions_);
  const auto image = One(tensors_);
  const auto filter = One(filters_);
  if (!StridesDivide(convolution)) return;
  // Descriptors that fit each other are rare by chance.
  if (Chance(60) && convolution.real && image.real && filter.real) {
    const int spatial = Between(2, 3);
    const int groups = Between(1, 3);
    const int channels = Between(1, 4);
    const std::array<int, 5> x = {Between(1, 4), groups * channels, Between(1, 9), Between(1, 9),
                                  Between(1, 9)};
    const std::array<int, 5> w = {groups * Between(1, 2), channels, Between(1, 4), Between(1, 4),
                                  Between(1, 4)};
    const auto p = Windows(0), s = Windows(1), d = Windows(1);
    for (auto [library, side] :
         {std::pair{&real_, &Sides::kReal}, std::pair{&ours_, &Sides::kOurs}}) {
      library->cudnnSetTensorNdDescriptorEx(On(image, side), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                            spatial + 2, x.data());
      library->cudnnSetFilterNdDescriptor(On(filter, side), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                          spatial + 2, w.data());
      library->cudnnSetConvolutionNdDescriptor(On(convolution, side), spatial, p.data(), s.data(),
                                               d.data(), CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
      library->cudnnSetConvolutionGroupCount(On(convolution, side), groups);
    }
    if (!StridesDivide(convolution)) return;
  }
  if (Chance(50)) {
    return Compare("OutputDim2d", [&](const Library& l, const int* side) {
      int v[4];
      std::fill_n(v, 4, kUntouched);
      Outcome outcome{l.cudnnGetConvolution2dForwardOutputDim(
          On(convolution, side), On(image, side), On(filter, side), v, v + 1, v + 2, v + 3)};
      Append(outcome, v, 4);
      return outcome;
    });
  }
  const int count = Chance(60) ? Between(4, 5) : Between(-1, 9);
  Compare("OutputDimNd", [&](const Library& l, const int* side) {
    int v[12];
    std::fill_n(v, 12, kUntouched);
    Outcome outcome{l.cudnnGetConvolutionNdForwardOutputDim(On(convolution, side), On(image, side),
                                                            On(filter, side), count, v)};
    Append(outcome, v, 12);
    return outcome;
  });
}

void DescriptorConformance::ActivationCall() {
  const auto twin = One(activations_);
  const double coefficient = Pick({0, 1, -1, 6});
  switch (Between(0, 3)) {
    case 0: {
      const auto mode = static_cast<cudnnActivationMode_t>(Between(-1, 8));
      const auto nan = static_cast<cudnnNanPropagation_t>(Between(-1, 2));
      return Compare("SetActivation", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetActivationDescriptor(On(twin, side), mode, nan, coefficient)};
      });
    }
    case 1:
      return Compare("GetActivation", [&](const Library& l, const int* side) -> Outcome {
        auto mode = static_cast<cudnnActivationMode_t>(kUntouched);
        auto nan = static_cast<cudnnNanPropagation_t>(kUntouched);
        double now = kUntouched;
        const auto status = l.cudnnGetActivationDescriptor(On(twin, side), &mode, &nan, &now);
        return {status, mode, nan, static_cast<int64_t>(now)};
      });
    case 2:
      return Compare("SetSwishBeta", [&](const Library& l, const int* side) -> Outcome {
        return {l.cudnnSetActivationDescriptorSwishBeta(On(twin, side), coefficient)};
      });
    default:
      return Compare("GetSwishBeta", [&](const Library& l, const int* side) -> Outcome {
        double now = kUntouched;
        const auto status = l.cudnnGetActivationDescriptorSwishBeta(On(twin, side), &now);
        return {status, static_cast<int64_t>(now)};
      });
  }
}

TEST_F(DescriptorConformance, RandomCallsAnswerAsTheRealLibrary) {
  for (auto& twin : tensors_) {
    real_.cudnnCreateTensorDescriptor(&twin.real);
    ours_.cudnnCreateTensorDescriptor(&twin.ours);
  }
  for (auto& twin : filters_) {
    real_.cudnnCreateFilterDescriptor(&twin.real);
    ours_.cudnnCreateFilterDescriptor(&twin.ours);
  }
  for (auto& twin : convolutions_) {
    real_.cudnnCreateConvolutionDescriptor(&twin.real);
    ours_.cudnnCreateConvolutionDescriptor(&twin.ours);
  }
  for (auto& twin : activations_) {
    real_.cudnnCreateActivationDescriptor(&twin.real);
    ours_.cudnnCreateActivationDescriptor(&twin.ours);
    real_.cudnnSetActivationDescriptor(twin.real, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
    ours_.cudnnSetActivationDescriptor(twin.ours, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
  }
  while (calls_ < kCalls) {
    switch (Between(0, 9)) {
      case 0:
      case 1:
      case 2:
        TensorCall();
        break;
      case 3:
      case 4:
        FilterCall();
        break;
      case 5:
      case 6:
        ConvolutionCall();
        break;
      case 7:
      case 8:
        OutputCall();
        break;
      default:
        ActivationCall();
    }
    if (HasFatalFailure()) return;
  }
  ReportCalls();
  EXPECT_GE(2 * refused_, calls_) << "at least half of the calls are to be invalid";
  for (auto& twin : tensors_) {
    EXPECT_EQ(ours_.cudnnDestroyTensorDescriptor(twin.ours),
              real_.cudnnDestroyTensorDescriptor(twin.real));
  }
  for (auto& twin : filters_) {
    EXPECT_EQ(ours_.cudnnDestroyFilterDescriptor(twin.ours),
              real_.cudnnDestroyFilterDescriptor(twin.real));
  }
  for (auto& twin : convolutions_) {
    EXPECT_EQ(ours_.cudnnDestroyConvolutionDescriptor(twin.ours),
              real_.cudnnDestroyConvolutionDescriptor(twin.real));
  }
  for (auto& twin : activations_) {
    EXPECT_EQ(ours_.cudnnDestroyActivationDescriptor(twin.ours),
              real_.cudnnDestroyActivationDescriptor(twin.real));
  }
}

}  // namespace
