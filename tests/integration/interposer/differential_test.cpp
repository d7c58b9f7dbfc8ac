// Compares divided convolutions with undivided ones: results on whole numbers must be equal,
// results on real numbers must agree within a derived tolerance, and only the output may be
// written.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cases.h"
#include "convolution/partial_sums.h"
#include "libraries.h"
#include "primed_store.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

// A way to call a convolution: with algorithm `algorithm`. The workspace has the bytes that
// algorithm `lends` needs, plus the bytes for summing partial gradients.
struct Way {
  int algorithm;
  int lends;
};

template <Operation operation>
class Differential : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cases_ = CasesOf(operation, Extra::kNone, false);
    if (operation == Operation::kForward) {
      // Kernels with a bias and activation use the measurements of the plain convolution.
      for (const auto& [extra, z_is_y] :
           {std::pair{Extra::kRelu, false}, {Extra::kRelu, true}, {Extra::kIdentity, false}}) {
        const std::vector<Case> more = CasesOf(operation, extra, z_is_y);
        cases_.insert(cases_.end(), more.begin(), more.end());
      }
    }
    PrimedStore store;
    for (const Case& each : cases_) {
      if (each.extra != Extra::kNone) continue;
      const ConvolutionProblem& problem = each.problem;
      const int step = LegalStep(problem);
      const int piece = UnequalPiece(problem.n, step);
      store.Add(problem, SizesFor(piece, problem.n, step), DividedInto(piece, problem.n));
    }
    store.Write();
  }

  static std::vector<Way> Ways(const Case& which) {
    if (which.extra == Extra::kIdentity) return {{1, 1}};
    return {{0, 0}, {0, 1}, {1, 1}};
  }

  // Runs `which` in each of its Ways, and calls check(expected, actual) on the results. With
  // `spoil`, the output is spoilt before each run.
  template <typename Check>
  static void RunAllWays(const Case& which, Convolution& convolution, bool spoil,
                         const Check& check) {
    if (which.extra == Extra::kIdentity && !RealNeed(convolution, 1)) return;
    const Bytes expected = convolution.Expected(which.scales);
    for (const Way& way : Ways(which)) {
      const std::optional<size_t> need = RealNeed(convolution, way.lends);
      if (!need || !RealNeed(convolution, way.algorithm)) continue;
      const GuardedMemory workspace(*need + PartialSumRoom(which.problem));
      if (spoil) convolution.SpoilOutput();
      ConvolutionsRun();
      ASSERT_EQ(convolution.Run(DropIn(), way.algorithm, workspace.data(), workspace.bytes(),
                                which.scales),
                CUDNN_STATUS_SUCCESS);
      const long pieces = ConvolutionsRun();
      EXPECT_GE(pieces, 2);
      const Bytes actual = convolution.TakeOutput();
      check(expected, actual);
      EXPECT_TRUE(convolution.NothingElseWasWritten());
      EXPECT_TRUE(workspace.GuardsAreIntact());
    }
  }

  // With `spoil`, the output is spoilt before each run, and cases that read the output are left
  // out.
  static void WholeNumbersGiveEqualBits(bool spoil = false) {
    std::mt19937 random(20180910);
    for (const Case& each : cases_) {
      if (spoil && (each.scales.beta != 0 || each.z_is_y)) continue;
      SCOPED_TRACE(Describe(each));
      Convolution convolution(each.problem, each.extra, each.z_is_y);
      ASSERT_EQ(convolution.problem(), each.problem);
      convolution.FillIntegers(random);
      RunAllWays(each, convolution, spoil, [&](const Bytes& expected, const Bytes& actual) {
        EXPECT_TRUE(convolution.OutputEquals(expected, actual));
      });
      if (testing::Test::HasFailure()) return;
    }
  }
  static void OutputIsNotReadWithBetaZero() { WholeNumbersGiveEqualBits(true); }

  static void RealNumbersStayWithinTolerance() {
    std::mt19937 random(4);
    std::uniform_real_distribution<double> values(-1, 1);
    for (const Case& each : cases_) {
      if (each.extra != Extra::kNone) continue;
      SCOPED_TRACE(Describe(each));
      Convolution convolution(each.problem, each.extra, each.z_is_y);
      // A first run, on magnitudes only, gives `bound`, which has the sums of magnitudes that
      // LargestExcess needs.
      convolution.Fill([&] { return std::abs(values(random)); });
      const Bytes bound =
          convolution.Expected({std::abs(each.scales.alpha), std::abs(each.scales.beta)});
      for (Operand* operand : {&convolution.x, &convolution.w, &convolution.y}) {
        // The compared runs use the same magnitudes with random signs.
        operand->ForEach([&](size_t element) {
          if (random() % 2 == 0) Negate(*operand, element);
        });
        operand->Upload();
      }
      RunAllWays(each, convolution, false, [&](const Bytes& expected, const Bytes& actual) {
        EXPECT_LE(LargestExcess(convolution, bound, expected, actual), 0);
      });
      if (testing::Test::HasFailure()) return;
    }
  }

  static void ReportListsEveryDivision() {
    const nlohmann::json report = ReadReport();
    ASSERT_FALSE(report.is_null());
    EXPECT_EQ(report["measured"], 0);
    EXPECT_TRUE(report["fallbacks"].empty()) << report["fallbacks"].dump(2);
    std::map<std::string, std::vector<nlohmann::json>> by_problem;
    for (const Case& each : cases_) {
      SCOPED_TRACE(Describe(each));
      const auto kernels = KernelsOf(report, each.problem);
      ASSERT_FALSE(kernels.empty());
      for (const nlohmann::json& kernel : kernels) {
        EXPECT_EQ(Images(kernel), each.problem.n);
        EXPECT_LE(kernel["workspace_bytes"], kernel["limit_bytes"]);
        EXPECT_GE(Pieces(kernel), 2) << kernel.dump(2);
      }
    }
  }

 private:
  static void Negate(Operand& operand, size_t element) {
    const size_t bytes = ElementBytes(operand.type);
    operand.content[(element + 1) * bytes - 1] ^= 0x80;  // the sign bit, in the last byte
  }

  // Returns by how much the largest difference exceeds its tolerance; positive if some element is
  // out of tolerance. `expected` and `actual` sum the same L products in fp32 (or fp64), in
  // different orders. Their difference is at most 2 (L + 2) u times the sum of magnitudes (Higham,
  // section 3.1); L + 4 allows for alpha and beta. Each result is then rounded once to the
  // element's type. Partial gradients (convolution/partial_sums.h) are rounded once more, which
  // adds at most one rounding of the sum of magnitudes.
  static double LargestExcess(Convolution& convolution, const Bytes& bound, const Bytes& expected,
                              const Bytes& actual) {
    const ConvolutionProblem& problem = convolution.problem();
    const Spatial y = OutputExtents(problem);
    const double taps = 1.0 * problem.w[0] * problem.w[1] * problem.w[2];
    const double length = operation == Operation::kForward ? taps * problem.c / problem.groups
                          : operation == Operation::kBackwardData
                              ? taps * problem.k / problem.groups
                              : 1.0 * problem.n * y[0] * y[1] * y[2];
    const double unit = problem.type == DataType::kDouble ? 0x1p-53 : 0x1p-24;
    const double type_unit = problem.type == DataType::kHalf       ? 0x1p-11
                             : problem.type == DataType::kBfloat16 ? 0x1p-8
                                                                   : unit;
    const bool partials = SumsPartials(problem);
    const double roundings = partials ? 3 : 2;
    const double smallest_step =
        problem.type == DataType::kHalf ? 0x1p-24 * (partials ? problem.n : 1) : 0;
    const Operand& result = convolution.output();
    double worst = -1;
    result.ForEach([&](size_t element) {
      const double magnitude = result.Get(bound, element) * (1 + type_unit);
      const double tolerance =
          (2 * (length + 4) * unit + roundings * type_unit) * magnitude + smallest_step;
      const double difference =
          std::abs(result.Get(expected, element) - result.Get(actual, element));
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference - tolerance);
    });
    return worst;
  }

  static inline std::vector<Case> cases_;
};

