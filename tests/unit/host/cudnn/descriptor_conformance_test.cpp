// The descriptor functions answer as the real library does: status codes, values, and what a
// refused call leaves behind. Random calls on a few long-lived descriptors, so that state is
// compared too.
//
// Left out, because the real library crashes or reads uninitialised memory there: null arrays
// and result pointers, a two-dimensional NHWC tensor, a vector layout of fewer than two dimensions,
// a derived descriptor of no image, reading an activation or an OpTensor descriptor never set,
// dividing by a stride of 0 that a refused setter left behind.
#include "tests/unit/host/cudnn/random_calls.h"

namespace {

using L = Library;

class DescriptorConformance : public RandomCalls {
 protected:
  void SetUp() override {
    RandomCalls::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (auto& twin : tensors_) Make(&L::cudnnCreateTensorDescriptor, twin);
    for (auto& twin : derived_) Make(&L::cudnnCreateTensorDescriptor, twin);
    for (auto& twin : filters_) Make(&L::cudnnCreateFilterDescriptor, twin);
    for (auto& twin : convolutions_) Make(&L::cudnnCreateConvolutionDescriptor, twin);
    for (auto& twin : poolings_) Make(&L::cudnnCreatePoolingDescriptor, twin);
    for (auto& twin : activations_) {
      Make(&L::cudnnCreateActivationDescriptor, twin);
      OnBoth(&L::cudnnSetActivationDescriptor, twin, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
    }
    for (auto& twin : operations_) {
      Make(&L::cudnnCreateOpTensorDescriptor, twin);
      OnBoth(&L::cudnnSetOpTensorDescriptor, twin, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
             CUDNN_PROPAGATE_NAN);
    }
  }
  void TearDown() override {
    if (IsSkipped()) return;
    for (auto& twin : tensors_) Call("Destroy", &L::cudnnDestroyTensorDescriptor, twin);
    for (auto& twin : derived_) Call("Destroy", &L::cudnnDestroyTensorDescriptor, twin);
    for (auto& twin : filters_) Call("Destroy", &L::cudnnDestroyFilterDescriptor, twin);
    for (auto& twin : convolutions_) Call("Destroy", &L::cudnnDestroyConvolutionDescriptor, twin);
    for (auto& twin : poolings_) Call("Destroy", &L::cudnnDestroyPoolingDescriptor, twin);
    for (auto& twin : activations_) Call("Destroy", &L::cudnnDestroyActivationDescriptor, twin);
    for (auto& twin : operations_) Call("Destroy", &L::cudnnDestroyOpTensorDescriptor, twin);
  }
  template <class T>
  void Make(cudnnStatus_t (*Library::*create)(T*), Twin<T>& twin) {
    (real_.*create)(&twin.real);
    (ours_.*create)(&twin.ours);
  }

  cudnnPoolingMode_t PoolingMode() {
    return static_cast<cudnnPoolingMode_t>(Chance(92) ? Between(0, 3) : Pick({-1, 4, 100}));
  }
  cudnnNanPropagation_t Nan() {
    return static_cast<cudnnNanPropagation_t>(Chance(92) ? Between(0, 1) : Pick({-1, 2}));
  }
  void GetTensorNd(const Twin<cudnnTensorDescriptor_t>& twin, int requested) {
    Call("GetTensorNd", &L::cudnnGetTensorNdDescriptor, twin, requested, Out<cudnnDataType_t>(),
         Out<int>(), Out<int>{12, requested < 2 ? 1 : -1}, Out<int>{12});
  }
  // Within what the real library stands; of `least` dimensions.
  void SetTensorNdEx(const Twin<cudnnTensorDescriptor_t>& twin, int least) {
    const auto format = Format();
    int count = DimCount();
    if (count < least) count = 4;
    if (format == CUDNN_TENSOR_NHWC && count == 2) count = 4;
    if (format == CUDNN_TENSOR_NCHW_VECT_C && count < 2) count = 5;
    Call("SetTensorNdEx", &L::cudnnSetTensorNdDescriptorEx, twin, format, Type(), count, Extents());
  }
  void SetTensorNd(const Twin<cudnnTensorDescriptor_t>& twin) {
    Call("SetTensorNd", &L::cudnnSetTensorNdDescriptor, twin, Type(), DimCount(), Extents(),
         Strides());
  }
  bool StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution);
  bool StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling);
  void ConvolutionOutput();
  void PoolingOutput();

