// Tests that the descriptor functions answer like the real library: status codes, values, and what
// a refused call leaves behind. Random calls work on a few long-lived descriptors, so that their
// state is compared, too.
//
// Some calls are left out, because the real library crashes or reads uninitialised memory there:
// null arrays and result pointers, a two-dimensional NHWC tensor, a vector layout of fewer than two
// dimensions, deriving a descriptor from a null one, reading an activation or an OpTensor
// descriptor that was never set, dividing by a stride of 0 that a refused setter left behind.
#include <gtest/gtest-spi.h>

#include <tuple>

#include "tests/unit/host/cudnn/conformance.h"

namespace {

const Draw kStride = {
    78, {1, 2, 4, 5, 20, 64, 100, 1280}, {0, -1, -60, INT_MIN, INT_MAX, 1 << 30, 65536}};
const Draw kType = {72, {0, 0, 0, 1, 2, 3, 5, 7, 8, 9}, Range(-2, 23)};
const Draw kFormat = {85, {0, 1, 2}, {-1, 3, 100}};
const Draw kDimCount = {80, Range(3, 6), Range(-1, 10)};
const Draw kComputeType = {85, {0, 1, 2}, Range(-1, 22)};
const Draw kMode = {92, {0, 1}, {-1, 2}};
const Draw kPoolingMode = {92, Range(0, 3), {-1, 4, 100}};
const Draw kNan = kMode;

class DescriptorConformance : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Fill(pool_<cudnnTensorDescriptor_t>, 4, KIND(Tensor));
    Fill(derived_, 2, KIND(Tensor));
    Fill(pool_<cudnnFilterDescriptor_t>, 4, KIND(Filter));
    Fill(pool_<cudnnConvolutionDescriptor_t>, 4, KIND(Convolution));
    Fill(pool_<cudnnPoolingDescriptor_t>, 3, KIND(Pooling));
    Fill(pool_<cudnnActivationDescriptor_t>, 2, KIND(Activation), CUDNN(SetActivationDescriptor),
         CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
    Fill(pool_<cudnnOpTensorDescriptor_t>, 2, KIND(OpTensor));
  }
  // Makes `count` descriptors. Also calls `create` with a null address, and `destroy` with null.
  template <class T, class Create, class Destroy, class... Arguments>
  void Fill(std::vector<Twin<T>>& pool, int count, Create create, Destroy destroy,
            Arguments... arguments) {
    Call(create, nullptr);
    Call(destroy, nullptr);
    pool.resize(count);
    for (Twin<T>& twin : pool) twin = Make(create, destroy, arguments...);
  }
  template <class T>
  Twin<T> One(const std::vector<Twin<T>>& pool = pool_<T>) {
    return Chance(16) ? Twin<T>{} : OneOf(pool);
  }
  Twin<cudnnTensorDescriptor_t> Tensor() { return OneOf(pool_<cudnnTensorDescriptor_t>); }

  // Returns a call of `function` with random arguments. Descriptors come from the pools. `draws`
  // has an element for each integer, and for each array of integers, that the function reads, in
  // the order of the arguments. Their values are drawn from this element.
  template <class... Parameters>
  std::function<void()> Random(CudnnFunction<cudnnStatus_t (*)(Parameters...)> function,
                               const std::vector<Draw>& draws = {}) {
    return [this, function, draws] {
      auto draw = draws.begin();
      const std::tuple arguments{Argument<Parameters>(draw)...};
      std::apply([&](const auto&... drawn) { Call(function, drawn...); }, arguments);
    };
  }
  template <class Parameter>
  auto Argument(std::vector<Draw>::const_iterator& draw) {
    using Target = std::remove_pointer_t<Parameter>;
    if constexpr (std::is_class_v<Target>) {
      return One<Parameter>();
    } else if constexpr (!std::is_pointer_v<Parameter>) {
      return Int(*draw++);
    } else if constexpr (std::is_const_v<Target>) {
      return Ints(*draw++);
    } else {
      return Out<Target>();
    }
  }
  // Returns a call of `set` with a random integer, followed by a call of `get` with the same
  // descriptor.
  template <class Set, class T, class Value>
  std::function<void()> SetAndGet(Set set, CudnnFunction<cudnnStatus_t (*)(T, Value*)> get,
                                  const Draw& draw) {
    return [this, set, get, draw] {
      const Twin<T> twin = One<T>();
      Call(set, twin, Int(draw));
      Call(get, twin, Out<Value>());
    };
  }

