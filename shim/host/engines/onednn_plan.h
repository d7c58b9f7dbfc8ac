// One convolution as oneDNN primitives: built once (milliseconds), immutable, run by any thread.
#pragma once

#include <array>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/host/engines/onednn_engine.h"
#include "shim/host/engines/strided_copy.h"

namespace hostgpu {

dnnl::engine& CpuEngine();

// Describes how one of x, w and y is moved between the caller's memory and the primitive's memory.
struct Operand {
  TensorCopy copy;               // strides of the caller and of the dense fp32 copy
  int64_t user_offset = 0;       // in elements; to the first element of mirrored axes
  bool staged = false;           // it needs the dense copy: 16-bit data, or a mirrored filter
  dnnl::memory::desc plain;      // the dense copy if staged, else the caller's memory
  dnnl::memory::desc primitive;  // the layout with which the convolution works
  bool reordered = false;        // `plain` and `primitive` differ
  bool buffered = false;         // the convolution works on a copy in the workspace
  size_t buffer_offset = 0;
};

// Blocked layouts pad channels to 16, so an image with 3 channels would grow fivefold. Tensors with
// fewer channels stay in a plain layout: the first of these for which oneDNN has a primitive.
enum class FewChannels { kAsStored, kNchw, kAny };

class OnednnPlan {
 public:
  // Returns null if oneDNN has no such primitive.
  static std::shared_ptr<const OnednnPlan> Create(const ConvolutionShape& shape,
                                                  OnednnVariant variant);

  size_t workspace_bytes() const { return workspace_bytes_; }
  bool Run(float alpha, void* x, void* w, void* y, float beta, void* workspace) const;

 private:
  struct Blend {
    float alpha, beta;
    dnnl::reorder reorder;
  };

  bool Describe(const ConvolutionShape& shape, OnednnVariant variant);
  bool CreateConvolution(const ConvolutionShape& shape, OnednnVariant variant,
                         FewChannels few_channels, bool forced_layouts);
  void LayOutWorkspace();
  dnnl::reorder BlendingReorder(float alpha, float beta) const;
  void Execute(float alpha, std::array<void*, 3> user, float beta, char* workspace) const;

  DataType type_;
  Operation operation_;
  std::array<Operand, 3> operands_;  // x, w, y
  int output_;                       // index of the operand that is written
  dnnl::primitive convolution_;
  dnnl::memory::desc scratchpad_;
  std::array<dnnl::reorder, 3> reorders_;  // for the inputs
  std::array<dnnl::memory::desc, 3> reorder_scratchpads_;
  // Dense copies and scratchpads share the space, one after the other in time.
  size_t shared_offset_ = 0;
  size_t workspace_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<Blend> blends_;  // guarded by mutex_; most recently made last
};

}  // namespace hostgpu