  // How often, of the sum of all, a row's calls are made.
  struct Row {
    int weight;
    void (*make)(DescriptorConformance&);
  };
  void MakeCalls(const std::vector<Row>& rows, int count) {
    int weights = 0;
    for (const Row& row : rows) weights += row.weight;
    while (calls_ < count && !HasFatalFailure()) {
      int left = Between(1, weights);
      const Row* row = rows.data();
      while ((left -= row->weight) > 0) ++row;
      row->make(*this);
    }
    ReportCalls();
  }
  static const std::vector<Row> kConvolutionRows, kLayerRows;

  std::array<Twin<cudnnTensorDescriptor_t>, 4> tensors_;
  std::array<Twin<cudnnTensorDescriptor_t>, 2> derived_;
  std::array<Twin<cudnnFilterDescriptor_t>, 4> filters_;
  std::array<Twin<cudnnConvolutionDescriptor_t>, 4> convolutions_;
  std::array<Twin<cudnnPoolingDescriptor_t>, 3> poolings_;
  std::array<Twin<cudnnActivationDescriptor_t>, 2> activations_;
  std::array<Twin<cudnnOpTensorDescriptor_t>, 2> operations_;
};

using Self = DescriptorConformance;

const std::vector<Self::Row> Self::kConvolutionRows = {
    {16,
     [](Self& s) {
       const auto d = s.Extents();
       s.Call("SetTensor4d", &L::cudnnSetTensor4dDescriptor, s.One(s.tensors_), s.Format(),
              s.Type(), d[0], d[1], d[2], d[3]);
     }},
    {10,
     [](Self& s) {
       const auto d = s.Extents(), t = s.Strides();
       s.Call("SetTensor4dEx", &L::cudnnSetTensor4dDescriptorEx, s.One(s.tensors_), s.Type(), d[0],
              d[1], d[2], d[3], t[0], t[1], t[2], t[3]);
     }},
    {28, [](Self& s) { s.SetTensorNd(s.One(s.tensors_)); }},
    {28, [](Self& s) { s.SetTensorNdEx(s.One(s.tensors_), INT_MIN); }},
    {10,
     [](Self& s) {
       const Out<int> one;
       s.Call("GetTensor4d", &L::cudnnGetTensor4dDescriptor, s.One(s.tensors_),
              Out<cudnnDataType_t>(), one, one, one, one, one, one, one, one);
     }},
    {10, [](Self& s) { s.GetTensorNd(s.One(s.tensors_), s.Between(-1, 10)); }},
    {10,
     [](Self& s) {
       s.Call("GetTensorSize", &L::cudnnGetTensorSizeInBytes, s.One(s.tensors_), Out<size_t>());
     }},
    {28,
     [](Self& s) {
       const auto d = s.Extents();
       s.Call("SetFilter4d", &L::cudnnSetFilter4dDescriptor, s.One(s.filters_), s.Type(),
              s.Format(), d[0], d[1], d[2], d[3]);
     }},
    {16,
     [](Self& s) {
       s.Call("SetFilterNd", &L::cudnnSetFilterNdDescriptor, s.One(s.filters_), s.Type(),
              s.Format(), s.DimCount(), s.Extents());
     }},
    {10,
     [](Self& s) {
       const Out<int> one;
       s.Call("GetFilter4d", &L::cudnnGetFilter4dDescriptor, s.One(s.filters_),
              Out<cudnnDataType_t>(), Out<cudnnTensorFormat_t>(), one, one, one, one);
     }},
    {10,
     [](Self& s) {
       const int requested = s.Between(-1, 10);
       s.Call("GetFilterNd", &L::cudnnGetFilterNdDescriptor, s.One(s.filters_), requested,
              Out<cudnnDataType_t>(), Out<cudnnTensorFormat_t>(), Out<int>(),
              Out<int>{12, requested < 2 ? 1 : -1});
     }},
    {10,
     [](Self& s) {
       s.Call("GetFilterSize", &L::cudnnGetFilterSizeInBytes, s.One(s.filters_), Out<size_t>());
     }},
    {18,
     [](Self& s) {
       const auto p = s.Windows(0), t = s.Windows(1), d = s.Windows(1);
       s.Call("SetConvolution2d", &L::cudnnSetConvolution2dDescriptor, s.One(s.convolutions_), p[0],
              p[1], t[0], t[1], d[0], d[1], s.Mode(), s.ComputeType());
     }},
    {18,
     [](Self& s) {
       s.Call("SetConvolutionNd", &L::cudnnSetConvolutionNdDescriptor, s.One(s.convolutions_),
              s.Chance(80) ? s.Between(2, 3) : s.Between(-1, 9), s.Windows(0), s.Windows(1),
              s.Windows(1), s.Mode(), s.ComputeType());
     }},
    {7,
     [](Self& s) {
       const auto twin = s.One(s.convolutions_);
       s.Call("SetMathType", &L::cudnnSetConvolutionMathType, twin, s.Between(-2, 6));
       s.Call("GetMathType", &L::cudnnGetConvolutionMathType, twin, Out<cudnnMathType_t>());
     }},
    {7,
     [](Self& s) {
       const auto twin = s.One(s.convolutions_);
       s.Call("SetGroupCount", &L::cudnnSetConvolutionGroupCount, twin,
              s.Chance(50) ? s.Between(1, 3) : s.Pick({0, -1, INT_MIN, INT_MAX, 32}));
       s.Call("GetGroupCount", &L::cudnnGetConvolutionGroupCount, twin, Out<int>());
     }},
    {7,
     [](Self& s) {
       const auto twin = s.One(s.convolutions_);
       s.Call("SetReorderType", &L::cudnnSetConvolutionReorderType, twin, s.Between(-1, 3));
       s.Call("GetReorderType", &L::cudnnGetConvolutionReorderType, twin,
              Out<cudnnReorderType_t>());
     }},
    {7,
     [](Self& s) {
       const Out<int> one;
       s.Call("GetConvolution2d", &L::cudnnGetConvolution2dDescriptor, s.One(s.convolutions_), one,
              one, one, one, one, one, Out<cudnnConvolutionMode_t>(), Out<cudnnDataType_t>());
     }},
    {7,
     [](Self& s) {
       const Out<int> ten{10};
       s.Call("GetConvolutionNd", &L::cudnnGetConvolutionNdDescriptor, s.One(s.convolutions_),
              s.Between(-1, 9), Out<int>(), ten, ten, ten, Out<cudnnConvolutionMode_t>(),
              Out<cudnnDataType_t>());
     }},
    {60, [](Self& s) { s.ConvolutionOutput(); }},
    {8,
     [](Self& s) {
       s.Call("SetActivation", &L::cudnnSetActivationDescriptor, s.One(s.activations_),
              s.Between(-1, 8), s.Between(-1, 2), s.Pick({0, 1, -1, 6}));
     }},
    {8,
     [](Self& s) {
       s.Call("GetActivation", &L::cudnnGetActivationDescriptor, s.One(s.activations_),
              Out<cudnnActivationMode_t>(), Out<cudnnNanPropagation_t>(), Out<double>());
     }},
    {8,
     [](Self& s) {
       s.Call("SetSwishBeta", &L::cudnnSetActivationDescriptorSwishBeta, s.One(s.activations_),
              s.Pick({0, 1, -1, 6}));
     }},
    {8,
     [](Self& s) {
       s.Call("GetSwishBeta", &L::cudnnGetActivationDescriptorSwishBeta, s.One(s.activations_),
              Out<double>());
     }},
};

