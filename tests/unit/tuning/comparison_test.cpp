#include "tuning/comparison.h"

#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "tests/support/random_problem.h"
#include "tests/support/seeded_random.h"
#include "tuning/test_operands.h"

namespace ucudnn::tuning {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                               DataType::kDouble};

double Decode(DataType type, const std::byte* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, ElementBytes(type));
  const auto ieee = [&](int exponent_bits, int fraction_bits) {
    const double sign = (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -1 : 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    const auto fraction = static_cast<double>(bits & ((uint64_t{1} << fraction_bits) - 1));
    if (exponent == (1 << exponent_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
    const double significand = std::ldexp(fraction, -fraction_bits) + (exponent > 0 ? 1 : 0);
    return sign * std::ldexp(significand, std::max(exponent, 1) - bias);
  };
  switch (type) {
    case DataType::kFloat:
      return ieee(8, 23);
    case DataType::kHalf:
      return ieee(5, 10);
    case DataType::kBfloat16:
      return ieee(8, 7);
    case DataType::kDouble:
      return ieee(11, 52);
  }
  return 0;
}

// Returns a nested tensor (Tensor::IsNested) of random extents, axis order and gaps.
Tensor RandomTensor(std::mt19937& random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Tensor tensor;
  tensor.type = kTypes[pick(0, 3)];
  std::array<int, 5> order = {0, 1, 2, 3, 4};
  std::shuffle(order.begin(), order.end(), random);
  const bool packed = pick(0, 1) == 0;
  int64_t stride = packed ? 1 : pick(1, 3);
  for (const int axis : order) {
    tensor.extents[axis] = pick(1, 6);
    tensor.strides[axis] = stride;
    stride = stride * tensor.extents[axis] + (packed ? 0 : pick(0, 4));
  }
  return tensor;
}

std::vector<int64_t> Offsets(const Tensor& t) {
  std::vector<int64_t> offsets;
  for (int64_t n = 0; n < t.extents[0]; ++n)
    for (int64_t c = 0; c < t.extents[1]; ++c)
      for (int64_t d = 0; d < t.extents[2]; ++d)
        for (int64_t h = 0; h < t.extents[3]; ++h)
          for (int64_t w = 0; w < t.extents[4]; ++w)
            offsets.push_back(n * t.strides[0] + c * t.strides[1] + d * t.strides[2] +
                              h * t.strides[3] + w * t.strides[4]);
  return offsets;
}

// `got` and `expected` are the same random bytes except for a few flipped bits, and are compared in
// random chunks. The expected count comes from decoding every element.
TEST(CompareChunk, FindsWhatABruteForceFinds) {
  test::SeededRandom random;
  for (int round = 0; round < 2000; ++round) {
    const Tensor tensor = RandomTensor(random);
    ASSERT_TRUE(tensor.IsNested());
    const size_t element = ElementBytes(tensor.type);
    std::vector<std::byte> got(tensor.Bytes(), std::byte{0xff}), expected(got);
    const std::vector<int64_t> offsets = Offsets(tensor);
    const Tolerance tolerance = {0, round % 2 == 0 ? 0 : 0.01};
    int64_t wrong = 0;
    for (const int64_t offset : offsets) {
      std::byte* const a = got.data() + static_cast<size_t>(offset) * element;
      std::byte* const b = expected.data() + static_cast<size_t>(offset) * element;
      for (size_t i = 0; i < element; ++i) a[i] = b[i] = static_cast<std::byte>(random());
      if (random() % 32 == 0) a[random() % element] ^= static_cast<std::byte>(1u << random() % 8);
      const double is = Decode(tensor.type, a), ought = Decode(tensor.type, b);
      const double apart = std::abs(is - ought);
      // If an element is about as wrong as the tolerance allows, CompareChunk's rounding decides
      // whether it is wrong. Such an element is made right.
      const double limit = tolerance.relative * std::max(std::abs(is), std::abs(ought));
      const double smallest = tensor.type == DataType::kDouble
                                  ? std::numeric_limits<double>::denorm_min()
                                  : std::numeric_limits<float>::denorm_min();
      if (apart > 0 && limit > 0 && std::abs(apart - limit) <= 1e-5 * limit + 4 * smallest) {
        std::memcpy(a, b, element);
      }
      wrong += std::abs(Decode(tensor.type, a) - Decode(tensor.type, b)) <= limit ? 0 : 1;
    }
    Differences differences;
    for (int64_t begin = 0; begin < tensor.Span();) {
      const int64_t count =
          std::uniform_int_distribution<int64_t>(1, tensor.Span() - begin)(random);
      const auto bytes = [&](std::vector<std::byte>& all) {
        return std::span(all).subspan(static_cast<size_t>(begin) * element,
                                      static_cast<size_t>(count) * element);
      };
      CompareChunk({tensor, tolerance, std::byte{0xff}}, begin, bytes(got), bytes(expected),
                   differences);
      begin += count;
    }
    ASSERT_EQ(differences.count, wrong) << "round " << round;
    EXPECT_FALSE(differences.gap.has_value());
    if (wrong > 0) {
      EXPECT_NE(std::find(offsets.begin(), offsets.end(), differences.offset), offsets.end());
      const auto at = tensor.Position(differences.offset);
      int64_t offset = 0;
      for (int axis = 0; axis < 5; ++axis) offset += at[axis] * tensor.strides[axis];
      EXPECT_EQ(offset, differences.offset);
    }
  }
}

TEST(CompareChunk, EveryByteOfEveryGapIsWatched) {
  Tensor tensor{DataType::kHalf, {2, 3, 1, 2, 4}, {40, 12, 12, 5, 1}};
  const std::vector<int64_t> offsets = Offsets(tensor);
  std::vector<bool> in_element(tensor.Bytes(), false);
  for (const int64_t offset : offsets) in_element[2 * offset] = in_element[2 * offset + 1] = true;
  for (size_t byte = 0; byte < tensor.Bytes(); ++byte) {
    if (in_element[byte]) continue;
    std::vector<std::byte> got(tensor.Bytes(), std::byte{0x11}), expected(got);
    got[byte] = std::byte{0x10};
    Differences differences;
    CompareChunk({tensor, {}, std::byte{0x11}}, 0, got, expected, differences);
    EXPECT_EQ(differences.count, 0);
    ASSERT_TRUE(differences.gap.has_value()) << byte;
    EXPECT_EQ(*differences.gap, static_cast<int64_t>(byte));
  }
}

TEST(CompareChunk, NothingAgreesWithNanOrInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor tensor{DataType::kFloat, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
  for (const float value : {infinity, -infinity, nan}) {
    for (const float other : {value, 1.0f, 3e38f}) {
      for (const Tolerance& tolerance : {Tolerance{0, 0}, Tolerance{1e30, 1}}) {
        float a = value, b = other;
        Differences differences;
        CompareChunk({tensor, tolerance, std::nullopt}, 0, std::as_writable_bytes(std::span(&a, 1)),
                     std::as_writable_bytes(std::span(&b, 1)), differences);
        EXPECT_EQ(differences.count, 1) << value << " " << other;
        a = other;
        b = value;
        CompareChunk({tensor, tolerance, std::nullopt}, 0, std::as_writable_bytes(std::span(&a, 1)),
                     std::as_writable_bytes(std::span(&b, 1)), differences);
        EXPECT_EQ(differences.count, 2) << other << " " << value;
      }
    }
  }
}

// For each output element, the magnitudes of the terms must add up to a number that `type` and
// `compute` both hold exactly. The terms read one set of elements of the sparse operand, so the
// test counts the elements other than 0 in every such set.
TEST(TestOperands, SumsOfMagnitudesAreExact) {
  test::SeededRandom random;
  int thinned = 0;
  for (int round = 0; round < 200; ++round) {
    ConvolutionProblem problem = RandomProblem(random);
    problem.n = 1 + problem.n % 12;
    if (!OutputTensor(problem).IsNested() || !ImageTensor(problem).IsNested()) continue;
    SCOPED_TRACE(Describe(problem));
    const TestOperands operands = MakeTestOperands(problem);
    const size_t element = ElementBytes(problem.type);
    const auto largest = [&](const OperandPattern& operand) {
      double largest = 0;
      for (size_t at = 0; at < operand.pattern.size(); at += element) {
        largest = std::max(largest, std::abs(Decode(problem.type, &operand.pattern[at])));
      }
      return largest;
    };
    EXPECT_LE(largest(operands.dense), 2);
    EXPECT_LE(largest(operands.sparse), 1);
    const bool gradient = problem.operation == Operation::kBackwardFilter;
    const Tensor sparse = gradient ? OutputTensor(problem) : FilterTensor(problem);
    ASSERT_EQ(operands.sparse.bytes, sparse.Bytes());
    std::map<int64_t, int64_t> terms;  // elements other than 0, by set
    int64_t index = 0;
    for (const int64_t offset : Offsets(sparse)) {
      const int64_t inner = sparse.extents[2] * sparse.extents[3] * sparse.extents[4];
      const int64_t first = index / inner / sparse.extents[1];
      const int64_t second = index / inner % sparse.extents[1];
      ++index;
      int64_t set = first;  // forward: all numbers of one filter are one set
      if (gradient) set = second;
      if (problem.operation == Operation::kBackwardData) {
        set = first / (problem.k / problem.groups) * sparse.extents[1] + second;
      }
      const size_t at = static_cast<size_t>(offset) * element % operands.sparse.pattern.size();
      terms[set] += Decode(problem.type, &operands.sparse.pattern[at]) != 0 ? 1 : 0;
    }
    const double exact =
        std::ldexp(1.0, std::min(PrecisionBits(problem.type), PrecisionBits(problem.compute)));
    for (const auto& [set, count] : terms) {
      EXPECT_LE(count, TestTerms(problem));
      EXPECT_GE(count, 1);
      EXPECT_LE(2.0 * static_cast<double>(count), exact);
    }
    thinned += TestTerms(problem) < ReductionLength(problem) ? 1 : 0;
  }
  EXPECT_GE(thinned, 10);
}

TEST(Tolerance, DirectEnginesAgreeInEveryBit) {
  ConvolutionProblem problem;
  const Tolerance direct = IntegerTolerance(problem, NumericClass::kDirect, 1000);
  EXPECT_EQ(direct.absolute, 0);
  EXPECT_EQ(direct.relative, 0);
  EXPECT_TRUE(Discriminates(direct, 1));
}

// The tolerance allows for the rounding of transforms. In fp32 and fp16 a wrong result exceeds this
// tolerance. In bf16 a wrong result may lie within it.
TEST(Tolerance, TransformsAreJudgedByTheirType) {
  ConvolutionProblem problem;
  problem.w = {1, 3, 3};
  problem.math = MathType::kFma;
  const auto verdict = [&](NumericClass numeric, int64_t terms) {
    return Discriminates(IntegerTolerance(problem, numeric, terms), terms);
  };
  EXPECT_LT(IntegerTolerance(problem, NumericClass::kWinograd, 4608).absolute, 1);
  for (const int64_t terms : {1, 9, 4608, 1 << 20}) {
    EXPECT_TRUE(verdict(NumericClass::kWinograd, terms));
    EXPECT_TRUE(verdict(NumericClass::kFft, terms));
  }
  problem.type = DataType::kHalf;
  for (const int64_t terms : {1, 9, 1024}) EXPECT_TRUE(verdict(NumericClass::kWinograd, terms));
  problem.type = DataType::kBfloat16;
  for (const int64_t terms : {1, 9, 128}) EXPECT_FALSE(verdict(NumericClass::kWinograd, terms));
}

// On real data the tolerance is a fraction of the largest result, which is 100 here. The fraction
// is below a hundredth if TF32 is allowed, below a thousandth for other direct fp32 engines, and
// below a fiftieth for gradients of filters over millions of pixels.
TEST(Tolerance, RealDataIsJudgedByItsLargestResult) {
  ConvolutionProblem problem;
  problem.n = 256;
  problem.c = 512;
  problem.x = {1, 114, 114};
  problem.w = {1, 3, 3};
  const auto direct = [&] { return DataTolerance(problem, NumericClass::kDirect, 100).absolute; };
  EXPECT_LT(direct(), 1);
  problem.math = MathType::kFma;
  EXPECT_LT(direct(), 0.1);
  const double winograd = DataTolerance(problem, NumericClass::kWinograd, 100).absolute;
  EXPECT_GT(winograd, direct());
  EXPECT_LT(winograd, 10);
  problem.operation = Operation::kBackwardFilter;
  EXPECT_LT(direct(), 2);
  problem.type = problem.compute = DataType::kDouble;
  EXPECT_LT(direct(), 1e-8);
}

using Piece = ::ucudnn::Run;  // gtest has a Run, too

TEST(CoarsestClass, WinogradRoundsTheMost) {
  const auto run = [](int algorithm) {
    return Piece{{"legacy:" + std::to_string(algorithm), 1, 1, 0, true}, 1};
  };
  const Piece direct = run(CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
  const Piece fft = run(CUDNN_CONVOLUTION_FWD_ALGO_FFT);
  const Piece winograd = run(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
  const auto coarsest = [](const std::vector<Piece>& runs) {
    return *CoarsestClass(Operation::kForward, runs);
  };
  EXPECT_EQ(coarsest({direct, direct}), NumericClass::kDirect);
  EXPECT_EQ(coarsest({direct, fft, direct}), NumericClass::kFft);
  EXPECT_EQ(coarsest({fft, winograd, direct}), NumericClass::kWinograd);
  EXPECT_EQ(coarsest({winograd, fft}), NumericClass::kWinograd);
  EXPECT_FALSE(CoarsestClass(Operation::kForward, std::vector<Piece>{{{"graph:1"}, 1}}).ok());
}

}  // namespace
}  // namespace ucudnn::tuning
