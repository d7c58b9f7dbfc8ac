// Compares the reference layers on the host with the definitions of the layers, and transposed
// Jacobians and gradients with forward passes. Data are integers, so results of linear layers are
// equal to the bit. Only averages are rounded.
#include "planner/multigrid/host/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/must.h"
#include "unit/planner/multigrid/dense_chain.h"
#include "unit/planner/multigrid/drawn_net.h"

namespace ucudnn::multigrid {
namespace {

using planner::Convolution;
using planner::Pooling;
using planner::PoolingKind;
using planner::Shape;

constexpr int kBatch = 2;

// Draws `number` integers from -`most` to `most`, each multiplied by `factor`.
Vector Integers(std::mt19937_64& random, int64_t number, int most, double factor = 1) {
  Vector drawn;
  for (int64_t i = 0; i < number; ++i) drawn.push_back(factor * DrawNumber(random, -most, most));
  return drawn;
}

Vector Sum(const Vector& a, const Vector& b, double factor = 1) {
  Vector sum = a;
  for (size_t i = 0; i < a.size(); ++i) sum[i] += factor * b[i];
  return sum;
}
Vector Difference(const Vector& a, const Vector& b) { return Sum(a, b, -1); }

// A layer with weights, and with an input for kBatch images.
struct Case {
  HostLayer layer;
  NodeWeights weights;
  Vector x;

