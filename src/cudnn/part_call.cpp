#include "cudnn/part_call.h"

#include <algorithm>
#include <string>

namespace ucudnn::cudnn {
namespace {

void* Behind(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

const void* Behind(const void* pointer, size_t bytes) {
  return pointer != nullptr ? static_cast<const char*>(pointer) + bytes : nullptr;
}

}  // namespace

Offsets AtImage(const ConvolutionProblem& problem, std::span<const FusedOperand> fused,
                int64_t images) {
  const auto element = static_cast<int64_t>(ElementBytes(problem.type));
  Offsets at;
  at.x = static_cast<size_t>(images * problem.x_strides[0] * element);
  at.y = static_cast<size_t>(images * problem.y_strides[0] * element);
  for (size_t i = 0; i < fused.size(); ++i) {
    at.fused[i] = static_cast<size_t>(images * fused[i].strides[0]) * ElementBytes(fused[i].type);
  }
  return at;
}

Offsets AtTile(const ConvolutionProblem& whole, std::span<const FusedOperand> fused,
               const Tile& tile) {
  const auto bytes = [](int64_t elements, DataType type) {
    return static_cast<size_t>(elements) * ElementBytes(type);
  };
  Offsets at;
  at.x = bytes(tile.x_offset, whole.type);
  at.w = bytes(tile.w_offset, whole.type);
  at.y = bytes(tile.y_offset, whole.type);
  const Box& result = whole.operation == Operation::kBackwardData ? tile.x : tile.y;
  for (size_t i = 0; i < fused.size(); ++i) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      offset += result[axis].begin * fused[i].strides[axis];
    }
    at.fused[i] = bytes(offset, fused[i].type);
  }
  return at;
}

Status CheckReads(const TileKind& kind, std::span<const FusedOperand> fused) {
  const bool forward = kind.problem.operation == Operation::kForward;
  const auto whole = std::find_if(fused.begin(), fused.end(),
                                  [](const FusedOperand& operand) { return operand.is_batched(); });
  if (!(forward ? kind.packs_y : kind.packs_x) || whole == fused.end()) return Status::Ok();
  return Status::Error("what is fused reads tensor " + std::to_string(whole->uid) +
                       ", which is not packed with the output of " + Describe(kind.problem));
}

PartCall::PartCall(const ConvolutionCall& whole) : whole_(whole), call_(whole) {
  if (whole.bias != nullptr) call_.bias = &bias_.emplace(*whole.bias);
  if (whole.fused != nullptr) call_.fused = &fused_.emplace(*whole.fused);
  if (whole.pooling != nullptr) call_.pooling = &pooling_.emplace(*whole.pooling);
}

void PartCall::MoveOthersTo(const Offsets& at) {
  if (bias_) bias_->z = Behind(whole_.bias->z, at.y);
  if (fused_) {
    for (size_t i = 0; i < fused_->operands.size(); ++i) {
      fused_->pointers[i] = Behind(whole_.fused->pointers[i], at.fused[i]);
    }
  }
  if (pooling_) {
    pooling_->x = Behind(whole_.pooling->x, at.x);
    pooling_->y = Behind(whole_.pooling->y, at.y);
  }
}

}  // namespace ucudnn::cudnn
