#include "tuning/tolerance.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "convolution/partial_sums.h"
#include "cudnn/legacy_engines.h"

namespace ucudnn::tuning {
namespace {

using planning::NumericClass;

constexpr double kLargestTerm = 2;         // |x| <= 2, |w| <= 1
constexpr double kMeanSquareOfTerm = 2.5;  // of +-1 and +-2, times +-1
constexpr double kDeviations = 8;          // 1e9 elements stay within with probability 1 - 1e-5
constexpr double kTransformRoundings = 24;
constexpr double kCancellation = 16;
constexpr double kWinogradAmplification = 79.5;
constexpr double kLargeWinogradAmplification = 114.2;
constexpr double kFftAmplification = 16;

double UnitRoundoff(int precision_bits) { return std::ldexp(1.0, -precision_bits); }

// Where fp32 tensors may be converted for tensor cores, to TF32 or fp16, 11 bits are left.
int StoredBits(const ConvolutionProblem& problem) {
  const int bits = PrecisionBits(problem.type);
  const bool may_convert = problem.type == DataType::kFloat && problem.math != MathType::kFma;
  return may_convert ? PrecisionBits(DataType::kHalf) : bits;
}

double Amplification(const ConvolutionProblem& problem, NumericClass numeric) {
  if (numeric == NumericClass::kFft) return kFftAmplification;
  const int largest = *std::max_element(problem.w.begin(), problem.w.end());
  const double plane = largest <= 3 ? kWinogradAmplification : kLargeWinogradAmplification;
  return std::pow(plane, problem.spatial_rank / 2.0);
}

}  // namespace

int PrecisionBits(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 24;
    case DataType::kHalf:
      return 11;
    case DataType::kBfloat16:
      return 8;
    case DataType::kDouble:
      return 53;
  }
  return 0;
}

int64_t MaxExactTerms(const ConvolutionProblem& problem) {
  const int bits = std::min(PrecisionBits(problem.type), PrecisionBits(problem.compute));
  return (int64_t{1} << bits) / static_cast<int64_t>(kLargestTerm);
}

int64_t ReductionLength(const ConvolutionProblem& problem) {
  int64_t taps = 1, pixels = 1;
  const Spatial y = OutputExtents(problem);
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    taps *= problem.w[axis];
    pixels *= y[axis];
  }
  switch (problem.operation) {
    case Operation::kForward:
      return problem.c / problem.groups * taps;
    case Operation::kBackwardData:
      return problem.k / problem.groups * taps;
    case Operation::kBackwardFilter:
      return problem.n * pixels;
  }
  return 0;
}

Tolerance IntegerTolerance(const ConvolutionProblem& problem, NumericClass numeric, int64_t terms) {
  if (numeric == NumericClass::kDirect) return {};
  const auto t = static_cast<double>(terms);
  const double arithmetic = UnitRoundoff(PrecisionBits(problem.compute));
  const double stored = UnitRoundoff(StoredBits(problem));
  const double squares = t * (kTransformRoundings * arithmetic * arithmetic + 2 * stored * stored) +
                         t * t * arithmetic * arithmetic / 2;
  const double sigma = Amplification(problem, numeric) * kLargestTerm * std::sqrt(squares);
  return {kDeviations * std::sqrt(2.0) * sigma, 2 * UnitRoundoff(PrecisionBits(problem.type)),
          false};
}

Result<NumericClass> CoarsestClass(Operation operation, std::span<const Run> runs) {
  NumericClass coarsest = NumericClass::kDirect;
  for (const Run& run : runs) {
    const auto engine = cudnn::ParseLegacyEngine(run.micro.engine);
    if (!engine) return Status::Error("'" + run.micro.engine + "' is no legacy engine");
    const NumericClass numeric = cudnn::LegacyNumericClass(operation, engine->algorithm);
    if (numeric == NumericClass::kDirect || coarsest == NumericClass::kWinograd) continue;
    coarsest = numeric;
  }
  return coarsest;
}

Tolerance DataTolerance(const ConvolutionProblem& problem, NumericClass numeric, double largest) {
  const bool direct = numeric == NumericClass::kDirect;
  const bool may_convert = StoredBits(problem) < PrecisionBits(problem.type);
  const double arithmetic = UnitRoundoff(PrecisionBits(problem.compute));
  const double stored = direct && !may_convert ? 0 : UnitRoundoff(StoredBits(problem));
  const double amplification = direct ? 1 : Amplification(problem, numeric);
  const double sums =
      (direct ? 1 : kTransformRoundings) + static_cast<double>(ReductionLength(problem)) / 2;
  // Not std::hypot, which in a library built on glibc 2.35 needs that version.
  const double rounded = kCancellation * arithmetic;
  const double partial = SumsPartials(problem) ? UnitRoundoff(PrecisionBits(problem.type)) : 0;
  const double sigma = largest * std::sqrt(amplification * amplification *
                                               (rounded * rounded * sums + 2 * stored * stored) +
                                           partial * partial);
  return {kDeviations * std::sqrt(2.0) * sigma, 2 * UnitRoundoff(PrecisionBits(problem.type)),
          true};
}

bool Discriminates(const Tolerance& tolerance, int64_t terms) {
  const double typical = std::sqrt(kMeanSquareOfTerm * static_cast<double>(terms));
  return tolerance.absolute + tolerance.relative * typical <= typical;
}

}  // namespace ucudnn::tuning