using Forward = Differential<Operation::kForward>;
using BackwardData = Differential<Operation::kBackwardData>;
using BackwardFilter = Differential<Operation::kBackwardFilter>;

TEST_F(Forward, WholeNumbersGiveEqualBitsAndTheReportListsEveryDivision) {
  WholeNumbersGiveEqualBits();
  ReportListsEveryDivision();
}
TEST_F(Forward, OutputIsNotReadWithBetaZero) { OutputIsNotReadWithBetaZero(); }
TEST_F(Forward, RealNumbersStayWithinTolerance) { RealNumbersStayWithinTolerance(); }

TEST_F(BackwardData, WholeNumbersGiveEqualBitsAndTheReportListsEveryDivision) {
  WholeNumbersGiveEqualBits();
  ReportListsEveryDivision();
}
TEST_F(BackwardData, OutputIsNotReadWithBetaZero) { OutputIsNotReadWithBetaZero(); }
TEST_F(BackwardData, RealNumbersStayWithinTolerance) { RealNumbersStayWithinTolerance(); }

TEST_F(BackwardFilter, WholeNumbersGiveEqualBitsAndTheReportListsEveryDivision) {
  WholeNumbersGiveEqualBits();
  ReportListsEveryDivision();
}
TEST_F(BackwardFilter, OutputIsNotReadWithBetaZero) { OutputIsNotReadWithBetaZero(); }
TEST_F(BackwardFilter, RealNumbersStayWithinTolerance) { RealNumbersStayWithinTolerance(); }

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv,
                                 {{"Forward", {}}, {"BackwardData", {}}, {"BackwardFilter", {}}},
                                 {{"UCUDNN_TUNE", "off"}, {"UCUDNN_BATCH_SIZE_POLICY", "all"}});
}
