#include "tuning/tensor.h"

#include <cassert>

namespace ucudnn::tuning {
namespace {

constexpr int kAxes = kMaxSpatial + 2;

}  // namespace

std::vector<Axis> SortedAxes(const Tensor& tensor) {
  std::vector<Axis> axes;
  for (int i = 0; i < kAxes; ++i) {
    if (tensor.extents[i] > 1) axes.push_back({tensor.extents[i], tensor.strides[i], 0, i});
  }
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  int64_t reach = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    reach += (axis->extent - 1) * axis->stride;
    axis->reach = reach;
  }
  if (axes.empty()) axes.push_back({1, 1, 1, 0});
  return axes;
}

int64_t Tensor::Elements() const {
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  return elements;
}

int64_t Tensor::Span() const {
  int64_t last = 0;
  for (int i = 0; i < kAxes; ++i) last += (extents[i] - 1) * strides[i];
  return last + 1;
}

bool Tensor::IsNested() const {
  const std::vector<Axis> axes = SortedAxes(*this);
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].stride < axes[i + 1].reach) return false;
  }
  return axes.back().stride >= 1;
}

std::array<int64_t, kAxes> Tensor::Position(int64_t offset) const {
  assert(offset >= 0 && offset < Span());
  std::array<int64_t, kAxes> position = {};
  for (const Axis& axis : SortedAxes(*this)) {
    position[axis.index] = offset / axis.stride;
    offset %= axis.stride;
  }
  return position;
}

Tensor ImageTensor(const ConvolutionProblem& problem) {
  return {problem.type,
          {problem.n, problem.c, problem.x[0], problem.x[1], problem.x[2]},
          problem.x_strides};
}

Tensor FilterTensor(const ConvolutionProblem& problem) {
  const int64_t channels = problem.c / problem.groups;
  return {problem.type,
          {problem.k, channels, problem.w[0], problem.w[1], problem.w[2]},
          PackedStrides(problem.layout, channels, problem.w)};
}

Tensor OutputTensor(const ConvolutionProblem& problem) {
  const Spatial y = OutputExtents(problem);
  return {problem.type, {problem.n, problem.k, y[0], y[1], y[2]}, problem.y_strides};
}

Tensor ResultTensor(const ConvolutionProblem& problem) {
  switch (problem.operation) {
    case Operation::kForward:
      return OutputTensor(problem);
    case Operation::kBackwardData:
      return ImageTensor(problem);
    case Operation::kBackwardFilter:
      return FilterTensor(problem);
  }
  return {};
}

Tensor FusedTensor(const cudnn::FusedOperand& operand, const ConvolutionProblem& part) {
  Tensor tensor = ResultTensor(part);
  tensor.type = operand.type;
  if (operand.is_batched()) return tensor;
  tensor.strides = operand.strides;
  for (size_t axis = 0; axis < tensor.extents.size(); ++axis) {
    if (tensor.strides[axis] == 0) tensor.extents[axis] = 1;
  }
  return tensor;
}

}  // namespace ucudnn::tuning
