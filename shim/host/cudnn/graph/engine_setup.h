// The engines that can run a computation: their numbers, knobs, workspace, and how they run. Engine
// numbers are this library's own, like the real ones; a plan names its engine by them.
//   0               implicit GEMM (for int8 and graphs without a convolution the only
//                   engine): no workspace; its gradients are called nondeterministic, as
//                   cuDNN's are. It also runs graphs in stages, with workspace for the
//                   tensors between them
//   1               oneDNN's blocked layouts: workspace grows with the batch
//   forward 2       oneDNN on the caller's layout
//   forward 3, gradients 2  Winograd (of oneDNN 2)
//   gradients 3     implicit GEMM in one order of summation: no workspace, deterministic
// All but implicit GEMM need tensors that are declared as aligned to 16 bytes, and have the knob
// CUDNN_KNOB_TYPE_WORKSPACE: 0 runs the whole batch at once, 1 in two, 2 in four parts one after
// the other, with workspace for one of them.
#pragma once

#include <optional>
#include <vector>

#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/graph/knob.h"

namespace hostgpu {

int64_t GraphEngineCount(const Computation& computation);

struct EngineSetup {
  int algorithm;        // engine.h's; -1 without a convolution
  int64_t part;         // images that are processed at once
  size_t engine_bytes;  // part of the workspace, for the algorithm
  // Behind them: the convolution's virtual result of one part, or virtual tensors between stages.
  size_t result_bytes;
  size_t workspace_bytes;  // total, with a guard behind the used part
};

// Nullopt if engine `index` does not serve the computation. `workspace_knob` is 0, 1 or 2.
std::optional<EngineSetup> SetUpEngine(const Computation& computation, int64_t index,
                                       int64_t workspace_knob);

std::vector<KnobInfo> KnobsOf(const Computation& computation, int64_t index);
std::vector<cudnnBackendNumericalNote_t> NotesOf(const Computation& computation, int64_t index);
// Returns whether plans of the engine can become CUDA graphs. Plans of all engines but Winograd
// can.
bool SupportsNativeGraphs(const Computation& computation, int64_t index);

// The host addresses of the computation's operands.
struct BoundOperands {
  std::array<void*, 3> convolution{};  // x, w, y; null for a virtual result
  std::vector<void*> program;          // by index in program.operands; null for a virtual result
  std::vector<BoundOperands> stages;
  char* workspace = nullptr;
};

// Runs the computation, on the stream's worker. A failure is reported as a device fault.
void RunComputation(const Computation& computation, const EngineSetup& setup,
                    const BoundOperands& operands);

}  // namespace hostgpu