const std::vector<Self::Row> Self::kLayerRows = {
    {10, [](Self& s) { s.SetTensorNd(s.tensors_[s.Between(0, 3)]); }},
    {10, [](Self& s) { s.SetTensorNdEx(s.tensors_[s.Between(0, 3)], 3); }},
    {12,
     [](Self& s) {
       const auto w = s.Windows(1), p = s.Windows(0), t = s.Windows(1);
       s.Call("SetPooling2d", &L::cudnnSetPooling2dDescriptor, s.One(s.poolings_), s.PoolingMode(),
              s.Nan(), w[0], w[1], p[0], p[1], t[0], t[1]);
     }},
    {6,
     [](Self& s) {
       s.Call("SetPoolingNd", &L::cudnnSetPoolingNdDescriptor, s.One(s.poolings_), s.PoolingMode(),
              s.Nan(), s.Chance(80) ? s.Between(1, 4) : s.Between(-1, 9), s.Windows(1),
              s.Windows(0), s.Windows(1));
     }},
    {6,
     [](Self& s) {
       const Out<int> one;
       s.Call("GetPooling2d", &L::cudnnGetPooling2dDescriptor, s.One(s.poolings_),
              Out<cudnnPoolingMode_t>(), Out<cudnnNanPropagation_t>(), one, one, one, one, one,
              one);
     }},
    {6,
     [](Self& s) {
       const Out<int> ten{10};
       s.Call("GetPoolingNd", &L::cudnnGetPoolingNdDescriptor, s.One(s.poolings_), s.Between(-1, 9),
              Out<cudnnPoolingMode_t>(), Out<cudnnNanPropagation_t>(), Out<int>(), ten, ten, ten);
     }},
    {20, [](Self& s) { s.PoolingOutput(); }},
    {5,
     [](Self& s) {
       s.Call("SetOpTensor", &L::cudnnSetOpTensorDescriptor, s.One(s.operations_), s.Between(-1, 7),
              s.Type(), s.Nan());
     }},
    {5,
     [](Self& s) {
       s.Call("GetOpTensor", &L::cudnnGetOpTensorDescriptor, s.One(s.operations_),
              Out<cudnnOpTensorOp_t>(), Out<cudnnDataType_t>(), Out<cudnnNanPropagation_t>());
     }},
    {20,
     [](Self& s) {
       const auto derived = s.One(s.derived_);
       s.Call("DeriveBNTensor", &L::cudnnDeriveBNTensorDescriptor, derived,
              s.tensors_[s.Between(0, 3)], s.Chance(90) ? s.Between(0, 2) : s.Pick({-1, 3}));
       s.GetTensorNd(derived, 8);
     }},
};

