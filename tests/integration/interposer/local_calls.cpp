#include "local_calls.h"

#include <gtest/gtest.h>

#include <vector>

// cuDNN's headers deprecate functions that newer releases may drop.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace ucudnn::test {
namespace {

constexpr int kPlane = 6;  // the stripe has 3 x 2 positions
using Values = std::vector<float>;

// A tensor of one stripe, in device memory, with `images` images and `channels` channels.
class Tensor {
 public:
  Tensor(int images, int channels, const Values& values, int rows = 3, int columns = 2)
      : count_(values.size()) {
    EXPECT_EQ(cudnnCreateTensorDescriptor(&layout_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(layout_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images,
                                         channels, rows, columns),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(float), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~Tensor() {
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
    EXPECT_EQ(cudnnDestroyTensorDescriptor(layout_), CUDNN_STATUS_SUCCESS);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  cudnnTensorDescriptor_t layout() const { return layout_; }
  void* data() const { return data_; }
  Values Read(cudaStream_t stream) const {
    Values values(count_);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  const size_t count_;
  cudnnTensorDescriptor_t layout_ = nullptr;
  void* data_ = nullptr;
};

// Returns `of(position, plane)` for all positions of two planes, the first plane first.
template <typename Of>
Values TwoPlanes(Of of) {
  Values values;
  for (int plane = 0; plane < 2; ++plane) {
    for (int at = 0; at < kPlane; ++at) values.push_back(static_cast<float>(of(at, plane)));
  }
  return values;
}
float Sign(int plane) { return plane == 0 ? -1.0F : 1.0F; }

}  // namespace

void ExpectChannelSoftmax(cudnnHandle_t handle, cudaStream_t stream) {
  const float one = 1, zero = 0;
  // Both channels of a position have equal values, so softmax over channels gives 0.5 everywhere.
  const Tensor x(1, 2, TwoPlanes([](int at, int) { return at; })), y(1, 2, Values(2 * kPlane, 9));
  EXPECT_EQ(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                x.layout(), x.data(), &zero, y.layout(), y.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(y.Read(stream), Values(2 * kPlane, 0.5));
  const Tensor dy(1, 2, TwoPlanes([](int at, int plane) { return 2.0F * Sign(plane) * at; }));
  const Tensor dx(1, 2, Values(2 * kPlane, 9));
  EXPECT_EQ(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                 y.layout(), y.data(), dy.layout(), dy.data(), &zero, dx.layout(),
                                 dx.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(dx.Read(stream), TwoPlanes([](int at, int plane) { return Sign(plane) * at; }));
}

void ExpectNormOfPositions(cudnnHandle_t handle, cudaStream_t stream) {
  const float one = 1, zero = 0;
  constexpr auto kMode = CUDNN_BATCHNORM_PER_ACTIVATION;
  // At each position, the two images are 1 below and 1 above their mean, so the variance is 1. With
  // epsilon = 3, the inverse deviation is 1 / sqrt(1 + 3) = 1/2.
  constexpr double kEpsilon = 3;
  const Values means = {0, 1, 2, 3, 4, 5}, ones(kPlane, 1), zeros(kPlane, 0);
  const Tensor x(2, 1, TwoPlanes([](int at, int image) { return at + Sign(image); }));
  const Tensor y(2, 1, Values(2 * kPlane, 9));
  const Tensor scale(1, 1, ones), bias(1, 1, zeros), mean(1, 1, zeros), variance(1, 1, zeros);
  const Tensor saved_mean(1, 1, zeros), saved_inverse(1, 1, zeros);
  EXPECT_EQ(cudnnBatchNormalizationForwardTraining(
                handle, kMode, &one, &zero, x.layout(), x.data(), y.layout(), y.data(),
                scale.layout(), scale.data(), bias.data(), 1, mean.data(), variance.data(),
                kEpsilon, saved_mean.data(), saved_inverse.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(y.Read(stream), TwoPlanes([](int, int image) { return Sign(image) / 2; }));
  EXPECT_EQ(mean.Read(stream), means);
  // cuDNN stores the unbiased variance: 1 * 2 / (2 - 1).
  EXPECT_EQ(variance.Read(stream), Values(kPlane, 2));
  EXPECT_EQ(saved_mean.Read(stream), means);
  EXPECT_EQ(saved_inverse.Read(stream), Values(kPlane, 0.5));
  // At position p the normalised values are -1/2 and 1/2, and dy is -4 p and 4 p, so dscale is 4 p
  // and dbias is 0.
  const Tensor dy(2, 1, TwoPlanes([](int at, int image) { return 4 * Sign(image) * at; }));
  const Tensor dx(2, 1, Values(2 * kPlane, 9)), dscale(1, 1, ones), dbias(1, 1, ones);
  EXPECT_EQ(cudnnBatchNormalizationBackward(
                handle, kMode, &one, &zero, &one, &zero, x.layout(), x.data(), dy.layout(),
                dy.data(), dx.layout(), dx.data(), scale.layout(), scale.data(), dscale.data(),
                dbias.data(), kEpsilon, saved_mean.data(), saved_inverse.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(dscale.Read(stream), Values({0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(dbias.Read(stream), zeros);
  EXPECT_EQ(dx.Read(stream),
            TwoPlanes([](int at, int image) { return 0.5F * (4 - 1) * Sign(image) * at; }));
}

}  // namespace ucudnn::test
