#include "protocol.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "convolution/engine_name.h"
#include "guarded_memory.h"
#include "layer.h"
#include "report_file.h"

namespace ucudnn::test {
namespace {

// Returns whether the algorithm is direct, and therefore exact on integers.
bool IsDirect(Operation operation, int algorithm) {
  return LegacyNumericClass(operation, algorithm) == NumericClass::kDirect;
}

// Expects that the report has a plan of `pieces` pieces within the workspace in `told`. The plan's
// engines must be as exact and as deterministic as the algorithm in `told`.
void ExpectReported(const Convolution& convolution, const cudnn::AlgorithmPerformance& told,
                    long pieces) {
  const Operation operation = convolution.problem().operation;
  const auto kernels = KernelsOf(ReadReport(), convolution.problem());
  const bool found = std::any_of(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    if (kernel["workspace_bytes"] > told.workspace_bytes || Pieces(kernel) != pieces) {
      return false;
    }
    for (const std::string& name : Engines(kernel)) {
      const int algorithm = EngineId(name).legacy()->algorithm;
      const bool random = algorithm == 0 && operation != Operation::kForward;
      if (random && told.determinism == CUDNN_DETERMINISTIC) return false;
      if (!IsDirect(operation, algorithm)) return false;
    }
    return true;
  });
  EXPECT_TRUE(found) << "algorithm " << told.algorithm << " in " << pieces
                     << " pieces: " << ReadReport().dump(1);
}

}  // namespace

void Protocol::SetUpTestSuite() { PrimeLayer(); }

long RunAndCompare(Convolution& convolution, int algorithm, size_t bytes, const Scales& scales,
                   const cudnn::Functions& library) {
  const Bytes expected = convolution.FillAndExpect(7, scales);
  const GuardedMemory workspace(bytes);
  ConvolutionsRun();
  EXPECT_EQ(convolution.Run(library, algorithm, workspace.data(), bytes, scales),
            CUDNN_STATUS_SUCCESS);
  const long pieces = ConvolutionsRun();
  convolution.ExpectOutput(expected, &workspace);
  return pieces;
}

void UseMath(const Convolution& convolution, cudnnMathType_t math) {
  EXPECT_EQ(cudnnSetConvolutionMathType(convolution.descriptors().convolution, math),
            CUDNN_STATUS_SUCCESS);
}

void Protocol::EveryAnswerIsKept(size_t limit) {
  for (const Operation operation : kOperations)
    for (const Question question : kQuestions)
      for (const int requested : {1, 2, 20})
        for (const size_t lent : {size_t{0}, size_t{60000}, kTightBytes, size_t{1} << 24}) {
          if (question != Question::kFindEx && lent != 0) continue;
          bool ran = false;
          SCOPED_TRACE(std::string(OperationName(operation)) + " question " +
                       std::to_string(static_cast<int>(question)) + " lent " +
                       std::to_string(lent));
          Convolution convolution(LayerProblem(operation));
          convolution.FillIntegers(8);
          const GuardedMemory workspace(lent);
          const Answer answer =
              Ask(DropIn(), question, convolution, requested, workspace.data(), lent);
          ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
          ASSERT_FALSE(answer.algorithms.empty());
          EXPECT_LE(answer.algorithms.size(), static_cast<size_t>(requested));
          EXPECT_TRUE(convolution.output().IsUnchanged());
          for (const cudnn::AlgorithmPerformance& told : answer.algorithms) {
            if (told.status != CUDNN_STATUS_SUCCESS) continue;
            if (question == Question::kFindEx) {
              EXPECT_LE(told.workspace_bytes, lent);
            }
            EXPECT_LE(told.workspace_bytes, limit);
            if (IsDirect(operation, told.algorithm)) {
              SCOPED_TRACE("algorithm " + std::to_string(told.algorithm));
              UseMath(convolution, told.math);
              EXPECT_EQ(ReportedNeed(convolution, told.algorithm), told.workspace_bytes);
              const long pieces = RunAndCompare(convolution, told.algorithm, told.workspace_bytes);
              ExpectReported(convolution, told, pieces);
              ran = true;
            }
          }
          // Only exact algorithms ran. If one algorithm is requested, the answer may be an
          // algorithm that is not exact.
          EXPECT_TRUE(ran || requested == 1) << "nothing that was told ran";
          if (HasFailure()) return;
        }
}

cudnn::AlgorithmPerformance Protocol::FindEx(Convolution& convolution, size_t lent) {
  const GuardedMemory workspace(lent);
  const Answer answer = Ask(DropIn(), Question::kFindEx, convolution, 1, workspace.data(), lent);
  EXPECT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(answer.algorithms.size(), 1u);
  return answer.algorithms.empty() ? cudnn::AlgorithmPerformance{} : answer.algorithms[0];
}

}  // namespace ucudnn::test
