#include "unit/planner/multigrid/dense_chain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace ucudnn::multigrid {
namespace {

using planner::Shape;

double Activated(planner::ActivationKind kind, double x) {
  return kind == planner::ActivationKind::kRelu ? std::max(x, 0.0) : std::tanh(x);
}
double Slope(planner::ActivationKind kind, double x) {
  if (kind == planner::ActivationKind::kRelu) return x > 0 ? 1 : 0;
  return 1 / (std::cosh(x) * std::cosh(x));
}

}  // namespace

Matrix MatrixOf(const planner::Convolution& op, const Shape& in, const Shape& out,
                const Vector& weights) {
  Matrix matrix(static_cast<int>(out.Features()), static_cast<int>(in.Features()));
  const int of_group = in.c / op.groups;
  const int64_t taps = int64_t{op.window[0]} * op.window[1] * op.window[2];
  for (int k = 0; k < out.c; ++k) {
    const int group = k / (out.c / op.groups);
    ForEachPlace(out.extents, [&](const Spatial& place, int offset) {
      ForEachPlace(op.window, [&](const Spatial& tap, int number) {
        const int pixel = PixelOf(op, op.dilation, in, place, tap);
        for (int c = 0; pixel >= 0 && c < of_group; ++c) {
          matrix.at(k * PixelsOf(out) + offset, (group * of_group + c) * PixelsOf(in) + pixel) +=
              weights[(int64_t{k} * of_group + c) * taps + number];
        }
      });
    });
  }
  return matrix;
}

Vector Repeated(const Vector& of_channels, const Shape& shape, double otherwise) {
  Vector all;
  for (int i = 0; i < shape.Features(); ++i) {
    all.push_back(of_channels.empty() ? otherwise : of_channels[i / PixelsOf(shape)]);
  }
  return all;
}

namespace {

// Returns the matrix of an average pooling, which averages the pixels that a window has inside the
// image.
Matrix MatrixOf(const planner::Pooling& op, const Shape& in, const Shape& out) {
  Matrix matrix(static_cast<int>(out.Features()), static_cast<int>(in.Features()));
  for (int c = 0; c < out.c; ++c) {
    ForEachPlace(out.extents, [&](const Spatial& place, int offset) {
      const std::vector<int> pixels = PixelsOf(op, in, place);
      for (const int pixel : pixels) {
        matrix.at(c * PixelsOf(out) + offset, c * PixelsOf(in) + pixel) =
            1.0 / static_cast<double>(pixels.size());
      }
    });
  }
  return matrix;
}

Matrix Identity(int size) {
  Matrix made(size, size);
  for (int i = 0; i < size; ++i) made.at(i, i) = 1;
  return made;
}

// Returns the largest sum of magnitudes in a row.
double RowNorm(const Matrix& a) {
  double largest = 0;
  for (int i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (int j = 0; j < a.columns; ++j) sum += std::abs(a.at(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

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

Matrix Transposed(const Matrix& a) {
  Matrix made(a.columns, a.rows);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) made.at(j, i) = a.at(i, j);
  }
  return made;
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

double DenseChain::Growth() const {
  double growth = 1;
  for (const std::vector<Layer>& step : steps_) {
    double of_transformation = h_;
    for (const Layer& layer : step) {
      if (layer.matrix.rows == 0) continue;  // activations do not enlarge distances
      // The square of the 2-norm is at most the product of the row and column norms.
      of_transformation *= std::sqrt(RowNorm(layer.matrix) * RowNorm(Transposed(layer.matrix)));
    }
    growth *= 1 + of_transformation;
  }
  return growth;
}

}  // namespace ucudnn::multigrid
