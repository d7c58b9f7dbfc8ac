// Runs a computation on an engine, one part of the batch after the other.
#include <memory>

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/first_touch.h"
#include "shim/host/cudnn/graph/engine_setup.h"
#include "shim/host/cudnn/workspace_guard.h"

namespace hostgpu {
namespace {

void* Advance(void* address, int64_t elements, size_t element_bytes) {
  return static_cast<char*>(address) + elements * static_cast<int64_t>(element_bytes);
}

// Returns the address of image `first` in each of the program's operands. The convolution's virtual
// result is computed in parts; `result` contains only the part that begins with image `first`.
std::vector<void*> PartOf(const Computation& computation, const BoundOperands& operands,
                          int64_t first, void* result) {
  const auto& program = computation.program;
  std::vector<void*> addresses(program.operands.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const ProgramOperand& operand = program.operands[i];
    addresses[i] =
        operands.program[i] == nullptr
            ? result
            : Advance(operands.program[i], first * operand.strides[0], BytesOf(operand.type));
  }
  return addresses;
}

bool RunPart(const Computation& computation, const EngineSetup& setup,
             const BoundOperands& operands, int64_t first, void* result) {
  const ConvolutionPart& convolution = *computation.convolution;
  ConvolutionShape shape = convolution.problem.shape;
  const int64_t images = std::min(setup.part, shape.n - first);
  std::array<void*, 3> at = operands.convolution;
  if (at[0] != nullptr) at[0] = Advance(at[0], first * shape.x_strides[0], BytesOf(shape.type));
  if (at[2] != nullptr) {
    at[2] = Advance(at[2], first * shape.y_strides[0], BytesOf(ResultType(shape)));
  }
  for (void*& address : at) {
    if (address == nullptr) address = result;
  }
  const bool accumulates = shape.operation == Operation::kBackwardFilter && first > 0;
  shape.n = images;
  if (!hostgpu::Run(shape, setup.algorithm, convolution.alpha, at[0], at[1], at[2],
                    accumulates ? 1 : convolution.beta, operands.workspace)) {
    return false;
  }
  return !convolution.is_virtual ||
         computation.program.Run(PartOf(computation, operands, first, result), images);
}

bool RunParts(const Computation& computation, const EngineSetup& setup,
              const BoundOperands& operands) {
  for (size_t i = 0; i < computation.stages.size(); ++i) {
    const Computation& stage = computation.stages[i];
    if (!RunParts(stage, *SetUpEngine(stage, 0, 0), operands.stages[i])) return false;
  }
  if (!computation.stages.empty()) return true;
  if (computation.sums) return RunChannelSums(computation, operands.program);
  if (!computation.convolution) {
    return computation.program.Run(operands.program, computation.program.dims[0]);
  }
  const ConvolutionPart& convolution = *computation.convolution;
  const int64_t images = convolution.problem.shape.n;
  void* result = nullptr;
  std::unique_ptr<char[]> own_result;
  if (convolution.is_virtual && setup.result_bytes == 0) {
    const bool forward = convolution.problem.shape.operation == Operation::kForward;
    const auto& strides =
        forward ? convolution.problem.shape.y_strides : convolution.problem.shape.x_strides;
    own_result =
        std::make_unique_for_overwrite<char[]>(static_cast<size_t>(setup.part * strides[0]) *
                                               BytesOf(ResultType(convolution.problem.shape)));
    result = own_result.get();
  } else if (convolution.is_virtual) {
    result = operands.workspace + setup.engine_bytes;
  }
  PayFirstTouch(convolution.problem.shape.operation, setup.algorithm, operands.convolution[0],
                operands.convolution[2]);
  for (int64_t first = 0; first < images; first += setup.part) {
    if (!RunPart(computation, setup, operands, first, result)) return false;
  }
  return convolution.is_virtual || computation.program.steps.empty() ||
         computation.program.Run(operands.program, computation.program.dims[0]);
}

}  // namespace

void RunComputation(const Computation& computation, const EngineSetup& setup,
                    const BoundOperands& operands) {
  WorkspaceGuard guard(operands.workspace, setup.engine_bytes + setup.result_bytes,
                       setup.workspace_bytes);
  if (!RunParts(computation, setup, operands)) {
    ReportDeviceFault("an engine failed while it ran");
  }
  if (!guard.RestoreBehind()) ReportDeviceFault("an engine wrote past its workspace");
}

}  // namespace hostgpu