// False where a refused setter left a stride of 0 behind.
bool Self::StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution) {
  if (convolution.real == nullptr) return true;
  int count, pad[6], stride[6], dilation[6];
  cudnnConvolutionMode_t mode;
  cudnnDataType_t type;
  real_.cudnnGetConvolutionNdDescriptor(convolution.real, 6, &count, pad, stride, dilation, &mode,
                                        &type);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}
bool Self::StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling) {
  if (pooling.real == nullptr) return true;
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  int count, window[6], pad[6], stride[6];
  real_.cudnnGetPoolingNdDescriptor(pooling.real, 6, &mode, &nan, &count, window, pad, stride);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}

void Self::ConvolutionOutput() {
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
    OnBoth(&L::cudnnSetTensorNdDescriptorEx, image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
           spatial + 2, x);
    OnBoth(&L::cudnnSetFilterNdDescriptor, filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, spatial + 2,
           w);
    OnBoth(&L::cudnnSetConvolutionNdDescriptor, convolution, spatial, Windows(0), Windows(1),
           Windows(1), CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
    OnBoth(&L::cudnnSetConvolutionGroupCount, convolution, groups);
    if (!StridesDivide(convolution)) return;
  }
  const Out<int> one;
  if (Chance(50)) {
    return Call("OutputDim2d", &L::cudnnGetConvolution2dForwardOutputDim, convolution, image,
                filter, one, one, one, one);
  }
  Call("OutputDimNd", &L::cudnnGetConvolutionNdForwardOutputDim, convolution, image, filter,
       Chance(60) ? Between(4, 5) : Between(-1, 9), Out<int>{12});
}

