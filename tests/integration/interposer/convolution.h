// A convolution for tests, with a handle, descriptors, and operands in guarded device memory. x, w
// and y mean the same as in ConvolutionCall.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/backend.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "guarded_memory.h"

namespace ucudnn::test {

enum class Extra { kNone, kRelu, kIdentity };  // the activation after a forward convolution

struct Scales {
  double alpha = 1, beta = 0;  // in cudnnConvolutionBiasActivationForward, beta is alpha2
};

// A tensor in device memory, and the `content` that Upload() copies there. `content` includes the
// gaps between elements, which no call may write.
struct Operand {
  Operand(DataType type, int images, int channels, const Spatial& extents, const Strides& strides,
          const Placement& placement);
  // Calls `body` with the index of every element.
  void ForEach(const std::function<void(size_t)>& body) const;
  double Get(const Bytes& from, size_t element) const;
  void Fill(const std::function<double()>& value);
  void Upload() { memory.Upload(content); }
  bool IsUnchanged() const { return memory.Download() == content; }

  DataType type;
  int images, channels;
  Spatial extents;
  Strides strides;
  Bytes content;
  GuardedMemory memory;
};

// The position of each operand relative to pages at which accesses fault.
struct Placements {
  Placement x, w, y, z, bias;
};

// Owns a stream.
class OwnStream {
 public:
  explicit OwnStream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~OwnStream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  OwnStream(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Owns a handle of the drop-in.
class OwnHandle {
 public:
  OwnHandle() { EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS); }
  ~OwnHandle() { EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS); }
  OwnHandle(const OwnHandle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class Convolution {
 public:
  // Makes operands for `problem`. `placements` decide the operands' alignment, and the problem's
  // alignment is ignored.
  Convolution(const ConvolutionProblem& problem, Extra extra = Extra::kNone, bool z_is_y = false,
              const Placements& placements = {});
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  // Returns the problem as ucudnn reads it from the descriptors.
  const ConvolutionProblem& problem() const { return problem_; }
  const cudnn::Descriptors& descriptors() const { return descriptors_.get(); }
  cudnnHandle_t handle() const { return handle_; }
  // Makes later calls use `handle`, which the caller owns, instead of this object's own handle.
  void UseHandle(cudnnHandle_t handle) { handle_ = handle; }
  Extra extra() const { return extra_; }

  // Fills and uploads all operands, the output included.
  void Fill(const std::function<double()>& value);
  void FillIntegers(std::mt19937& random);
  void FillIntegers(unsigned seed);
  // Fills all operands with random integers that depend on `seed`, and returns Expected().
  Bytes FillAndExpect(unsigned seed, const Scales& scales = {});
  // Sets all bits of the output, so that every element is NaN and a call that reads the output
  // gives NaN.
  void SpoilOutput();

  cudnnStatus_t Run(const cudnn::Functions& library, int algorithm, void* workspace,
                    size_t workspace_bytes, const Scales& scales = {});
  // Runs on `handle` instead of this object's own handle.
  cudnnStatus_t RunOn(cudnnHandle_t handle, const cudnn::Functions& library, int algorithm,
                      void* workspace, size_t workspace_bytes, const Scales& scales = {});

  // Returns the output of the real library's algorithm 0 (1 with an identity activation), and
  // restores the output's content.
  Bytes Expected(const Scales& scales = {});
  Operand& output();
  // Waits for the device, returns the output, and restores its content.
  Bytes TakeOutput();
  // Compares two outputs element by element, and their gaps byte by byte.
  bool OutputEquals(const Bytes& expected, const Bytes& actual);
  bool NothingElseWasWritten();
  // Calls TakeOutput(). Expects that the output equals `expected`, that the other operands are
  // unchanged, and that the guards of `workspace` are intact.
  void ExpectOutput(const Bytes& expected, const GuardedMemory* workspace = nullptr);

  Operand x, w, y, z, bias;

 private:
  std::vector<Operand*> Operands();

  cudnn::OwnedDescriptors descriptors_;
  ConvolutionProblem problem_;
  Extra extra_;
  bool z_is_y_;
  cudnnHandle_t own_handle_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  cudnnTensorDescriptor_t bias_descriptor_ = nullptr;
  cudnnActivationDescriptor_t activation_ = nullptr;
};

// Returns a variant pack with the operands and `workspace` for plans of the drop-in, or nullopt if
// it cannot be made.
std::optional<cudnn::BackendDescriptor> PackOf(const Convolution& convolution, void* workspace);

// RealNeed returns the workspace that the stand-in reports for `algorithm`, ReportedNeed the
// workspace that the drop-in reports. Both return nullopt if the library refuses the problem.
std::optional<size_t> RealNeed(const Convolution& convolution, int algorithm);
std::optional<size_t> ReportedNeed(const Convolution& convolution, int algorithm);

}  // namespace ucudnn::test