  int64_t in() const { return layer.input.Features() * kBatch; }
  int64_t out() const { return layer.output.Features() * kBatch; }
  LayerCall Call(const NodeWeights& of, Vector& scratch) const {
    scratch.assign(ScratchOf(layer), std::nan(""));
    return {layer, of, kBatch, scratch.data()};
  }
  Vector Forward(const NodeWeights& of, const Vector& at) const {
    Vector scratch;
    Vector y(out(), std::nan(""));
    multigrid::Forward(Call(of, scratch), at.data(), y.data());
    return y;
  }
  Vector Transposed(const Vector& dy) const {
    Vector scratch;
    Vector dx(in(), std::nan(""));
    const Vector y = Forward(weights, x);
    TransposedJacobian(Call(weights, scratch), x.data(), y.data(), dy.data(), dx.data());
    return dx;
  }
};

Case MakeCase(const planner::Operator& op, const Shape& input, std::mt19937_64& random) {
  Case made = {.layer = {op, input, test::Must(planner::OutputShape(op, {input}, 1))}};
  EXPECT_TRUE(CheckHostLayer("layer", made.layer).ok());
  const WeightCounts counts = WeightCountsOf(made.layer);
  made.weights = {Integers(random, counts.weights, 3), Integers(random, counts.bias, 5)};
  made.x = Integers(random, made.in(), 4);
  return made;
}

std::string TextOf(const HostLayer& layer) {
  return "operator " + std::to_string(layer.op.index()) + " from " + Describe(layer.input) +
         " to " + Describe(layer.output);
}

// Returns matrix * image + bias for each of the kBatch images in `x`.
Vector ByDefinition(const Matrix& matrix, const Vector& bias, const Vector& x) {
  Vector y;
  for (int n = 0; n < kBatch; ++n) {
    const auto image = x.begin() + n * matrix.columns;
    const Vector of_image = Sum(Product(matrix, Vector(image, image + matrix.columns)), bias);
    y.insert(y.end(), of_image.begin(), of_image.end());
  }
  return y;
}
Vector ByDefinition(const Convolution& op, const Case& made) {
  const HostLayer& layer = made.layer;
  return ByDefinition(MatrixOf(op, layer.input, layer.output, made.weights.weights),
                      Repeated(made.weights.bias, layer.output, 0), made.x);
}

// Returns, for each window, the largest pixel or the mean of the pixels, without the padding.
Vector ByDefinition(const Pooling& op, const Case& made) {
  const Shape& in = made.layer.input;
  Vector y;
  for (int plane = 0; plane < kBatch * in.c; ++plane) {
    ForEachPlace(made.layer.output.extents, [&](const Spatial& place, int) {
      Vector pixels;
      for (const int pixel : PixelsOf(op, in, place)) {
        pixels.push_back(made.x[plane * PixelsOf(in) + pixel]);
      }
      const double sum = std::accumulate(pixels.begin(), pixels.end(), 0.0);
      y.push_back(op.kind == PoolingKind::kMaximum ? *std::max_element(pixels.begin(), pixels.end())
                                                   : sum / static_cast<double>(pixels.size()));
    });
  }
  return y;
}

template <typename Op>
struct Shaped {
  Op op;
  Shape input;
};
std::vector<Shaped<Convolution>> Convolutions() {
  const Shape plane = {1, 4, {1, 7, 6}, 2};
  const Shape volume = {1, 4, {4, 5, 3}, 3};
  return {
      {{.filters = 3, .window = {1, 3, 3}, .pad = {0, 1, 1}}, plane},
      {{.filters = 3, .window = {1, 3, 2}, .stride = {1, 2, 3}, .pad = {0, 2, 1}}, plane},
      {{.filters = 2, .window = {1, 2, 3}, .pad = {0, 2, 2}, .dilation = {1, 3, 2}}, plane},
      {{.filters = 6, .window = {1, 3, 3}, .pad = {0, 1, 0}, .groups = 2}, plane},
      {{.filters = 8, .window = {1, 3, 1}, .stride = {1, 2, 1}, .groups = 4, .bias = false}, plane},
      {{.filters = 2, .window = {1, 1, 1}, .stride = {1, 3, 3}}, plane},
      {{.filters = 2, .window = {1, 7, 6}}, plane},
      {{.filters = 2, .window = {1, 7, 7}, .pad = {0, 3, 3}}, plane},
      {{.filters = 2, .window = {1, 3, 3}, .pad = {0, 1, 1}, .extra_pad = {0, 2, 1}}, plane},
      {{.filters = 2, .window = {1, 2, 2}, .pad = {0, 1, 1}, .extra_pad = {0, -1, -1}}, plane},
      {{.filters = 2,
        .window = {1, 3, 3},
        .stride = {1, 3, 2},
        .pad = {0, 1, 0},
        .extra_pad = {0, -1, 0}},
       plane},
      {{.filters = 3, .window = {3, 2, 3}, .stride = {2, 1, 1}, .pad = {1, 0, 1}}, volume},
      {{.filters = 4, .window = {2, 2, 1}, .pad = {1, 1, 0}, .dilation = {2, 1, 1}, .groups = 4},
       volume},
  };
}

TEST(HostLayers, ConvolutionIsItsDefinition) {
  std::mt19937_64 random(1);
  for (const auto& [op, input] : Convolutions()) {
    const Case made = MakeCase(op, input, random);
    EXPECT_EQ(made.Forward(made.weights, made.x), ByDefinition(op, made)) << TextOf(made.layer);
  }
}

std::vector<Shaped<Pooling>> Poolings() {
  const Shape plane = {1, 3, {1, 7, 6}, 2};
  const Shape volume = {1, 2, {4, 5, 3}, 3};
  std::vector<Shaped<Pooling>> all = {
      {{.window = {1, 2, 2}, .stride = {1, 2, 2}}, plane},
      {{.window = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}}, plane},
      {{.window = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}}, plane},
      {{.window = {1, 3, 2}, .stride = {1, 3, 2}, .round_up = true}, plane},
      {{.window = {1, 3, 2}, .stride = {1, 2, 2}, .extra_pad = {0, 1, 1}}, plane},
      {{.window = {2, 3, 2}, .stride = {2, 2, 1}, .pad = {1, 0, 1}}, volume},
  };
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    all.push_back(all[i]);
    all.back().op.kind = PoolingKind::kAverage;
  }
  return all;
}

// The results are equal to the bit: sums of integers are exact, and the layer and the definition
// divide each sum only once.
TEST(HostLayers, PoolingIsItsDefinition) {
  std::mt19937_64 random(2);
  for (const auto& [op, input] : Poolings()) {
    const Case made = MakeCase(op, input, random);
    EXPECT_EQ(made.Forward(made.weights, made.x), ByDefinition(op, made)) << TextOf(made.layer);
  }
}