  // Unlike the stand-in, the real library multiplies dimA[1] of a vector layout even if the caller
  // asks for one dimension, or if a refused setter left the layout without dimensions. So dimA[1]
  // is not compared in these two cases.
  void GetTensorNd(const Twin<cudnnTensorDescriptor_t>& twin, int requested) {
    Out<cudnnDataType_t> type;
    Out<int> held, none;
    Answer(kReal, CUDNN(GetTensorNdDescriptor), twin, 0, type, held, none, none);
    Call(CUDNN(GetTensorNdDescriptor), twin, requested, type, held,
         Out<int>{std::min(requested, held.values[0]) < 2 ? 1 : -1}, Out<int>());
  }
  // The real library writes dimA[1] even if the caller asks for one dimension. Then dimA[1] is not
  // compared.
  void GetFilterNd(int requested) {
    Call(CUDNN(GetFilterNdDescriptor), One<cudnnFilterDescriptor_t>(), requested,
         Out<cudnnDataType_t>(), Out<cudnnTensorFormat_t>(), Out<int>(),
         Out<int>{requested < 2 ? 1 : -1});
  }
  // Calls the setter with arguments that the real library survives, in at least `least` dimensions.
  void SetTensorNdEx(const Twin<cudnnTensorDescriptor_t>& twin, int least) {
    const int format = Int(kFormat);
    int count = Int(kDimCount);
    if (count < least) count = 4;
    if (format == CUDNN_TENSOR_NHWC && count == 2) count = 4;
    if (format == CUDNN_TENSOR_NCHW_VECT_C && count < 2) count = 5;
    Call(CUDNN(SetTensorNdDescriptorEx), twin, format, Int(kType), count, Ints(kExtent));
  }
  void DeriveBNTensor(const Twin<cudnnTensorDescriptor_t>& derived) {
    Call(CUDNN(DeriveBNTensorDescriptor), derived, Tensor(), Int({90, {0, 1, 2}, {-1, 3}}));
    GetTensorNd(derived, 8);
  }
  // Returns false if a refused setter left a stride of 0 behind.
  template <class T>
  bool StridesDivide(const Twin<T>& twin) {
    Out<int> count, strides, other;
    if constexpr (std::is_same_v<T, cudnnPoolingDescriptor_t>) {
      Answer(kReal, CUDNN(GetPoolingNdDescriptor), twin, 6, Out<cudnnPoolingMode_t>(),
             Out<cudnnNanPropagation_t>(), count, other, other, strides);
    } else {
      Answer(kReal, CUDNN(GetConvolutionNdDescriptor), twin, 6, count, other, strides, other,
             Out<cudnnConvolutionMode_t>(), Out<cudnnDataType_t>());
    }
    const auto first = strides.values.begin();
    return std::all_of(first, first + std::max(count.values[0], 0), [](int s) { return s > 0; });
  }
  void ConvolutionOutput();
  void PoolingOutput();

  template <class T>
  static inline std::vector<Twin<T>> pool_;
  std::vector<Twin<cudnnTensorDescriptor_t>> derived_;
};

