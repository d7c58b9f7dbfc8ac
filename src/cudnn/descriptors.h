// Converts between cuDNN's descriptors and ConvolutionProblem. Thread-safe as far as cuDNN's
// descriptors are.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

// The alignment of device pointers in bytes. cuDNN requires pointers that are aligned as cudaMalloc
// aligns them. Its legacy engines load up to 16 bytes at once, so smaller alignments may fail.
constexpr int kLegacyAlignment = 16;

// Returns whether `pointer` may be passed to any legacy engine.
inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLegacyAlignment == 0;
}

cudnnDataType_t CudnnType(DataType type);

// Reads the convolution that `descriptors` describe into `problem`. Returns null on success,
// otherwise the reason (static text) why ucudnn passes such a call on unchanged. Runs at every call
// and allocates nothing.
const char* ReadProblem(const Functions& functions, Operation operation,
                        const Descriptors& descriptors, ConvolutionProblem& problem);

// Reads the tensors of an operation that computes each channel of y from the same channel of x.
// Sets `problem`, as far as x and y determine it, and `y_extents`. Returns null on success,
// otherwise the reason (static text) why x and y do not fit such an operation.
const char* ReadChannelwise(const Functions& functions, cudnnTensorDescriptor_t x,
                            cudnnTensorDescriptor_t y, ConvolutionProblem& problem,
                            Spatial& y_extents);

// Reads two tensors x and y. Along each axis, y has the rows of x and p further rows at each end.
// Sets `problem` to a forward convolution of x that has one filter for each channel, with a pad of
// p and windows of 2 p + 1 rows. Returns null on success, otherwise the reason (static text) why x
// and y are not such tensors.
const char* ReadRowsBeside(const Functions& functions, cudnnTensorDescriptor_t x,
                           cudnnTensorDescriptor_t y, ConvolutionProblem& problem);

// Reads the gradient of a bias as a backward_filter problem: a filter of one tap over an image of
// ones, with one input channel. Returns null on success, otherwise the reason (static text) why dy
// and db do not fit such a problem.
const char* ReadBiasGradient(const Functions& functions, cudnnTensorDescriptor_t dy,
                             cudnnTensorDescriptor_t db, ConvolutionProblem& problem);

// Returns whether both tensors have the same type, extents and strides. Allocates nothing.
bool SameTensor(const Functions& functions, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b);

// Creates the descriptor of a tensor with these extents and strides, and with the type, the images
// (n) and the input channels (c) of `problem`. The caller destroys `descriptor`.
Status CreateTensor(const Functions& functions, const ConvolutionProblem& problem,
                    const Spatial& extents, const Strides& strides,
                    cudnnTensorDescriptor_t& descriptor);

// The descriptors of one problem, which this object owns. Movable; destroyed through the real
// library.
class OwnedDescriptors {
 public:
  explicit OwnedDescriptors(const Functions& functions) : functions_(&functions) {}
  ~OwnedDescriptors();
  OwnedDescriptors(OwnedDescriptors&& other) noexcept;
  OwnedDescriptors& operator=(OwnedDescriptors&&) = delete;

  // Creates all four descriptors of `problem`, whose n is the (micro-)batch. May be called only
  // once.
  Status Create(const ConvolutionProblem& problem);
  // Creates the descriptors of x and y only; the descriptors of filter and convolution stay null.
  Status CreateTensors(const ConvolutionProblem& problem);

  const Descriptors& get() const { return descriptors_; }

 private:
  const Functions* functions_;
  Descriptors descriptors_;
};

// Return the bytes that the image, filter or output tensor spans, from its first element to the end
// of its last.
size_t ImageBytes(const ConvolutionProblem& problem);
size_t FilterBytes(const ConvolutionProblem& problem);
size_t OutputBytes(const ConvolutionProblem& problem);
// Returns the bytes of the tensor that the operation writes.
size_t ResultBytes(const ConvolutionProblem& problem);

}  // namespace ucudnn::cudnn
