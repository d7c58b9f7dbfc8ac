// The engines that can run a computation: their numbers, knobs and workspace, and how they run. As
// in the real library, a plan names its engine by a number, but the stand-in has its own numbers.
//   0               implicit GEMM, without workspace; the only engine for int8 and for
//                   graphs without a convolution. Like cuDNN's implicit GEMM, it is reported
//                   as nondeterministic for gradients. It also runs graphs in stages, with
//                   workspace for the tensors between stages. A virtual result of an int8
//                   convolution is in the workspace
//   1               oneDNN's blocked layouts; the workspace grows with the batch
//   forward 2       oneDNN on the caller's layout
//   forward 3, gradients 2  Winograd (only oneDNN 2 has it)
//   gradients 3     implicit GEMM in one order of summation: no workspace, deterministic
// For int8, and for engines other than implicit GEMM, the declared alignment of a convolution's
// tensors must be a multiple of 16 bytes. Engines other than implicit GEMM have the knob
// CUDNN_KNOB_TYPE_WORKSPACE, except for filter gradients of 16-bit types. The knob's value 0 runs
// the batch undivided. The values 1 and 2 run the batch in two and four parts, one after the other,
// with workspace for one part.
#pragma once

#include <optional>
#include <vector>

#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/cudnn/graph/knob.h"

namespace hostgpu {

int64_t GraphEngineCount(const Computation& computation);

struct EngineSetup {
  int algorithm;        // algorithm number of engine.h; -1 without a convolution
  int64_t part;         // number of images that are processed at once
  size_t engine_bytes;  // bytes of workspace for the algorithm
  // Bytes of workspace that follow the engine_bytes: for one part of the convolution's virtual
  // result, or for virtual tensors between stages.
  size_t result_bytes;
  size_t workspace_bytes;  // total bytes, including a guard after the used part
};

// Returns nullopt if engine `index` does not support the computation. `workspace_knob` is 0, 1 or
// 2.
std::optional<EngineSetup> SetUpEngine(const Computation& computation, int64_t index,
                                       int64_t workspace_knob);

std::vector<KnobInfo> KnobsOf(const Computation& computation, int64_t index);
std::vector<cudnnBackendNumericalNote_t> NotesOf(const Computation& computation, int64_t index);
// Returns true if plans of the engine can be executed in CUDA graphs: all engines except Winograd.
bool SupportsNativeGraphs(const Computation& computation, int64_t index);

// The host addresses of the computation's operands.
struct BoundOperands {
  std::array<void*, 3> convolution{};  // addresses of x, w and y; null for a virtual result
  std::vector<void*> program;  // addresses by index in program.operands; null for a virtual result
  std::vector<BoundOperands> stages;
  char* workspace = nullptr;
};

// Runs the computation; the stream's worker calls this. A failure is reported as a device fault.
void RunComputation(const Computation& computation, const EngineSetup& setup,
                    const BoundOperands& operands);

}  // namespace hostgpu
