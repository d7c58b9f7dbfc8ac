// Tests batches whose images are not a multiple of 16 bytes. Few boundaries between images are
// aligned ("legal"). At any other boundary, an engine with 16-byte accesses gets a misaligned
// address, at which the stand-in loses its device, as a GPU does. The store says that pieces with
// such boundaries are the fastest; ucudnn must not run them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cases.h"
#include "libraries.h"
#include "primed_store.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

constexpr Operation kAll[] = {Operation::kForward, Operation::kBackwardData,
                              Operation::kBackwardFilter};

int Remainder(const ConvolutionProblem& problem) { return problem.n % LegalStep(problem); }

// Returns a time in ms. A legal size is fast if it is LegalStep or the remainder, and slow
// otherwise. A size that needs an illegal boundary takes almost no time. Algorithm 1, which has
// 16-byte accesses, is the fastest.
double TemptingTime(const ConvolutionProblem& problem, int algorithm, int size) {
  if (algorithm > 2) return -1;  // excludes Winograd and FFT, which are not exact
  const int step = LegalStep(problem);
  const bool legal = size % step == 0 || size % step == Remainder(problem);
  const double per_image = !legal                                       ? 1e-7
                           : size == step || size == Remainder(problem) ? 0.01
                           : size == problem.n                          ? 10
                                                                        : 1;
  return per_image * size * (algorithm == 1 ? 1 : 1.25);
}

std::vector<int> TemptingSizes(const ConvolutionProblem& problem) {
  const int step = LegalStep(problem), rest = Remainder(problem);
  std::vector<int> sizes = {1, step - 1, step, step + 1, 2 * step, rest, step + rest, problem.n};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

class Alignment : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    PrimedStore store;
    for (const Operation operation : kAll) {
      for (const Case& each : UnalignedCasesOf(operation)) {
        store.Add(each.problem, TemptingSizes(each.problem), [&](int algorithm, int size) {
          return TemptingTime(each.problem, algorithm, size);
        });
      }
    }
    store.Write();
  }

  // Expects that the plan has three pieces of one legal step each and a piece with the remainder,
  // and that all boundaries between pieces are legal.
  static void CheckPlan(const nlohmann::json& kernel, const ConvolutionProblem& problem) {
    const int step = LegalStep(problem);
    std::vector<int> pieces;
    for (const auto& run : kernel["plan"]) {
      for (int i = 0; i < run["count"].get<int>(); ++i) pieces.push_back(run["micro_batch"]);
    }
    int boundary = 0;
    for (const int piece : pieces) {
      EXPECT_EQ(boundary % step, 0) << kernel.dump(2);
      boundary += piece;
    }
    EXPECT_EQ(boundary, problem.n);
    EXPECT_EQ(pieces, (std::vector<int>{step, step, step, Remainder(problem)})) << kernel.dump(2);
  }
};

TEST_F(Alignment, OnlyLegalBoundariesRunAndResultsAreTheUndividedOnes) {
  std::mt19937 random(7);
  for (const Operation operation : kAll) {
    std::map<std::pair<DataType, int>, int> seen;  // {(type, step): number of cases}
    for (const Case& each : UnalignedCasesOf(operation)) {
      SCOPED_TRACE(Describe(each));
      ++seen[{each.problem.type, LegalStep(each.problem)}];
      Convolution convolution(each.problem);
      ASSERT_EQ(convolution.problem(), each.problem);
      convolution.FillIntegers(random);
      const Bytes expected = convolution.Expected(each.scales);
      const int algorithm = RealNeed(convolution, 1) ? 1 : 0;
      const GuardedMemory workspace(RealNeed(convolution, algorithm).value() +
                                    PartialSumRoom(each.problem));
      ConvolutionsRun();
      ASSERT_EQ(
          convolution.Run(DropIn(), algorithm, workspace.data(), workspace.bytes(), each.scales),
          CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(ConvolutionsRun(), 4);
      convolution.ExpectOutput(expected, &workspace);
      const auto kernels = KernelsOf(ReadReport(), each.problem);
      ASSERT_EQ(kernels.size(), 1u);
      CheckPlan(kernels[0], each.problem);
      if (HasFailure()) return;
    }
    // If an image has an odd number of elements, LegalStep is the number of elements in 16 bytes.
    // Two geometries have such images. Each type has these geometries in 3 layouts, in 2-D and in
    // 3-D.
    for (const auto& [type, step] : {std::pair{DataType::kFloat, 4},
                                     {DataType::kHalf, 8},
                                     {DataType::kBfloat16, 8},
                                     {DataType::kDouble, 2}}) {
      EXPECT_GE((seen[{type, step}]), 3 * 2 * 2) << DataTypeName(type);
    }
  }
}

// Runs only the images after `boundary`, with algorithm 1 of the real library.
cudnnStatus_t RunBehind(Convolution& convolution, int boundary) {
  const ConvolutionProblem& problem = convolution.problem();
  ConvolutionProblem rest = problem;
  rest.n = problem.n - boundary;
  cudnn::OwnedDescriptors descriptors(Undivided());
  if (!descriptors.Create(rest).ok()) return CUDNN_STATUS_INTERNAL_ERROR;
  const auto behind = [&](const Operand& operand) {
    return static_cast<char*>(operand.memory.data()) +
           boundary * operand.strides[0] * static_cast<int64_t>(ElementBytes(problem.type));
  };
  const float one = 1, zero = 0;
  cudnn::ConvolutionCall call;
  call.operation = problem.operation;
  call.handle = convolution.handle();
  call.descriptors = descriptors.get();
  call.alpha = &one;
  call.beta = &zero;
  call.x = behind(convolution.x);
  call.w = convolution.w.memory.data();
  call.y = behind(convolution.y);
  call.algorithm = 1;
  const GuardedMemory workspace(RealNeed(convolution, 1).value());
  call.workspace = workspace.data();
  call.workspace_bytes = workspace.bytes();
  return cudnn::Convolve(Undivided(), call);
}

// Shows that the stand-in really faults at illegal boundaries. A process cannot use its device
// after a fault, so each case runs in its own process.
class Control : public testing::Test {
 protected:
  Control() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Control, IllegalBoundariesFault) {
  int controls = 0;
  for (const Operation operation : kAll) {
    std::map<DataType, int> of_type;
    for (const Case& each : UnalignedCasesOf(operation)) {
      // Algorithm 1 does not support fp64. Cases 0 and 6 of each other type are tested.
      const int count = of_type[each.problem.type]++;
      if (each.problem.type == DataType::kDouble || (count != 0 && count != 6)) continue;
      ++controls;
      SCOPED_TRACE(Describe(each));
      EXPECT_EXIT(
          {
            Convolution convolution(each.problem);
            const int step = LegalStep(each.problem);
            const bool legal = RunBehind(convolution, step) == CUDNN_STATUS_SUCCESS &&
                               RunBehind(convolution, 2 * step) == CUDNN_STATUS_SUCCESS;
            const bool faults =
                RunBehind(convolution, step + 1) == CUDNN_STATUS_EXECUTION_FAILED_CUDART &&
                RunBehind(convolution, step) == CUDNN_STATUS_EXECUTION_FAILED_CUDART;
            std::_Exit(legal && faults ? 0 : 1);
          },
          testing::ExitedWithCode(0), "misaligned address");
    }
  }
  EXPECT_EQ(controls, 3 * 3 * 2);
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(argc, argv, {{"Alignment", {}}, {"Control", {}}},
                                 {{"UCUDNN_TUNE", "off"}, {"UCUDNN_BATCH_SIZE_POLICY", "all"}});
}