TEST(HostLayers, GlobalPoolingIsOneWindow) {
  std::mt19937_64 random(3);
  for (const PoolingKind kind : {PoolingKind::kMaximum, PoolingKind::kAverage}) {
    const Case made = MakeCase(planner::GlobalPooling{kind}, Shape{1, 3, {2, 3, 4}, 3}, random);
    const Pooling window = {.kind = kind, .window = {2, 3, 4}};
    EXPECT_EQ(made.Forward(made.weights, made.x), ByDefinition(window, made));
  }
}

TEST(HostLayers, FullyConnectedIsAMatrixOverAllFeatures) {
  std::mt19937_64 random(4);
  const Case made = MakeCase(planner::FullyConnected{3}, Shape{1, 2, {1, 2, 3}, 2}, random);
  Matrix matrix(3, 12);
  matrix.numbers = made.weights.weights;
  EXPECT_EQ(made.Forward(made.weights, made.x), ByDefinition(matrix, made.weights.bias, made.x));
}

std::vector<Case> LinearCases(std::mt19937_64& random) {
  std::vector<Case> all;
  for (const auto& [op, input] : Convolutions()) all.push_back(MakeCase(op, input, random));
  const Shape plane = {1, 3, {1, 4, 2}, 2};
  const planner::Operator others[] = {
      planner::FullyConnected{5},    planner::FullyConnected{1, false},  planner::Flatten{},
      planner::BatchNormalization{}, planner::BatchNormalization{false}, planner::Scale{},
      planner::Scale{true, false},   planner::Scale{false, true}};
  for (const planner::Operator& op : others) all.push_back(MakeCase(op, plane, random));
  return all;
}

// Returns layers that are piecewise linear. Input numbers differ so much from each other and from 0
// that changes of 1 stay within a linear piece.
std::vector<Case> PiecewiseLinearCases(std::mt19937_64& random) {
  std::vector<Case> all;
  const Shape plane = {1, 3, {1, 4, 2}, 2};
  all.push_back(MakeCase(planner::Activation{}, plane, random));
  for (const auto& [op, input] : Poolings()) {
    if (op.kind == PoolingKind::kMaximum) all.push_back(MakeCase(op, input, random));
  }
  all.push_back(MakeCase(planner::GlobalPooling{PoolingKind::kMaximum}, plane, random));
  for (Case& made : all) {
    const size_t half = made.x.size() / 2;
    std::iota(made.x.begin(), made.x.end(), -static_cast<double>(half));
    std::shuffle(made.x.begin(), made.x.end(), random);
    for (double& number : made.x) number = 4 * number + 2;
  }
  return all;
}

void ExpectAdjoint(const Case& made, std::mt19937_64& random) {
  const Vector delta = Integers(random, made.in(), 1);
  const Vector lambda = Integers(random, made.out(), 7);
  const Vector change = Difference(made.Forward(made.weights, Sum(made.x, delta)),
                                   made.Forward(made.weights, made.x));
  EXPECT_EQ(Dot(lambda, change), Dot(made.Transposed(lambda), delta)) << TextOf(made.layer);
}

TEST(HostLayers, TransposedJacobiansAreTransposed) {
  std::mt19937_64 random(5);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const Case& made : LinearCases(random)) ExpectAdjoint(made, random);
    for (const Case& made : PiecewiseLinearCases(random)) ExpectAdjoint(made, random);
  }
}

// The tolerance is for rounding: an average rounds each pixel's share of a window once, and no sum
// has more terms than the layer has inputs and outputs.
TEST(HostLayers, AveragesAreTransposedButForRounding) {
  std::mt19937_64 random(6);
  std::vector<Case> all = {MakeCase(planner::GlobalPooling{}, {1, 3, {1, 5, 3}, 2}, random)};
  for (const auto& [op, input] : Poolings()) {
    if (op.kind == PoolingKind::kAverage) all.push_back(MakeCase(op, input, random));
  }
  for (const Case& made : all) {
    const Vector delta = Integers(random, made.in(), 9);
    const Vector lambda = Integers(random, made.out(), 9);
    const double forward = Dot(lambda, made.Forward(made.weights, delta));
    const double terms = 81.0 * static_cast<double>(made.in() + made.out());
    EXPECT_NEAR(forward, Dot(made.Transposed(lambda), delta), terms * terms * 0x1p-53)
        << TextOf(made.layer);
  }
}

