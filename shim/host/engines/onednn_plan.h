// One convolution as oneDNN primitives. Creating a plan takes milliseconds. Several threads may run
// a plan at once: after its creation only its list of reorders with their scaling factors changes,
// under a mutex.
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

// Describes how x, w or y is copied between the caller's memory and the primitive's memory.
struct Operand {
  TensorCopy copy;  // strides of the caller's tensor and of the dense fp32 copy
  // Offset of the first element to copy, in elements; not 0 for mirrored axes.
  int64_t user_offset = 0;
  bool staged = false;  // a dense copy is needed, for example for 16-bit data or a mirrored filter
  dnnl::memory::desc plain;      // describes the dense copy if `staged`, else the caller's memory
  dnnl::memory::desc primitive;  // the layout in which the convolution reads or writes the tensor
  bool reordered = false;        // true if `plain` and `primitive` differ
  bool buffered = false;         // the convolution uses a copy in the workspace
  size_t buffer_offset = 0;
};

// Blocked layouts pad channels to a multiple of 16, so an image with 3 channels would grow to 16/3
// times its size. For an x with fewer than 16 channels, these layouts are tried in order until
// oneDNN has a primitive: as the caller stores x, plain NCHW, and (kAny) what oneDNN prefers.
enum class FewChannels { kAsStored, kNchw, kAny };

class OnednnPlan {
 public:
  // Returns null if oneDNN has no primitive for the shape and variant.
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
  std::array<Operand, 3> operands_;  // in the order x, w, y
  int output_;                       // index of the operand that is written
  dnnl::primitive convolution_;
  dnnl::memory::desc scratchpad_;
  std::array<dnnl::reorder, 3> reorders_;  // conversions of the inputs
  std::array<dnnl::memory::desc, 3> reorder_scratchpads_;
  // Offset of the space that dense copies and scratchpads share; they are used one after the other.
  size_t shared_offset_ = 0;
  size_t workspace_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<Blend> blends_;  // guarded by mutex_; the most recent one is last
};

}  // namespace hostgpu
