// Chains as dense matrices and activations, made from the definition of each layer, for small nets.
// Shares no code with host/layers.
#pragma once

#include <vector>

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

using Vector = std::vector<double>;

struct Matrix {
  Matrix(int row_count, int column_count)
      : rows(row_count), columns(column_count), numbers(size_t(row_count) * column_count) {}
  double& at(int row, int column) { return numbers[size_t(row) * columns + column]; }
  double at(int row, int column) const { return numbers[size_t(row) * columns + column]; }

  int rows;
  int columns;
  Vector numbers;  // by row
};
// Calls visit(place, number) for each place (d, h, w) within `extents`. Numbers count from 0.
template <typename Visit>
void ForEachPlace(const Spatial& extents, Visit&& visit) {
  int number = 0;
  for (int d = 0; d < extents[0]; ++d) {
    for (int h = 0; h < extents[1]; ++h) {
      for (int w = 0; w < extents[2]; ++w) visit(Spatial{d, h, w}, number++);
    }
  }
}
// Returns the pixel that tap `tap` of the window reads for output `place`, or -1 if it is in the
// padding.
template <typename Window>
int PixelOf(const Window& op, const Spatial& dilation, const planner::Shape& in,
            const Spatial& place, const Spatial& tap) {
  int pixel = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const int at = place[axis] * op.stride[axis] - op.pad[axis] + tap[axis] * dilation[axis];
    if (at < 0 || at >= in.extents[axis]) return -1;
    pixel = pixel * in.extents[axis] + at;
  }
  return pixel;
}
// PixelsOf(shape) returns the number of pixels of a channel. PixelsOf(op, in, place) returns the
// pixels that the pooling window of output `place` reads.
inline int PixelsOf(const planner::Shape& shape) {
  return static_cast<int>(shape.Features()) / shape.c;
}
inline std::vector<int> PixelsOf(const planner::Pooling& op, const planner::Shape& in,
                                 const Spatial& place) {
  std::vector<int> pixels;
  ForEachPlace(op.window, [&](const Spatial& tap, int) {
    const int pixel = PixelOf(op, {1, 1, 1}, in, place, tap);
    if (pixel >= 0) pixels.push_back(pixel);
  });
  return pixels;
}
// Returns the matrix of y[k][o] += sum of w[k][c][t] x[group of k, c][o stride - pad + t dilation],
// for one image.
Matrix MatrixOf(const planner::Convolution& op, const planner::Shape& in, const planner::Shape& out,
                const Vector& weights);
// Returns a vector for `shape` in which each pixel has the number of its channel. If `of_channels`
// is empty, all numbers are `otherwise`.
Vector Repeated(const Vector& of_channels, const planner::Shape& shape, double otherwise);

Matrix Product(const Matrix& a, const Matrix& b);
Vector Product(const Matrix& a, const Vector& x);
Matrix Transposed(const Matrix& a);
double Dot(const Vector& a, const Vector& b);
double LargestMagnitude(const Vector& a);

class DenseChain {
 public:
  // Ends the test if a layer is none of these: convolution, fully connected layer, scale, average
  // pooling, relu, tanh.
  DenseChain(const WeightedChain& chain, double h);

  int steps() const { return static_cast<int>(steps_.size()); }
  int size() const { return size_; }  // numbers in the state of one image

  // Returns u + h F(u) for one image.
  Vector Step(int step, const Vector& u) const;
  Matrix Jacobian(int step, const Vector& u) const;
  // Returns a bound on the factor by which all steps enlarge the L2 distance of two first states.
  double Growth() const;

 private:
  struct Layer {
    Matrix matrix = {0, 0};  // empty for an activation
    Vector bias;
    planner::ActivationKind activation = planner::ActivationKind::kRelu;
  };

  std::vector<std::vector<Layer>> steps_;
  int size_ = 0;
  double h_;
};

}  // namespace ucudnn::multigrid
