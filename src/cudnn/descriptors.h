// Converts between cuDNN's descriptors and ConvolutionProblem. Thread-safe as far as cuDNN's
// descriptors are.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

// cuDNN requires device pointers as cudaMalloc returns them; its legacy engines load up to 16 bytes
// at once, so smaller alignments may fail.
constexpr int kLegacyAlignment = 16;

// Returns whether `pointer` may be passed to any legacy engine.
inline bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLegacyAlignment == 0;
}

cudnnDataType_t CudnnType(DataType type);

// Reads what `descriptors` describe into `problem`. Returns null on success, else why ucudnn passes
// such a call on unchanged (static text). Runs at every call and allocates nothing.
const char* ReadProblem(const Functions& functions, Operation operation,
                        const Descriptors& descriptors, ConvolutionProblem& problem);

// Reads x and y of an operation that treats each channel by itself into `problem`, as far as these
// tensors determine it, and y's extents into `y_extents`. Returns null on success, else why they
// are no such tensors (static text).
const char* ReadChannelwise(const Functions& functions, cudnnTensorDescriptor_t x,
                            cudnnTensorDescriptor_t y, ConvolutionProblem& problem,
                            Spatial& y_extents);

// Reads a stripe x, and a y that is x with further rows, equally many on both sides of each axis.
// `problem` becomes a forward problem in which each channel has a filter that reads exactly these
// rows. Returns null on success, else why they are no such tensors (static text).
const char* ReadRowsBeside(const Functions& functions, cudnnTensorDescriptor_t x,
                           cudnnTensorDescriptor_t y, ConvolutionProblem& problem);

// Reads the gradient of a bias as a backward_filter problem: a filter of one tap over an image of
// ones, with one input channel. Returns null on success, else why they are no such tensors (static
// text).
const char* ReadBiasGradient(const Functions& functions, cudnnTensorDescriptor_t dy,
                             cudnnTensorDescriptor_t db, ConvolutionProblem& problem);

// Returns whether both have the same type, extents and strides. Allocates nothing.
bool SameTensor(const Functions& functions, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b);

// Creates the descriptor of a tensor with the problem's type, images and channels.
Status CreateTensor(const Functions& functions, const ConvolutionProblem& problem,
                    const Spatial& extents, const Strides& strides,
                    cudnnTensorDescriptor_t& descriptor);

// Descriptors that ucudnn owns, of one problem. Movable; destroyed through the real library.
class OwnedDescriptors {
 public:
  explicit OwnedDescriptors(const Functions& functions) : functions_(&functions) {}
  ~OwnedDescriptors();
  OwnedDescriptors(OwnedDescriptors&& other) noexcept;
  OwnedDescriptors& operator=(OwnedDescriptors&&) = delete;

  // Creates all four descriptors of `problem`, whose n is the (micro-)batch. To be called at most
  // once.
  Status Create(const ConvolutionProblem& problem);
  // Creates the descriptors of x and y alone; those of filter and convolution stay null.
  Status CreateTensors(const ConvolutionProblem& problem);

  const Descriptors& get() const { return descriptors_; }

 private:
  const Functions* functions_;
  Descriptors descriptors_;
};

// Returns the bytes that the image, filter or output tensor spans, from its first element to the
// end of its last.
size_t ImageBytes(const ConvolutionProblem& problem);
size_t FilterBytes(const ConvolutionProblem& problem);
size_t OutputBytes(const ConvolutionProblem& problem);
// Returns the bytes of the tensor that the operation writes.
size_t ResultBytes(const ConvolutionProblem& problem);

}  // namespace ucudnn::cudnn
