// Tests that the descriptor functions answer like the real library: status codes, values, and what
// a refused call leaves behind. Random calls work on a few long-lived descriptors, so that their
// state is compared, too.
//
// Some calls are left out, because the real library crashes or reads uninitialised memory there:
// null arrays and result pointers, a two-dimensional NHWC tensor, a vector layout of fewer than two
// dimensions, deriving a descriptor from a null one, reading an activation or an OpTensor
// descriptor that was never set, dividing by a stride of 0 that a refused setter left behind.
#include <functional>

#include "tests/unit/host/cudnn/random_calls.h"

namespace {

class DescriptorConformance : public RandomCalls {
 protected:
  void SetUp() override {
    RandomCalls::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Make(CUDNN(CreateTensorDescriptor), CUDNN(DestroyTensorDescriptor), tensors_);
    Make(CUDNN(CreateTensorDescriptor), CUDNN(DestroyTensorDescriptor), derived_);
    Make(CUDNN(CreateFilterDescriptor), CUDNN(DestroyFilterDescriptor), filters_);
    Make(CUDNN(CreateConvolutionDescriptor), CUDNN(DestroyConvolutionDescriptor), convolutions_);
    Make(CUDNN(CreatePoolingDescriptor), CUDNN(DestroyPoolingDescriptor), poolings_);
    Make(CUDNN(CreateActivationDescriptor), CUDNN(DestroyActivationDescriptor), activations_);
    Make(CUDNN(CreateOpTensorDescriptor), CUDNN(DestroyOpTensorDescriptor), operations_);
    for (const auto& twin : activations_) {
      OnBoth(CUDNN(SetActivationDescriptor), twin, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
    }
    for (const auto& twin : operations_) {
      OnBoth(CUDNN(SetOpTensorDescriptor), twin, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT,
             CUDNN_PROPAGATE_NAN);
    }
  }
  void TearDown() override {
    for (const auto& destroy : destroys_) destroy();
  }
  // Makes descriptors that live until TearDown.
  template <class T, size_t N>
  void Make(CudnnFunction<cudnnStatus_t (*)(T*)> create,
            CudnnFunction<cudnnStatus_t (*)(T)> destroy, std::array<Twin<T>, N>& twins) {
    for (Twin<T>& twin : twins) {
      real_[create](&twin.real);
      ours_[create](&twin.ours);
      destroys_.push_back([this, destroy, twin] { Call(destroy, twin); });
    }
  }

  cudnnPoolingMode_t PoolingMode() {
    return static_cast<cudnnPoolingMode_t>(Chance(92) ? Between(0, 3) : Pick({-1, 4, 100}));
  }
  cudnnNanPropagation_t Nan() {
    return static_cast<cudnnNanPropagation_t>(Chance(92) ? Between(0, 1) : Pick({-1, 2}));
  }
  // The real library multiplies dimA[1] of a vector layout even if the caller asks for one dimension
  // or a refused setter left the layout without dimensions. The stand-in writes only what is asked.
  void GetTensorNd(const Twin<cudnnTensorDescriptor_t>& twin, int requested) {
    cudnnDataType_t type;
    int held = 0, none[2];
    real_[CUDNN(GetTensorNdDescriptor)](twin.real, 0, &type, &held, none, none);
    Call(CUDNN(GetTensorNdDescriptor), twin, requested, Out<cudnnDataType_t>(), Out<int>(),
         Out<int>{12, std::min(requested, held) < 2 ? 1 : -1}, Out<int>{12});
  }
  // Calls the setter with arguments that the real library survives, in at least `least` dimensions.
  void SetTensorNdEx(const Twin<cudnnTensorDescriptor_t>& twin, int least) {
    const auto format = Format();
    int count = DimCount();
    if (count < least) count = 4;
    if (format == CUDNN_TENSOR_NHWC && count == 2) count = 4;
    if (format == CUDNN_TENSOR_NCHW_VECT_C && count < 2) count = 5;
    Call(CUDNN(SetTensorNdDescriptorEx), twin, format, Type(), count, Extents());
  }
  void SetTensorNd(const Twin<cudnnTensorDescriptor_t>& twin) {
    Call(CUDNN(SetTensorNdDescriptor), twin, Type(), DimCount(), Extents(), Strides());
  }
  bool StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution);
  bool StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling);
  void ConvolutionOutput();
  void PoolingOutput();

  // A kind of call. MakeCalls makes each row's calls in proportion to its weight.
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
  std::vector<std::function<void()>> destroys_;
};

using Self = DescriptorConformance;

#define ROW(weight, ...)                 \
  {                                      \
    weight, [](Self& s) { __VA_ARGS__; } \
  }

