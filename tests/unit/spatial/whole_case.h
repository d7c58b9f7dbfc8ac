// Runs a convolution on the stand-in, once undivided and once in the stripes of the ranks, with the
// same whole numbers. Host data are doubles. Device memory stores them in the convolution's type,
// which holds small whole numbers exactly.
#pragma once

#include <cuda.h>

#include <array>
#include <functional>
#include <random>
#include <vector>

#include "convolution/partition.h"
#include "cudnn/convolution_call.h"

namespace ucudnn::test {

using Extents5 = std::array<int64_t, 5>;
using Box3 = std::array<Interval, 3>;

// A tensor on the host with axes n, c, d, h, w (a filter: k, c, d, h, w), packed in this order.
struct HostTensor {
  Extents5 extents = {};
  std::vector<double> values;

  HostTensor() = default;
  explicit HostTensor(const Extents5& extents);
  double& At(const Extents5& at);
  double At(const Extents5& at) const { return const_cast<HostTensor&>(*this).At(at); }
  HostTensor Box(const Box3& box) const;
  bool operator==(const HostTensor&) const = default;
};

// Holds a scale as a double and as a float, of which cuDNN reads one, depending on the type.
struct Scalar {
  double wide;
  float narrow;
  explicit Scalar(double value) : wide(value), narrow(static_cast<float>(value)) {}
  const void* Of(DataType type) const {
    return type == DataType::kDouble ? static_cast<const void*>(&wide) : &narrow;
  }
};

// Returns a tensor of random whole numbers from -most to most.
HostTensor RandomTensor(const Extents5& extents, int most, std::mt19937& random);

// Holds a tensor in device memory with any strides, between margins. Gaps and margins hold a
// pattern.
class DeviceTensor {
 public:
  DeviceTensor(const HostTensor& host, const Strides& strides, DataType type);
  ~DeviceTensor();
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  void* data() const;
  HostTensor Read() const;
  // Returns whether gaps and margins still hold the pattern.
  bool IsIntact() const;

 private:
  std::vector<unsigned char> Bytes() const;
  // Calls visit(position, byte offset) for every element.
  void ForEach(const std::function<void(const Extents5&, size_t)>& visit) const;

  const Extents5 extents_;
  const Strides strides_;
  const DataType type_;
  size_t bytes_ = 0;
  CUdeviceptr address_ = 0;
};

// Holds the further arguments of cudnnConvolutionBiasActivationForward. z has the shape of y.
struct Fused {
  bool is_used = false;
  bool has_activation = true;
  bool z_is_y = false;
  double alpha2 = 1;
  HostTensor z, bias;
};

struct WholeCase {
  ConvolutionProblem problem;  // of the whole image; its strides are packed
  double alpha = 1, beta = 0;
  HostTensor x, w, y;  // the output holds the numbers that beta reads
  Fused fused;

  static WholeCase Random(const ConvolutionProblem& problem, std::mt19937& random);
  HostTensor& Output();
  const HostTensor& Output() const { return const_cast<WholeCase*>(this)->Output(); }
};

// A rank's stripe: its part of the image and of the output.
struct Stripe {
  ConvolutionProblem problem;  // the rank's own, with its strides
  Box3 elements, windows;
};
// Returns the stripe of a rank that has all of the image.
Stripe WholeStripe(const ConvolutionProblem& whole);

// Holds what a run of a stripe wrote.
struct StripeResult {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  HostTensor output;
  bool is_intact = true;  // no tensor but the output was written
};

// Prepares the call of `stripe` on `handle`, lets `run` make the call, waits for the handle's
// stream and reads the result. REQUIRES: the device's context is current on this thread.
StripeResult RunStripe(const WholeCase& whole, const Stripe& stripe, cudnnHandle_t handle,
                       const std::function<cudnnStatus_t(const cudnn::ConvolutionCall&)>& run);

// Returns the result of the undivided convolution.
HostTensor Undivided(const WholeCase& whole);

}  // namespace ucudnn::test