void Self::PoolingOutput() {
  const auto pooling = One(poolings_);
  const auto image = One(tensors_);
  if (!StridesDivide(pooling)) return;
  const Out<int> one;
  if (Chance(50)) {
    return Call("PoolingOutput2d", &L::cudnnGetPooling2dForwardOutputDim, pooling, image, one, one,
                one, one);
  }
  Call("PoolingOutputNd", &L::cudnnGetPoolingNdForwardOutputDim, pooling, image,
       Chance(75) ? Between(3, 6) : Between(-1, 10), Out<int>{12});
}

TEST_F(DescriptorConformance, RandomCallsOfConvolutionsAnswerAsTheRealLibrary) {
  MakeCalls(kConvolutionRows, 40000);
  EXPECT_GE(2 * refused_, calls_) << "at least half of the calls are to be invalid";
}

TEST_F(DescriptorConformance, RandomCallsOfLayersAnswerAsTheRealLibrary) {
  MakeCalls(kLayerRows, 30000);
  EXPECT_GE(3 * refused_, calls_) << "at least a third of the calls are to be invalid";
  EXPECT_GE(3 * (calls_ - refused_), calls_) << "and a third valid";
}

TEST_F(DescriptorConformance, CreatingNowhereAndDestroyingNothing) {
#define COMPARE_NOTHING(Kind)                              \
  EXPECT_EQ(ours_.cudnnCreate##Kind##Descriptor(nullptr),  \
            real_.cudnnCreate##Kind##Descriptor(nullptr)); \
  EXPECT_EQ(ours_.cudnnDestroy##Kind##Descriptor(nullptr), \
            real_.cudnnDestroy##Kind##Descriptor(nullptr))
  COMPARE_NOTHING(Tensor);
  COMPARE_NOTHING(Filter);
  COMPARE_NOTHING(Convolution);
  COMPARE_NOTHING(Activation);
  COMPARE_NOTHING(Pooling);
  COMPARE_NOTHING(OpTensor);
#undef COMPARE_NOTHING
}

TEST_F(DescriptorConformance, VersionsPropertiesAndErrorNames) {
  for (const auto version :
       {&L::cudnnGetVersion, &L::cudnnGetMaxDeviceVersion, &L::cudnnGetCudartVersion}) {
    EXPECT_EQ((ours_.*version)(), (real_.*version)());
  }
  for (const auto check : {&L::cudnnGraphVersionCheck, &L::cudnnOpsVersionCheck,
                           &L::cudnnCnnVersionCheck, &L::cudnnAdvVersionCheck}) {
    EXPECT_EQ((ours_.*check)(), (real_.*check)());
  }
  for (int property = -1; property < 6; ++property) {
    Call("GetProperty", &L::cudnnGetProperty, property, Out<int>());
  }
  for (int code = -1; code < 6000; ++code) {
    const auto status = static_cast<cudnnStatus_t>(code);
    ASSERT_STREQ(ours_.cudnnGetErrorString(status), real_.cudnnGetErrorString(status)) << code;
  }
}

}  // namespace
