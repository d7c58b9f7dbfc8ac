// Chains as dense matrices and activations, written down from the definition of each layer: an
// implementation that has nothing in common with host/layers. For small nets.
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
Matrix Identity(int size);
Matrix Product(const Matrix& a, const Matrix& b);
Vector Product(const Matrix& a, const Vector& x);
Vector TransposedProduct(const Matrix& a, const Vector& x);
// The largest sum of magnitudes in a row.
double RowNorm(const Matrix& a);
// Solves a x = b for each column of b by elimination with partial pivoting.
Matrix Solved(Matrix a, Matrix b);
double Dot(const Vector& a, const Vector& b);
double LargestMagnitude(const Vector& a);

class DenseChain {
 public:
  // Ends the test for a layer that is none of convolution, fully connected, scale, average pooling,
  // relu and tanh.
  DenseChain(const WeightedChain& chain, double h);

  int steps() const { return static_cast<int>(steps_.size()); }
  int size() const { return size_; }  // numbers of the state of one image

  // u + h F(u) of one image.
  Vector Step(int step, const Vector& u) const;
  Matrix Jacobian(int step, const Vector& u) const;
  // By how much at most a step enlarges the L2 distance of two states.
  double Growth(int step) const;

  // Equation 18's residual u[n + 1] - Phi_n(u[n]) of u_1..u_N behind u_0, one behind the other.
  Vector Residual(const Vector& first, const Vector& states) const;
  Matrix ResidualJacobian(const Vector& first, const Vector& states) const;
  // u_1..u_N by Newton's method from states that are all u_0.
  Vector NewtonSolution(const Vector& first) const;

 private:
  struct Layer {
    Matrix matrix = {0, 0};  // empty for an activation
    Vector bias;
    planner::ActivationKind activation = planner::ActivationKind::kRelu;
  };
  Vector StateBefore(int step, const Vector& first, const Vector& states) const;

  std::vector<std::vector<Layer>> steps_;
  int size_ = 0;
  double h_;
};

}  // namespace ucudnn::multigrid