const std::vector<Self::Row> Self::kConvolutionRows = {
    ROW(16, const auto d = s.Extents(); s.Call(CUDNN(SetTensor4dDescriptor), s.One(s.tensors_),
                                               s.Format(), s.Type(), d[0], d[1], d[2], d[3])),
    ROW(10, const auto d = s.Extents(), t = s.Strides();
        s.Call(CUDNN(SetTensor4dDescriptorEx), s.One(s.tensors_), s.Type(), d[0], d[1], d[2], d[3],
               t[0], t[1], t[2], t[3])),
    ROW(28, s.SetTensorNd(s.One(s.tensors_))),
    ROW(28, s.SetTensorNdEx(s.One(s.tensors_), INT_MIN)),
    ROW(10, const Out<int> one;
        s.Call(CUDNN(GetTensor4dDescriptor), s.One(s.tensors_), Out<cudnnDataType_t>(), one, one,
               one, one, one, one, one, one)),
    ROW(10, s.GetTensorNd(s.One(s.tensors_), s.Between(-1, 10))),
    ROW(10, s.Call(CUDNN(GetTensorSizeInBytes), s.One(s.tensors_), Out<size_t>())),
    ROW(28, const auto d = s.Extents(); s.Call(CUDNN(SetFilter4dDescriptor), s.One(s.filters_),
                                               s.Type(), s.Format(), d[0], d[1], d[2], d[3])),
    ROW(16, s.Call(CUDNN(SetFilterNdDescriptor), s.One(s.filters_), s.Type(), s.Format(),
                   s.DimCount(), s.Extents())),
    ROW(10, const int requested = s.Between(-1, 10);
        s.Call(CUDNN(GetFilterNdDescriptor), s.One(s.filters_), requested, Out<cudnnDataType_t>(),
               Out<cudnnTensorFormat_t>(), Out<int>(), Out<int>{12, requested < 2 ? 1 : -1})),
    ROW(10, s.Call(CUDNN(GetFilterSizeInBytes), s.One(s.filters_), Out<size_t>())),
    ROW(18, const auto p = s.Windows(0), t = s.Windows(1), d = s.Windows(1);
        s.Call(CUDNN(SetConvolution2dDescriptor), s.One(s.convolutions_), p[0], p[1], t[0], t[1],
               d[0], d[1], s.Mode(), s.ComputeType())),
    ROW(18, s.Call(CUDNN(SetConvolutionNdDescriptor), s.One(s.convolutions_),
                   s.Chance(80) ? s.Between(2, 3) : s.Between(-1, 9), s.Windows(0), s.Windows(1),
                   s.Windows(1), s.Mode(), s.ComputeType())),
    ROW(7, const auto twin = s.One(s.convolutions_);
        s.Call(CUDNN(SetConvolutionMathType), twin, s.Between(-2, 6));
        s.Call(CUDNN(GetConvolutionMathType), twin, Out<cudnnMathType_t>())),
    ROW(7, const auto twin = s.One(s.convolutions_);
        s.Call(CUDNN(SetConvolutionGroupCount), twin,
               s.Chance(50) ? s.Between(1, 3) : s.Pick({0, -1, INT_MIN, INT_MAX, 32}));
        s.Call(CUDNN(GetConvolutionGroupCount), twin, Out<int>())),
    ROW(7, const Out<int> ten{10};
        s.Call(CUDNN(GetConvolutionNdDescriptor), s.One(s.convolutions_), s.Between(-1, 9),
               Out<int>(), ten, ten, ten, Out<cudnnConvolutionMode_t>(), Out<cudnnDataType_t>())),
    ROW(60, s.ConvolutionOutput()),
    ROW(8, s.Call(CUDNN(SetActivationDescriptor), s.One(s.activations_), s.Between(-1, 8),
                  s.Between(-1, 2), s.Pick({0, 1, -1, 6}))),
    ROW(8, s.Call(CUDNN(GetActivationDescriptor), s.One(s.activations_),
                  Out<cudnnActivationMode_t>(), Out<cudnnNanPropagation_t>(), Out<double>())),
};

const std::vector<Self::Row> Self::kLayerRows = {
    ROW(10, s.SetTensorNd(s.tensors_[s.Between(0, 3)])),
    ROW(10, s.SetTensorNdEx(s.tensors_[s.Between(0, 3)], 3)),
    ROW(12, const auto w = s.Windows(1), p = s.Windows(0), t = s.Windows(1);
        s.Call(CUDNN(SetPooling2dDescriptor), s.One(s.poolings_), s.PoolingMode(), s.Nan(), w[0],
               w[1], p[0], p[1], t[0], t[1])),
    ROW(6, s.Call(CUDNN(SetPoolingNdDescriptor), s.One(s.poolings_), s.PoolingMode(), s.Nan(),
                  s.Chance(80) ? s.Between(1, 4) : s.Between(-1, 9), s.Windows(1), s.Windows(0),
                  s.Windows(1))),
    ROW(6, const Out<int> ten{10};
        s.Call(CUDNN(GetPoolingNdDescriptor), s.One(s.poolings_), s.Between(-1, 9),
               Out<cudnnPoolingMode_t>(), Out<cudnnNanPropagation_t>(), Out<int>(), ten, ten, ten)),
    ROW(20, s.PoolingOutput()),
    ROW(5, s.Call(CUDNN(SetOpTensorDescriptor), s.One(s.operations_), s.Between(-1, 7), s.Type(),
                  s.Nan())),
    ROW(20, const auto derived = s.One(s.derived_);
        s.Call(CUDNN(DeriveBNTensorDescriptor), derived, s.tensors_[s.Between(0, 3)],
               s.Chance(90) ? s.Between(0, 2) : s.Pick({-1, 3}));
        s.GetTensorNd(derived, 8)),
};

