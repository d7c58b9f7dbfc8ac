// Provides all element types and layouts, descriptors and scaling factors for tests of layers other
// than convolutions. Enqueue() overwrites the scaling factors before the work runs.
#pragma once

#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "tests/unit/host/cudnn/convolution_case.h"

namespace hostgpu::test {

class LayerTest : public testing::TestWithParam<std::tuple<DataType, Layout>> {
 protected:
  LayerTest() : type_(std::get<0>(GetParam())), layout_(std::get<1>(GetParam())) {
    EXPECT_OK(cudnnCreate(&handle_));
    EXPECT_OK(cudnnSetStream(handle_, stream_));
  }
  ~LayerTest() override {
    for (cudnnTensorDescriptor_t descriptor : descriptors_)
      cudnnDestroyTensorDescriptor(descriptor);
    cudnnDestroy(handle_);
  }

  // Returns a descriptor of `tensor`. The destructor destroys the descriptor. With `dim_count` = 4
  // the depth, which must be 1, is left out.
  cudnnTensorDescriptor_t Describe(const DeviceTensor& tensor, int dim_count = 5) {
    std::vector<int> dims(tensor.dims.begin(), tensor.dims.end());
    std::vector<int> strides(tensor.strides.begin(), tensor.strides.end());
    if (dim_count == 4) {
      dims.erase(dims.begin() + 2);
      strides.erase(strides.begin() + 2);
    }
    cudnnTensorDescriptor_t descriptor;
    cudnnCreateTensorDescriptor(&descriptor);
    EXPECT_OK(cudnnSetTensorNdDescriptor(descriptor, CudnnType(tensor.type), dim_count, dims.data(),
                                         strides.data()));
    descriptors_.push_back(descriptor);
    return descriptor;
  }

  // Returns a scaling factor as a double if the data are doubles, else as a float.
  const void* Scale(double value) {
    doubles_.push_back(std::make_unique<double>(value));
    floats_.push_back(std::make_unique<float>(static_cast<float>(value)));
    return type_ == DataType::kDouble ? static_cast<const void*>(doubles_.back().get())
                                      : floats_.back().get();
  }

  // Makes `call` while a gate holds the stream: the call must return at once, and must have read
  // the factors by then.
  template <class Call>
  cudnnStatus_t Enqueue(const Call& call) {
    Gate gate;
    gate.Launch(stream_);
    const cudnnStatus_t status = call();
    for (auto& value : doubles_) *value = std::numeric_limits<double>::quiet_NaN();
    for (auto& value : floats_) *value = std::numeric_limits<float>::quiet_NaN();
    gate.Open();
    EXPECT_OK(cudaStreamSynchronize(stream_));
    return status;
  }

  // Fills the tensors with real values in [-2, 2], rounded to their types.
  template <class... Tensors>
  void FillReal(Tensors&... tensors) {
    std::uniform_real_distribution<double> values(-2, 2);
    (tensors.FillWith([&](const Index&) { return values(random_); }), ...);
  }
  static void Fill(DeviceTensor& tensor, double value) {
    tensor.FillWith([&](const Index&) { return value; });
  }
  // Returns the central difference of loss(), which reads `value`.
  template <class Loss>
  static double Slope(double& value, const Loss& loss) {
    constexpr double kStep = 1e-5;
    const double here = value;
    value = here + kStep;
    const double above = loss();
    value = here - kStep;
    const double below = loss();
    value = here;
    return (above - below) / (2 * kStep);
  }
  // Returns a bound for the error of values below `magnitude` that are rounded a few times in fp32
  // or better, and once to the type.
  double Tolerance(double magnitude) const {
    return magnitude * (type_ == DataType::kDouble  ? 1e-13
                        : type_ == DataType::kFloat ? 1e-6
                        : type_ == DataType::kHalf  ? 0x1p-10
                                                    : 0x1p-7);
  }

  const DataType type_;
  const Layout layout_;
  cudnnHandle_t handle_ = nullptr;
  Stream stream_;
  std::mt19937 random_{17};
  std::vector<cudnnTensorDescriptor_t> descriptors_;
  std::vector<std::unique_ptr<double>> doubles_;
  std::vector<std::unique_ptr<float>> floats_;
};

inline auto EveryTypeAndLayout() {
  return testing::Combine(
      testing::Values(DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble),
      testing::Values(Layout::kNchw, Layout::kNhwc, Layout::kPadded));
}

}  // namespace hostgpu::test