void DescriptorConformance::ConvolutionOutput() {
  const auto convolution = One<cudnnConvolutionDescriptor_t>();
  const auto image = One<cudnnTensorDescriptor_t>();
  const auto filter = One<cudnnFilterDescriptor_t>();
  if (!StridesDivide(convolution)) return;
  // Random descriptors rarely fit each other, so most calls get descriptors that do.
  if (Chance(60) && convolution.of[kReal] && image.of[kReal] && filter.of[kReal]) {
    const int spatial = Between(2, 3);
    const int groups = Between(1, 3);
    const int channels = Between(1, 4);
    auto x = Ints(Uniform(1, 9)), w = Ints(Uniform(1, 4));
    x[1] = groups * channels;
    w[0] = groups * Between(1, 2);
    w[1] = channels;
    OnBoth(CUDNN(SetTensorNdDescriptorEx), image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, spatial + 2,
           x);
    OnBoth(CUDNN(SetFilterNdDescriptor), filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, spatial + 2,
           w);
    OnBoth(CUDNN(SetConvolutionNdDescriptor), convolution, spatial, Ints(kPad), Ints(kStep),
           Ints(kStep), CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
    OnBoth(CUDNN(SetConvolutionGroupCount), convolution, groups);
    if (!StridesDivide(convolution)) return;
  }
  const Out<int> one;
  if (Chance(50)) {
    return Call(CUDNN(GetConvolution2dForwardOutputDim), convolution, image, filter, one, one, one,
                one);
  }
  Call(CUDNN(GetConvolutionNdForwardOutputDim), convolution, image, filter,
       Int({60, {4, 5}, Range(-1, 9)}), Out<int>());
}

void DescriptorConformance::PoolingOutput() {
  const auto pooling = One<cudnnPoolingDescriptor_t>();
  const auto image = One<cudnnTensorDescriptor_t>();
  if (!StridesDivide(pooling)) return;
  const Out<int> one;
  if (Chance(50)) {
    return Call(CUDNN(GetPooling2dForwardOutputDim), pooling, image, one, one, one, one);
  }
  Call(CUDNN(GetPoolingNdForwardOutputDim), pooling, image, Int({75, Range(3, 6), Range(-1, 10)}),
       Out<int>());
}

TEST_F(DescriptorConformance, RandomCallsOfConvolutionsAnswerAsTheRealLibrary) {
  const std::vector<Row> rows = {
      {16,
       Random(CUDNN(SetTensor4dDescriptor), {kFormat, kType, kExtent, kExtent, kExtent, kExtent})},
      {10, Random(CUDNN(SetTensor4dDescriptorEx),
                  {kType, kExtent, kExtent, kExtent, kExtent, kStride, kStride, kStride, kStride})},
      {28, Random(CUDNN(SetTensorNdDescriptor), {kType, kDimCount, kExtent, kStride})},
      {28, [&] { SetTensorNdEx(One<cudnnTensorDescriptor_t>(), INT_MIN); }},
      {10, Random(CUDNN(GetTensor4dDescriptor))},
      {10, [&] { GetTensorNd(One<cudnnTensorDescriptor_t>(), Between(-1, 10)); }},
      {10, Random(CUDNN(GetTensorSizeInBytes))},
      {28,
       Random(CUDNN(SetFilter4dDescriptor), {kType, kFormat, kExtent, kExtent, kExtent, kExtent})},
      {16, Random(CUDNN(SetFilterNdDescriptor), {kType, kFormat, kDimCount, kExtent})},
      {10, [&] { GetFilterNd(Between(-1, 10)); }},
      {10, Random(CUDNN(GetFilterSizeInBytes))},
      {18, Random(CUDNN(SetConvolution2dDescriptor),
                  {kPad, kPad, kStep, kStep, kStep, kStep, kMode, kComputeType})},
      {18, Random(CUDNN(SetConvolutionNdDescriptor),
                  {{80, {2, 3}, Range(-1, 9)}, kPad, kStep, kStep, kMode, kComputeType})},
      {7, SetAndGet(CUDNN(SetConvolutionMathType), CUDNN(GetConvolutionMathType), Uniform(-2, 6))},
      {7, SetAndGet(CUDNN(SetConvolutionGroupCount), CUDNN(GetConvolutionGroupCount),
                    {50, {1, 2, 3}, {0, -1, INT_MIN, INT_MAX, 32}})},
      {7, Random(CUDNN(GetConvolutionNdDescriptor), {Uniform(-1, 9)})},
      {60, [&] { ConvolutionOutput(); }},
      {8, Random(CUDNN(SetActivationDescriptor),
                 {Uniform(-1, 8), Uniform(-1, 2), {100, {0, 1, -1, 6}, {}}})},
      {8, Random(CUDNN(GetActivationDescriptor))},
  };
  MakeCalls(40000, rows);
  EXPECT_GE(2 * refused_, calls_) << "at least half of the calls are to be invalid";
}

TEST_F(DescriptorConformance, RandomCallsOfLayersAnswerAsTheRealLibrary) {
  const std::vector<Row> rows = {
      {12, Random(CUDNN(SetTensorNdDescriptor), {kType, kDimCount, kExtent, kStride})},
      {10, [&] { SetTensorNdEx(Tensor(), 3); }},
      {12, Random(CUDNN(SetPooling2dDescriptor),
                  {kPoolingMode, kNan, kStep, kStep, kPad, kPad, kStep, kStep})},
      {6, Random(CUDNN(SetPoolingNdDescriptor),
                 {kPoolingMode, kNan, {80, Range(1, 4), Range(-1, 9)}, kStep, kPad, kStep})},
      {6, Random(CUDNN(GetPoolingNdDescriptor), {Uniform(-1, 9)})},
      {20, [&] { PoolingOutput(); }},
      {5, Random(CUDNN(SetOpTensorDescriptor), {Uniform(-1, 7), kType, kNan})},
      {20, [&] { DeriveBNTensor(One(derived_)); }},
  };
  MakeCalls(30700, rows);
  EXPECT_GE(3 * refused_, calls_) << "at least a third of the calls are to be invalid";
  EXPECT_GE(3 * (calls_ - refused_), calls_) << "and a third valid";
}

TEST_F(DescriptorConformance, ADifferenceIsFound) {
  const auto twin = pool_<cudnnConvolutionDescriptor_t>[0];
  testing::TestPartResultArray found;
  Answer(kOurs, CUDNN(SetConvolutionGroupCount), twin, 5);
  {
    const testing::ScopedFakeTestPartResultReporter reporter(&found);
    Call(CUDNN(GetConvolutionGroupCount), twin, Out<int>());
  }
  EXPECT_EQ(found.size(), 1);
}

TEST_F(DescriptorConformance, VersionsPropertiesAndErrorNames) {
  Call(CUDNN(GetVersion));
  Call(CUDNN(GetMaxDeviceVersion));
  Call(CUDNN(GetCudartVersion));
  Call(CUDNN(GraphVersionCheck));
  Call(CUDNN(OpsVersionCheck));
  Call(CUDNN(CnnVersionCheck));
  Call(CUDNN(AdvVersionCheck));
  for (int property = -1; property < 6; ++property) Call(CUDNN(GetProperty), property, Out<int>());
  for (int code = -1; code < 6000; ++code) Call(CUDNN(GetErrorString), code);
}

}  // namespace
