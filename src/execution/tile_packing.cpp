#include "execution/tile_packing.h"

#include <cstdint>

namespace ucudnn::execution {
namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void* Behind(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

cuda::BoxExtents ExtentsOf(int64_t n, int64_t channels, const Spatial& extents) {
  return {n, channels, extents[0], extents[1], extents[2]};
}

}  // namespace

Result<TilePacking> TilePacking::Make(const ConvolutionProblem& whole, const TileKind& kind,
                                      const Copier& copier) {
  TilePacking packing;
  packing.bytes_ = PackedBytes(kind);
  if (!packing.packs()) return packing;
  if (copier.driver == nullptr || copier.functions == nullptr ||
      copier.driver->cuMemcpy3DAsync == nullptr) {
    return Status::Error("nothing copies the tile " + Describe(kind.problem));
  }
  const ConvolutionProblem& tile = kind.problem;
  const size_t element = ElementBytes(tile.type);
  const cuda::BoxExtents x = ExtentsOf(tile.n, tile.c, tile.x);
  const cuda::BoxExtents y = ExtentsOf(tile.n, tile.k, OutputExtents(tile));
  packing.copier_ = copier;
  packing.operation_ = tile.operation;
  packing.packs_x_ = kind.packs_x;
  packing.packs_y_ = kind.packs_y;
  packing.image_bytes_ = PackedImageBytes(kind);
  packing.pack_x_ = {x, whole.x_strides, tile.x_strides, element};
  packing.pack_y_ = {y, whole.y_strides, tile.y_strides, element};
  if (tile.operation == Operation::kForward && kind.packs_y) {
    packing.unpack_ = {y, tile.y_strides, whole.y_strides, element};
  } else if (tile.operation == Operation::kBackwardData && kind.packs_x) {
    packing.unpack_ = {x, tile.x_strides, whole.x_strides, element};
  }
  return packing;
}

cudnnStatus_t TilePacking::Copy(const cudnn::ConvolutionCall& call, const cuda::BoxCopy& copy,
                                const void* from, void* to) const {
  cudaStream_t stream = nullptr;
  const cudnnStatus_t status = copier_.functions->cudnnGetStream(call.handle, &stream);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return copy.Enqueue(*copier_.driver, Address(from), Address(to), stream).ok()
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t TilePacking::Pack(const cudnn::ConvolutionCall& call, bool keeps_output) const {
  const bool copies_x = packs_x_ && (operation_ != Operation::kBackwardData || keeps_output);
  const bool copies_y = packs_y_ && (operation_ != Operation::kForward || keeps_output);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (copies_x) status = Copy(call, pack_x_, call.x, call.workspace);
  if (copies_y && status == CUDNN_STATUS_SUCCESS) {
    status = Copy(call, pack_y_, call.y, Behind(call.workspace, image_bytes_));
  }
  return status;
}

cudnnStatus_t TilePacking::Unpack(const cudnn::ConvolutionCall& call) const {
  if (operation_ == Operation::kForward) {
    return Copy(call, unpack_, Behind(call.workspace, image_bytes_), call.y);
  }
  return Copy(call, unpack_, call.workspace, call.x);
}

void TilePacking::MoveToCopies(cudnn::ConvolutionCall& call) const {
  if (packs_x_) call.x = call.workspace;
  if (packs_y_) call.y = Behind(call.workspace, image_bytes_);
  call.workspace = Behind(call.workspace, bytes_);
}

}  // namespace ucudnn::execution