// Returns false if a refused setter left a stride of 0 behind.
bool Self::StridesDivide(const Twin<cudnnConvolutionDescriptor_t>& convolution) {
  if (convolution.real == nullptr) return true;
  int count, pad[6], stride[6], dilation[6];
  cudnnConvolutionMode_t mode;
  cudnnDataType_t type;
  real_[CUDNN(GetConvolutionNdDescriptor)](convolution.real, 6, &count, pad, stride, dilation,
                                           &mode, &type);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}
bool Self::StridesDivide(const Twin<cudnnPoolingDescriptor_t>& pooling) {
  if (pooling.real == nullptr) return true;
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  int count, window[6], pad[6], stride[6];
  real_[CUDNN(GetPoolingNdDescriptor)](pooling.real, 6, &mode, &nan, &count, window, pad, stride);
  return std::all_of(stride, stride + count, [](int value) { return value > 0; });
}

void Self::ConvolutionOutput() {
  const auto convolution = One(convolutions_);
  const auto image = One(tensors_);
  const auto filter = One(filters_);
  if (!StridesDivide(convolution)) return;
  // Random descriptors rarely fit each other, so most calls get descriptors that do.
  if (Chance(60) && convolution.real && image.real && filter.real) {
    const int spatial = Between(2, 3);
    const int groups = Between(1, 3);
    const int channels = Between(1, 4);
    const std::array<int, 5> x = {Between(1, 4), groups * channels, Between(1, 9), Between(1, 9),
                                  Between(1, 9)};
    const std::array<int, 5> w = {groups * Between(1, 2), channels, Between(1, 4), Between(1, 4),
                                  Between(1, 4)};
    OnBoth(CUDNN(SetTensorNdDescriptorEx), image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, spatial + 2,
           x);
    OnBoth(CUDNN(SetFilterNdDescriptor), filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, spatial + 2,
           w);
    OnBoth(CUDNN(SetConvolutionNdDescriptor), convolution, spatial, Windows(0), Windows(1),
           Windows(1), CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
    OnBoth(CUDNN(SetConvolutionGroupCount), convolution, groups);
    if (!StridesDivide(convolution)) return;
  }
  const Out<int> one;
  if (Chance(50)) {
    return Call(CUDNN(GetConvolution2dForwardOutputDim), convolution, image, filter, one, one, one,
                one);
  }
  Call(CUDNN(GetConvolutionNdForwardOutputDim), convolution, image, filter,
       Chance(60) ? Between(4, 5) : Between(-1, 9), Out<int>{12});
}

void Self::PoolingOutput() {
  const auto pooling = One(poolings_);
  const auto image = One(tensors_);
  if (!StridesDivide(pooling)) return;
  const Out<int> one;
  if (Chance(50)) {
    return Call(CUDNN(GetPooling2dForwardOutputDim), pooling, image, one, one, one, one);
  }
  Call(CUDNN(GetPoolingNdForwardOutputDim), pooling, image,
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
#define COMPARE_NOTHING(Kind)                                 \
  EXPECT_EQ(ours_[CUDNN(Create##Kind##Descriptor)](nullptr),  \
            real_[CUDNN(Create##Kind##Descriptor)](nullptr)); \
  EXPECT_EQ(ours_[CUDNN(Destroy##Kind##Descriptor)](nullptr), \
            real_[CUDNN(Destroy##Kind##Descriptor)](nullptr))
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
       {CUDNN(GetVersion), CUDNN(GetMaxDeviceVersion), CUDNN(GetCudartVersion)}) {
    EXPECT_EQ(ours_[version](), real_[version]());
  }
  for (const auto check : {CUDNN(GraphVersionCheck), CUDNN(OpsVersionCheck), CUDNN(CnnVersionCheck),
                           CUDNN(AdvVersionCheck)}) {
    EXPECT_EQ(ours_[check](), real_[check]());
  }
  for (int property = -1; property < 6; ++property) {
    Call(CUDNN(GetProperty), property, Out<int>());
  }
  for (int code = -1; code < 6000; ++code) {
    const auto status = static_cast<cudnnStatus_t>(code);
    ASSERT_STREQ(ours_[CUDNN(GetErrorString)](status), real_[CUDNN(GetErrorString)](status))
        << code;
  }
}

}  // namespace
