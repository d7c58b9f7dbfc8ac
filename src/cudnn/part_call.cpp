#include "cudnn/part_call.h"

namespace ucudnn::cudnn {
namespace {

void Move(void*& pointer, size_t bytes) { pointer = static_cast<char*>(pointer) + bytes; }

void Move(const void*& pointer, size_t bytes) {
  if (pointer != nullptr) pointer = static_cast<const char*>(pointer) + bytes;
}

}  // namespace

Offsets AtImage(const ConvolutionProblem& problem, std::span<const FusedOperand> fused,
                int64_t images) {
  const auto element = static_cast<int64_t>(ElementBytes(problem.type));
  Offsets at;
  at.x = static_cast<size_t>(images * problem.x_strides[0] * element);
  at.y = static_cast<size_t>(images * problem.y_strides[0] * element);
  for (size_t i = 0; i < fused.size(); ++i) {
    at.fused[i] = static_cast<size_t>(images) * fused[i].image_bytes;
  }
  return at;
}

PartCall::PartCall(const ConvolutionCall& whole, const Offsets& at) : call_(whole) {
  Move(call_.x, at.x);
  Move(call_.w, at.w);
  Move(call_.y, at.y);
  if (whole.bias != nullptr) {
    bias_ = *whole.bias;
    Move(bias_->z, at.y);
    call_.bias = &*bias_;
  }
  if (whole.fused != nullptr) {
    fused_ = *whole.fused;
    for (size_t i = 0; i < fused_->operands.size(); ++i) Move(fused_->pointers[i], at.fused[i]);
    call_.fused = &*fused_;
  }
  if (whole.pooling != nullptr) {
    pooling_ = *whole.pooling;
    Move(pooling_->x, at.x);
    Move(pooling_->y, at.y);
    call_.pooling = &*pooling_;
  }
}

}  // namespace ucudnn::cudnn
