#include "unit/planner/multigrid/dense_chain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace ucudnn::multigrid {
namespace {

using planner::Shape;

int Index(const Shape& shape, int c, int y, int x) {
  return (c * shape.extents[1] + y) * shape.extents[2] + x;
}

// Adds each pixel that a window over two dimensions meets: visit(c is left to the caller, output
// y and x, tap y and x, input y and x).
template <typename Window, typename Visit>
void ForEachTap(const Window& op, const Spatial& dilation, const Shape& in, const Shape& out,
                Visit&& visit) {
  for (int y = 0; y < out.extents[1]; ++y) {
    for (int x = 0; x < out.extents[2]; ++x) {
      for (int r = 0; r < op.window[1]; ++r) {
        for (int s = 0; s < op.window[2]; ++s) {
          const int from_y = y * op.stride[1] - op.pad[1] + r * dilation[1];
          const int from_x = x * op.stride[2] - op.pad[2] + s * dilation[2];
          const bool is_inside =
              from_y >= 0 && from_y < in.extents[1] && from_x >= 0 && from_x < in.extents[2];
          if (is_inside) visit(y, x, r * op.window[2] + s, from_y, from_x);
        }
      }
    }
  }
}

Matrix MatrixOf(const planner::Convolution& op, const Shape& in, const Shape& out,
                const Vector& weights) {
  Matrix matrix(static_cast<int>(out.Features()), static_cast<int>(in.Features()));
  const int of_group = in.c / op.groups;
  const int taps = op.window[1] * op.window[2];
  for (int k = 0; k < out.c; ++k) {
    const int group = k / (out.c / op.groups);
    for (int c = 0; c < of_group; ++c) {
      ForEachTap(op, op.dilation, in, out, [&](int y, int x, int tap, int from_y, int from_x) {
        matrix.at(Index(out, k, y, x), Index(in, group * of_group + c, from_y, from_x)) +=
            weights[size_t(k * of_group + c) * taps + tap];
      });
    }
  }
  return matrix;
}

// Padding is no part of an average.
Matrix MatrixOf(const planner::Pooling& op, const Shape& in, const Shape& out) {
  Matrix matrix(static_cast<int>(out.Features()), static_cast<int>(in.Features()));
  for (int c = 0; c < out.c; ++c) {
    ForEachTap(op, {1, 1, 1}, in, out, [&](int y, int x, int, int from_y, int from_x) {
      matrix.at(Index(out, c, y, x), Index(in, c, from_y, from_x)) = 1;
    });
  }
  for (int row = 0; row < matrix.rows; ++row) {
    double* const numbers = &matrix.numbers[size_t(row) * matrix.columns];
    const auto count = std::count(numbers, numbers + matrix.columns, 1.0);
    for (int i = 0; i < matrix.columns; ++i) numbers[i] /= static_cast<double>(count);
  }
  return matrix;
}

// One number a channel, repeated over its pixels; `otherwise` where there are none.
Vector Repeated(const Vector& of_channels, const Shape& shape, double otherwise) {
  Vector all;
  for (int64_t i = 0; i < shape.Features(); ++i) {
    const int64_t pixels = shape.Features() / shape.c;
    all.push_back(of_channels.empty() ? otherwise : of_channels[i / pixels]);
  }
  return all;
}

double Activated(planner::ActivationKind kind, double x) {
  return kind == planner::ActivationKind::kRelu ? std::max(x, 0.0) : std::tanh(x);
}
double Slope(planner::ActivationKind kind, double x) {
  if (kind == planner::ActivationKind::kRelu) return x > 0 ? 1 : 0;
  return 1 / (std::cosh(x) * std::cosh(x));
}

}  // namespace

