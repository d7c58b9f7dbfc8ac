// Tests y = activation(alpha1 * conv(x, w) + alpha2 * z + bias) exactly, with z in separate memory
// and with z in the memory of y.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {
namespace {

enum class Addend { kNone, kApart, kInPlace };

class Fused {
 public:
  Fused(const ConvolutionCase& c, cudnnActivationMode_t mode)
      : convolution(c),
        z(c.Output(), Layout::kNchw, c.type),
        bias({1, c.w[0], 1, 1, 1}, Layout::kNchw, c.type) {
    cudnnCreateActivationDescriptor(&activation);
    cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0);
    cudnnCreateTensorDescriptor(&z_desc);
    cudnnCreateTensorDescriptor(&bias_desc);
    Describe(z_desc, z);
    Describe(bias_desc, bias);
    std::mt19937 random(9);
    convolution.FillAll(random);
    z.Fill(random);
    bias.Fill(random);
  }
  ~Fused() {
    cudnnDestroyTensorDescriptor(bias_desc);
    cudnnDestroyTensorDescriptor(z_desc);
    cudnnDestroyActivationDescriptor(activation);
  }

  cudnnStatus_t Run(int algorithm, Addend addend, void* workspace, size_t workspace_bytes) {
    const double alpha64[] = {2, addend == Addend::kNone ? 0.0 : 3.0};
    const float alpha32[] = {2, addend == Addend::kNone ? 0.0f : 3.0f};
    const bool wide = convolution.problem.type == DataType::kDouble;
    const bool in_place = addend == Addend::kInPlace;
    Convolution& c = convolution;
    return cudnnConvolutionBiasActivationForward(
        c.handle, wide ? static_cast<const void*>(alpha64) : alpha32, c.x_desc, c.x.data, c.w_desc,
        c.w.data, c.conv_desc, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), workspace,
        workspace_bytes, wide ? static_cast<const void*>(alpha64 + 1) : alpha32 + 1,
        in_place ? c.y_desc : z_desc, in_place ? c.y.data : z.data, bias_desc, bias.data,
        activation, c.y_desc, c.y.data);
  }

  void Describe(cudnnTensorDescriptor_t descriptor, const DeviceTensor& tensor) {
    const auto dims = convolution.Pick(tensor.dims), strides = convolution.Pick(tensor.strides);
    cudnnSetTensorNdDescriptor(descriptor, CudnnType(tensor.type), static_cast<int>(dims.size()),
                               dims.data(), strides.data());
  }

  Convolution convolution;
  DeviceTensor z, bias;
  cudnnTensorDescriptor_t z_desc, bias_desc;
  cudnnActivationDescriptor_t activation;
};

void CheckFused(const ConvolutionCase& c, int algorithm, cudnnActivationMode_t mode,
                Addend addend) {
  Fused fused(c, mode);
  Convolution& conv = fused.convolution;
  size_t needed = 0;
  if (conv.WorkspaceSize(algorithm, &needed) != CUDNN_STATUS_SUCCESS) return;
  DeviceMemory workspace(needed);
  ASSERT_OK(fused.Run(algorithm, addend, workspace.data, needed));
  ConvolutionCase plain = c;  // conv(x, w) alone, of the same data
  plain.alpha = 2;
  std::vector<double> before;
  conv.y.ForEach([&](const Index& at) { before.push_back(conv.y.At(at)); });
  Convolution naive(plain);
  naive.x.bytes = conv.x.bytes;
  naive.w.bytes = conv.w.bytes;
  naive.ComputeExpected();
  size_t element = 0;
  conv.y.ForEach([&](const Index& at) {
    const double z = addend == Addend::kInPlace ? before[element] : fused.z.At(at);
    ++element;
    double value = naive.y.At(at) + fused.bias.At({0, at[1], 0, 0, 0});
    if (addend != Addend::kNone) value += 3 * z;
    conv.y.Set(at, mode == CUDNN_ACTIVATION_RELU ? std::max(value, 0.0) : value);
  });
  cudaDeviceSynchronize();
  EXPECT_TRUE(conv.y.Matches());
}

TEST(BiasActivation, AgreesWithNaiveLoops) {
  for (DataType type :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc, Layout::kPadded}) {
      for (int spatial : {2, 3}) {
        for (Addend addend : {Addend::kNone, Addend::kApart, Addend::kInPlace}) {
          ConvolutionCase c{.type = type, .spatial = spatial, .layout = layout};
          if (spatial == 3) {
            c.x[2] = 3;
            c.w[2] = 2;
          }
          SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(type) << ", layout "
                                          << static_cast<int>(layout) << ", " << spatial
                                          << "-D, addend " << static_cast<int>(addend));
          CheckFused(c, 0, CUDNN_ACTIVATION_RELU, addend);
          CheckFused(c, 1, CUDNN_ACTIVATION_RELU, addend);
          CheckFused(c, 1, CUDNN_ACTIVATION_IDENTITY, addend);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(BiasActivation, IdentityIsServedByAlgorithmOneAlone) {
  Fused fused(ConvolutionCase{}, CUDNN_ACTIVATION_IDENTITY);
  EXPECT_EQ(fused.Run(0, Addend::kApart, nullptr, 0), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST(BiasActivation, OtherActivationsAreRefused) {
  Fused fused(ConvolutionCase{}, CUDNN_ACTIVATION_TANH);
  EXPECT_EQ(fused.Run(0, Addend::kApart, nullptr, 0), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST(BiasActivation, BiasHasOneValuePerChannel) {
  Fused fused(ConvolutionCase{}, CUDNN_ACTIVATION_RELU);
  cudnnSetTensor4dDescriptor(fused.bias_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 1, 1);
  EXPECT_EQ(fused.Run(0, Addend::kApart, nullptr, 0), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace hostgpu::test
