#include "tuning/tolerance.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"

namespace ucudnn::tuning {
namespace {

// A term is the product of a value of at most 2 and a value of at most 1.
constexpr double kLargestTerm = 2;
constexpr double kMeanSquareOfTerm = 2.5;  // half of the squared terms are 1, half are 4
// The tolerance is this number of standard deviations. P(|N(0,1)| > 8) = 1.2e-15, so the
// probability that one of 1e9 elements deviates more is 1.2e-6.
constexpr double kDeviations = 8;
constexpr double kTransformRoundings = 24;
constexpr double kCancellation = 16;
constexpr double kWinogradAmplification = 79.5;
constexpr double kLargeWinogradAmplification = 114.2;
constexpr double kFftAmplification = 16;

double UnitRoundoff(int precision_bits) { return std::ldexp(1.0, -precision_bits); }

// Returns the number of bits that stored inputs keep. Tensor cores may convert fp32 tensors to TF32
// or fp16, which leaves 11 bits.
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
  std::vector<NumericClass> classes;
  for (const Run& run : runs) {
    const EngineId::Legacy* const engine = run.micro.engine.legacy();
    if (engine == nullptr) {
      return Status::Error("'" + run.micro.engine.Text() + "' is no legacy engine");
    }
    classes.push_back(LegacyNumericClass(operation, engine->algorithm));
  }
  return Coarsest(classes);
}

Tolerance DataTolerance(const ConvolutionProblem& problem, NumericClass numeric, double largest) {
  const bool direct = numeric == NumericClass::kDirect;
  const bool may_convert = StoredBits(problem) < PrecisionBits(problem.type);
  const double arithmetic = UnitRoundoff(PrecisionBits(problem.compute));
  const double stored = direct && !may_convert ? 0 : UnitRoundoff(StoredBits(problem));
  const double amplification = direct ? 1 : Amplification(problem, numeric);
  const double sums =
      (direct ? 1 : kTransformRoundings) + static_cast<double>(ReductionLength(problem)) / 2;
  // If the library were built with glibc 2.35, std::hypot would make it need at least that version
  // at run time. So std::hypot is not used.
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

Result<Tolerance> DiscriminatingTolerance(const ConvolutionProblem& problem, NumericClass numeric,
                                          int64_t terms) {
  const Tolerance tolerance = IntegerTolerance(problem, numeric, terms);
  if (Discriminates(tolerance, terms)) return tolerance;
  return Status::Error("rounding of " + std::to_string(tolerance.absolute) +
                       " would hide wrong results");
}

}  // namespace ucudnn::tuning