Matrix Identity(int size) {
  Matrix made(size, size);
  for (int i = 0; i < size; ++i) made.at(i, i) = 1;
  return made;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix made(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i) {
    for (int k = 0; k < a.columns; ++k) {
      for (int j = 0; j < b.columns; ++j) made.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return made;
}

Vector Product(const Matrix& a, const Vector& x) {
  Vector made(a.rows);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) made[i] += a.at(i, j) * x[j];
  }
  return made;
}

Vector TransposedProduct(const Matrix& a, const Vector& x) {
  Vector made(a.columns);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) made[j] += a.at(i, j) * x[i];
  }
  return made;
}

double RowNorm(const Matrix& a) {
  double largest = 0;
  for (int i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (int j = 0; j < a.columns; ++j) sum += std::abs(a.at(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}

Matrix Solved(Matrix a, Matrix b) {
  const auto swap_rows = [](Matrix& m, int i, int j) {
    for (int k = 0; k < m.columns; ++k) std::swap(m.at(i, k), m.at(j, k));
  };
  const auto subtract = [](Matrix& m, int from, int row, double factor) {
    for (int k = 0; k < m.columns; ++k) m.at(from, k) -= factor * m.at(row, k);
  };
  for (int i = 0; i < a.rows; ++i) {
    int pivot = i;
    for (int j = i + 1; j < a.rows; ++j) {
      if (std::abs(a.at(j, i)) > std::abs(a.at(pivot, i))) pivot = j;
    }
    swap_rows(a, i, pivot);
    swap_rows(b, i, pivot);
    for (int j = i + 1; j < a.rows; ++j) {
      const double factor = a.at(j, i) / a.at(i, i);
      if (factor == 0) continue;
      subtract(a, j, i, factor);
      subtract(b, j, i, factor);
    }
  }
  for (int i = a.rows; i-- > 0;) {
    for (int j = i + 1; j < a.rows; ++j) {
      if (a.at(i, j) != 0) subtract(b, i, j, a.at(i, j));
    }
    for (int k = 0; k < b.columns; ++k) b.at(i, k) /= a.at(i, i);
  }
  return b;
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double LargestMagnitude(const Vector& a) {
  double largest = 0;
  for (const double number : a) largest = std::max(largest, std::abs(number));
  return largest;
}

DenseChain::DenseChain(const WeightedChain& chain, double h)
    : size_(static_cast<int>(chain.stage().shape.Features())), h_(h) {
  for (const ResidualStep& step : chain.stage().steps) {
    steps_.emplace_back();
    Shape in = chain.stage().shape;
    for (const planner::NodeId id : step.transformation) {
      const planner::Operator& op = chain.chain.graph.nodes[id].op;
      const Shape& out = chain.chain.shapes[id];
      const auto& [weights, bias] = chain.parameters[id];
      Layer layer = {.bias = Vector(out.Features())};
      if (const auto* convolution = std::get_if<planner::Convolution>(&op)) {
        layer.matrix = MatrixOf(*convolution, in, out, weights);
        layer.bias = Repeated(bias, out, 0);
      } else if (const auto* connected = std::get_if<planner::FullyConnected>(&op)) {
        layer.matrix = Matrix(connected->outputs, static_cast<int>(in.Features()));
        layer.matrix.numbers = weights;
        if (!bias.empty()) layer.bias = bias;
      } else if (std::holds_alternative<planner::Scale>(op)) {
        layer.matrix = Identity(static_cast<int>(in.Features()));
        const Vector factors = Repeated(weights, in, 1);
        for (size_t i = 0; i < factors.size(); ++i) layer.matrix.at(i, i) = factors[i];
        layer.bias = Repeated(bias, in, 0);
      } else if (const auto* pooling = std::get_if<planner::Pooling>(&op)) {
        layer.matrix = MatrixOf(*pooling, in, out);
      } else if (const auto* activation = std::get_if<planner::Activation>(&op)) {
        layer.activation = activation->kind;
      } else {
        std::cerr << chain.chain.graph.nodes[id].name << " has no dense matrix\n";
        std::abort();
      }
      steps_.back().push_back(std::move(layer));
      in = out;
    }
  }
}

Vector DenseChain::Step(int step, const Vector& u) const {
  Vector x = u;
  for (const Layer& layer : steps_[step]) {
    if (layer.matrix.rows == 0) {
      for (double& number : x) number = Activated(layer.activation, number);
      continue;
    }
    x = Product(layer.matrix, x);
    for (size_t i = 0; i < x.size(); ++i) x[i] += layer.bias[i];
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = u[i] + h_ * x[i];
  return x;
}

Matrix DenseChain::Jacobian(int step, const Vector& u) const {
  Vector x = u;
  Matrix chain = Identity(size_);
  for (const Layer& layer : steps_[step]) {
    if (layer.matrix.rows == 0) {
      for (int i = 0; i < chain.rows; ++i) {
        const double slope = Slope(layer.activation, x[i]);
        for (int j = 0; j < chain.columns; ++j) chain.at(i, j) *= slope;
        x[i] = Activated(layer.activation, x[i]);
      }
      continue;
    }
    chain = Product(layer.matrix, chain);
    x = Product(layer.matrix, x);
    for (size_t i = 0; i < x.size(); ++i) x[i] += layer.bias[i];
  }
  for (double& number : chain.numbers) number *= h_;
  for (int i = 0; i < size_; ++i) chain.at(i, i) += 1;
  return chain;
}

double DenseChain::Growth(int step) const {
  double of_transformation = h_;
  for (const Layer& layer : steps_[step]) {
    if (layer.matrix.rows == 0) continue;  // activations bring numbers no further apart
    Matrix transposed(layer.matrix.columns, layer.matrix.rows);
    for (int i = 0; i < transposed.rows; ++i) {
      for (int j = 0; j < transposed.columns; ++j) transposed.at(i, j) = layer.matrix.at(j, i);
    }
    // The square of the 2-norm is at most the product of the row and column norms.
    of_transformation *= std::sqrt(RowNorm(layer.matrix) * RowNorm(transposed));
  }
  return 1 + of_transformation;
}

Vector DenseChain::StateBefore(int step, const Vector& first, const Vector& states) const {
  if (step == 0) return first;
  const auto begin = states.begin() + (step - 1) * size_;
  return {begin, begin + size_};
}

Vector DenseChain::Residual(const Vector& first, const Vector& states) const {
  Vector residual = states;
  for (int step = 0; step < steps(); ++step) {
    const Vector next = Step(step, StateBefore(step, first, states));
    for (int i = 0; i < size_; ++i) residual[step * size_ + i] -= next[i];
  }
  return residual;
}

Matrix DenseChain::ResidualJacobian(const Vector& first, const Vector& states) const {
  Matrix made = Identity(steps() * size_);
  for (int step = 1; step < steps(); ++step) {
    const Matrix of_step = Jacobian(step, StateBefore(step, first, states));
    for (int i = 0; i < size_; ++i) {
      for (int j = 0; j < size_; ++j) {
        made.at(step * size_ + i, (step - 1) * size_ + j) = -of_step.at(i, j);
      }
    }
  }
  return made;
}

Vector DenseChain::NewtonSolution(const Vector& first) const {
  Vector states;
  for (int step = 0; step < steps(); ++step) {
    states.insert(states.end(), first.begin(), first.end());
  }
  // A step of Newton's method makes one more layer exact at least.
  for (int iteration = 0; iteration < steps() + 1; ++iteration) {
    Matrix right(static_cast<int>(states.size()), 1);
    right.numbers = Residual(first, states);
    if (LargestMagnitude(right.numbers) == 0) break;
    const Matrix change = Solved(ResidualJacobian(first, states), right);
    for (size_t i = 0; i < states.size(); ++i) states[i] -= change.numbers[i];
  }
  return states;
}

}  // namespace ucudnn::multigrid
