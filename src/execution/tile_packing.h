// Packed copies of a tile's tensors, for tiles whose views (parts of the whole tensors) engines do
// not accept. The copies are in the workspace, before the engine's own workspace. A TilePacking is
// immutable, and threads that use different handles may share it. A call allocates nothing.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "convolution/tiles.h"
#include "cuda/box_copy.h"
#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::execution {

// The functions that copies need: the driver's functions, and cuDNN's function that returns a
// handle's stream. The caller owns both tables and keeps them alive.
struct Copier {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
};

class TilePacking {
 public:
  TilePacking() = default;  // copies nothing: the engine works on the tile's views
  // Fails if the driver lacks functions that the copies need.
  static Result<TilePacking> Make(const ConvolutionProblem& whole, const TileKind& kind,
                                  const Copier& copier);

  bool packs() const { return bytes_ > 0; }
  bool unpacks() const { return unpack_.copies() > 0; }

  // Copies the tensors that the engine reads and, if `keeps_output`, the old content of the output.
  // `call` is the call of the tile. The pointers of `call` point to the tile's views, and its
  // workspace begins with the memory for the copies.
  cudnnStatus_t Pack(const cudnn::ConvolutionCall& call, bool keeps_output) const;
  // Copies the packed output back to its view.
  cudnnStatus_t Unpack(const cudnn::ConvolutionCall& call) const;
  // Replaces the call's pointers by the addresses of the copies, and moves its workspace behind the
  // copies.
  void MoveToCopies(cudnn::ConvolutionCall& call) const;

 private:
  cudnnStatus_t Copy(const cudnn::ConvolutionCall& call, const cuda::BoxCopy& copy,
                     const void* from, void* to) const;

  Copier copier_;
  Operation operation_ = Operation::kForward;
  bool packs_x_ = false, packs_y_ = false;
  cuda::BoxCopy pack_x_, pack_y_, unpack_;
  size_t image_bytes_ = 0, bytes_ = 0;
};

}  // namespace ucudnn::execution
