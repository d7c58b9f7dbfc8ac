// Batch normalisation, with one mean for each channel, of a tensor that is cut into one slice for
// each rank. Each rank computes on its slice before and after an exchange of a few numbers for each
// channel, so that all slices together become the result for the whole tensor. Made once. A call
// allocates nothing, and enqueues only functions of cuDNN, on the stream of its handle. Not
// thread-safe.
//
// Let slice r have c_r elements of each channel, c = sum c_r, and w_r = c_r / c.
// - Training. Slice r's call gives its mean m_r and unbiased variance u_r. Then
//     mean = sum w_r m_r,  variance = sum w_r ((c_r - 1) / c_r u_r + (m_r - mean)^2)
//   (Chan, Golub and LeVeque, 1983), and cuDNN's inference with these numbers gives y. Means are
//   taken relative to the first slice's mean, so that a common offset of all means adds no rounding
//   error. A channel whose mean is infinite becomes NaN.
// - Gradient. With the mean and inverse deviation of the whole tensor, slice r's call gives its
//   dscale_r and dbias_r, which add up to dscale and dbias of the whole tensor. It also gives a dx,
//   to which
//     scale inverse ((dbias_r / c_r - dbias / c) + normal (dscale_r / c_r - dscale / c)),
//   with normal = (x - mean) inverse, must be added. For each channel this is a linear function of
//   x, so inference adds it. A 16-bit dx is rounded once more than in an undivided call.
//
// A call consists of RunOwn; the exchange, in which each rank sends its message to all others; and
// Finish. For a gradient without saved statistics, RunOwnStatistics, an exchange and
// FinishStatistics come before RunOwn. Results that several ranks compute have the same bits on all
// of them.
//
// The caller provides the scratch memory, aligned for any function of cuDNN. Its content before a
// call does not matter, but nobody else may change it between a call's first part and its last. Its
// layout:
//   message of slice 0 | ... | message of the last slice | this rank's own numbers
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "cudnn/norm_call.h"
#include "spatial/channel_numbers.h"

namespace ucudnn::spatial {

struct NormSlices {
  DataType type = DataType::kFloat;  // type of x, y and their gradients
  int channels = 1;
  std::vector<int64_t> counts;  // elements of each channel in each slice; at least 1
  size_t own = 0;               // index of this rank's slice
  // The dscale and dbias that a gradient writes: the sums over all slices, this rank's part of
  // these sums, or zeros. dx always follows from the sums over all slices.
  enum class Share { kAll, kOwn, kNone } share = Share::kAll;
};

class NormStatistics {
 public:
  // Fails if the library lacks a function.
  static Result<std::unique_ptr<NormStatistics>> Make(const cudnn::Functions& functions,
                                                      const NormSlices& slices);

  size_t scratch_bytes() const { return Place(kNumbers); }
  // The size of a message, and the place of a slice's message in the scratch memory, in bytes.
  // RunOwn and RunOwnStatistics write this rank's message; the messages of other ranks must be
  // received at their places. Finish overwrites messages.
  size_t message_bytes() const { return 2 * numbers_->bytes(); }
  size_t message_place(size_t slice) const { return slice * message_bytes(); }

  // Runs the rank's own part of a call. If this fails, the program gets the returned status. A
  // gradient writes dx and no other memory of the program. A forward call writes at most y, and
  // only if no later step reads the memory of y. Finish completes the results. y may lie in the
  // memory of x, and dx in the memory of dy, but dx never lies in the memory of x.
  cudnnStatus_t RunOwn(const cudnn::NormTraining& call, CUdeviceptr scratch) const;
  cudnnStatus_t RunOwn(const cudnn::NormGradient& call, CUdeviceptr scratch) const;
  // To be called after the exchange.
  Status Finish(const cudnn::NormTraining& call, CUdeviceptr scratch) const;
  Status Finish(const cudnn::NormGradient& call, CUdeviceptr scratch) const;

  // For a gradient without saved statistics: the statistics are computed into the scratch memory,
  // from which RunOwn and Finish read them.
  cudnnStatus_t RunOwnStatistics(const cudnn::NormGradient& call, CUdeviceptr scratch) const;
  Status FinishStatistics(const cudnn::NormGradient& call, CUdeviceptr scratch) const;

 private:
  // This rank's own numbers, in the order in which they are in the scratch memory.
  enum Number {
    kMean,
    kInverse,
    kVariance,
    kShift,  // the mean minus the first slice's mean
    kDeviation,
    kZeros,
    kOnes,
    kScaleSum,
    kBiasSum,
    kScaleChange,
    kBiasChange,
    kFactor,
    kNumbers
  };

  NormStatistics(const cudnn::Functions& functions, const NormSlices& slices,
                 std::unique_ptr<ChannelNumbers> numbers);
  size_t Place(int number) const {
    return message_place(slices_.counts.size()) + static_cast<size_t>(number) * numbers_->bytes();
  }
  // The two parts of a message: mean and variance, or dscale and dbias.
  CUdeviceptr First(CUdeviceptr scratch, size_t slice) const {
    return scratch + message_place(slice);
  }
  CUdeviceptr Second(CUdeviceptr scratch, size_t slice) const {
    return First(scratch, slice) + numbers_->bytes();
  }
  double CountOf(size_t slice) const { return static_cast<double>(slices_.counts[slice]); }

  cudnnStatus_t WriteOwnStatistics(cudnn::NormTraining call, CUdeviceptr scratch) const;
  // Computes kMean and kVariance from all slices' messages.
  Status Combine(cudnnHandle_t handle, CUdeviceptr scratch) const;
  Status WriteInverse(cudnnHandle_t handle, double epsilon, CUdeviceptr scratch,
                      CUdeviceptr to) const;
  Status WriteRunning(const cudnn::NormTraining& call, CUdeviceptr scratch) const;
  // Computes kScaleSum and kBiasSum, and the caller's dscale and dbias.
  Status WriteSums(const cudnn::NormGradient& call, CUdeviceptr scratch) const;
  // Computes kScaleChange and kBiasChange: the correction of dx as a linear function of x - mean.
  Status WriteChanges(const cudnn::NormGradient& call, CUdeviceptr scratch) const;
  CUdeviceptr MeanOf(const cudnn::NormGradient& call, CUdeviceptr scratch) const;
  CUdeviceptr InverseOf(const cudnn::NormGradient& call, CUdeviceptr scratch) const;

  const cudnn::Functions& functions_;
  const NormSlices slices_;
  double count_ = 0;  // elements of each channel in all slices together
  const std::unique_ptr<ChannelNumbers> numbers_;
};

}  // namespace ucudnn::spatial