TEST(HostLayers, TanhHasTheSlopeOfItsHyperbolicCosine) {
  std::mt19937_64 random(7);
  Case made =
      MakeCase(planner::Activation{planner::ActivationKind::kTanh}, {1, 3, {1, 4, 2}, 2}, random);
  for (double& number : made.x) number /= 3;
  const Vector lambda = Integers(random, made.out(), 7);
  const Vector dx = made.Transposed(lambda);
  for (size_t i = 0; i < dx.size(); ++i) {
    const double slope = 1 / (std::cosh(made.x[i]) * std::cosh(made.x[i]));
    EXPECT_NEAR(dx[i], slope * lambda[i], 8 * 7 * 0x1p-53);
  }
}

TEST(HostLayers, GradientsAreThoseOfForward) {
  std::mt19937_64 random(8);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const Case& made : LinearCases(random)) {
      const auto weights = static_cast<int64_t>(made.weights.weights.size());
      const auto bias = static_cast<int64_t>(made.weights.bias.size());
      const NodeWeights delta = {Integers(random, weights, 3), Integers(random, bias, 3)};
      const NodeWeights moved = {Sum(made.weights.weights, delta.weights),
                                 Sum(made.weights.bias, delta.bias)};
      const Vector lambda = Integers(random, made.out(), 7);
      const double change =
          Dot(lambda, Difference(made.Forward(moved, made.x), made.Forward(made.weights, made.x)));
      // AddGradient adds to the numbers in `gradient` (100). Its factor (0.5) must multiply only
      // what it adds.
      NodeWeights gradient = {Vector(weights, 100), Vector(bias, 100)};
      Vector scratch;
      AddGradient(made.Call(made.weights, scratch), made.x.data(), lambda.data(), 0.5, gradient);
      if (!IsTrained(made.layer.op)) {
        EXPECT_EQ(gradient.weights, Vector(weights, 100));
        EXPECT_EQ(gradient.bias, Vector(bias, 100));
        continue;
      }
      for (double& number : gradient.weights) number = 2 * (number - 100);
      for (double& number : gradient.bias) number = 2 * (number - 100);
      EXPECT_EQ(Dot(gradient.weights, delta.weights) + Dot(gradient.bias, delta.bias), change)
          << TextOf(made.layer);
    }
  }
}

TEST(HostLayers, ANanIsPassedOnByEveryLayerForward) {
  std::mt19937_64 random(9);
  std::vector<Case> all = LinearCases(random);
  for (Case& made : PiecewiseLinearCases(random)) all.push_back(std::move(made));
  all.push_back(
      MakeCase(planner::Activation{planner::ActivationKind::kTanh}, {1, 3, {1, 4, 2}, 2}, random));
  for (const auto& [op, input] : Poolings()) all.push_back(MakeCase(op, input, random));
  for (Case& made : all) {
    for (double& number : made.x) number = std::nan("");
    for (double& number : made.weights.weights) number = number == 0 ? 1 : number;
    // Not all outputs need be NaN, because a window may lie completely in the padding.
    const Vector y = made.Forward(made.weights, made.x);
    EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](double number) { return std::isnan(number); }))
        << TextOf(made.layer);
  }
}

TEST(HostLayers, WhatHasNoReferenceIsNamed) {
  const Shape plane = {1, 3, {1, 4, 2}, 2};
  const Status softmax = CheckHostLayer("prob", {planner::Softmax{}, plane, plane});
  EXPECT_NE(softmax.message().find("prob"), std::string::npos);
  const Status gelu =
      CheckHostLayer("act", {planner::Activation{planner::ActivationKind::kGelu}, plane, plane});
  EXPECT_NE(gelu.message().find("act"), std::string::npos);
}

}  // namespace
}  // namespace ucudnn::multigrid
