#include "shim/host/cudnn/graph/engine_setup.h"

namespace hostgpu {
namespace {

constexpr int64_t kMaxWorkspaceKnob = 2;
constexpr size_t kGuardBytes = 256;
constexpr size_t kAlign = 256;
constexpr int64_t kVectorBytes = 16;
// Algorithm 0 computes a virtual result in parts of the batch: as many images at once as fit in
// this many bytes, but at least one.
constexpr size_t kOwnResultBytes = size_t{1} << 20;

size_t Aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::vector<int> AlgorithmsOf(const ConvolutionShape& shape) {
  if (shape.type == DataType::kInt8) return {1};
  const int winograd = WinogradOf(shape.operation);
  if (shape.operation == Operation::kForward) return {0, 1, 2, winograd};
  return {0, 1, winograd, 0};
}

bool IsWinograd(const Computation& computation, int64_t index) {
  if (!computation.convolution) return false;
  const ConvolutionShape& shape = computation.convolution->problem.shape;
  return AlgorithmsOf(shape)[index] == WinogradOf(shape.operation);
}

bool HasWorkspaceKnob(const ConvolutionPart& convolution, int algorithm) {
  const ConvolutionShape& shape = convolution.problem.shape;
  if (algorithm == 0 || shape.type == DataType::kInt8) return false;
  // The filter gradient sums over the batch. If the batch ran in parts, a 16-bit result would be
  // rounded after each part.
  return shape.operation != Operation::kBackwardFilter || shape.type == DataType::kFloat;
}

// Returns the bytes of the convolution's dense result for `images` images.
size_t ResultBytes(const ConvolutionPart& convolution, int64_t images) {
  const ConvolutionShape& shape = convolution.problem.shape;
  const bool forward = shape.operation == Operation::kForward;
  const int64_t per_image = forward ? shape.y_strides[0] : shape.x_strides[0];
  return static_cast<size_t>(images * per_image) * BytesOf(ResultType(shape));
}

std::optional<size_t> BytesFor(ConvolutionShape shape, int algorithm, int64_t images) {
  shape.n = images;
  return WorkspaceBytes(shape, algorithm);
}

}  // namespace

int64_t GraphEngineCount(const Computation& computation) {
  if (!computation.convolution) return 1;
  return static_cast<int64_t>(AlgorithmsOf(computation.convolution->problem.shape).size());
}

namespace {

// Sets up a graph in stages. Each stage runs on its first engine, which must not need workspace.
std::optional<EngineSetup> SetUpStages(const Computation& computation) {
  for (const Computation& stage : computation.stages) {
    const auto setup = SetUpEngine(stage, 0, 0);
    if (!setup || setup->workspace_bytes > 0) return std::nullopt;
  }
  const size_t bytes = computation.staged_bytes;
  return EngineSetup{-1, 0, 0, bytes, bytes > 0 ? bytes + kGuardBytes : 0};
}

}  // namespace

std::optional<EngineSetup> SetUpEngine(const Computation& computation, int64_t index,
                                       int64_t workspace_knob) {
  if (index < 0 || index >= GraphEngineCount(computation)) return std::nullopt;
  if (!computation.stages.empty()) return SetUpStages(computation);
  if (!computation.convolution) return EngineSetup{-1, computation.program.dims[0], 0, 0, 0};
  const ConvolutionPart& convolution = *computation.convolution;
  const ConvolutionShape& shape = convolution.problem.shape;
  const int algorithm = AlgorithmsOf(shape)[index];
  EngineSetup setup{algorithm, shape.n, 0, 0, 0};
  if (algorithm == 0) {
    if (convolution.is_virtual) {
      const size_t image = ResultBytes(convolution, 1);
      setup.part = std::clamp<int64_t>(static_cast<int64_t>(kOwnResultBytes / image), 1, shape.n);
    }
    return setup;
  }
  for (int64_t alignment : convolution.alignments) {
    if (alignment % kVectorBytes != 0) return std::nullopt;
  }
  if (HasWorkspaceKnob(convolution, algorithm)) {
    const int64_t parts = int64_t{1} << workspace_knob;
    setup.part = (shape.n + parts - 1) / parts;
  }
  const auto needed = BytesFor(shape, algorithm, setup.part);
  const int64_t last = shape.n % setup.part;
  const auto needed_by_last = last == 0 ? needed : BytesFor(shape, algorithm, last);
  if (!needed || !needed_by_last) return std::nullopt;
  setup.engine_bytes = Aligned(std::max(*needed, *needed_by_last));
  if (convolution.is_virtual) setup.result_bytes = Aligned(ResultBytes(convolution, setup.part));
  setup.workspace_bytes = setup.engine_bytes + setup.result_bytes;
  if (setup.workspace_bytes > 0) setup.workspace_bytes += kGuardBytes;
  return setup;
}

std::vector<KnobInfo> KnobsOf(const Computation& computation, int64_t index) {
  if (!computation.convolution) return {};
  const auto algorithms = AlgorithmsOf(computation.convolution->problem.shape);
  if (!HasWorkspaceKnob(*computation.convolution, algorithms[index])) return {};
  KnobInfo knob;
  knob.type = CUDNN_KNOB_TYPE_WORKSPACE;
  knob.maximum = kMaxWorkspaceKnob;
  knob.set_finalized(true);
  return {knob};
}

bool SupportsNativeGraphs(const Computation& computation, int64_t index) {
  return !IsWinograd(computation, index);
}

std::vector<cudnnBackendNumericalNote_t> NotesOf(const Computation& computation, int64_t index) {
  for (const Computation& stage : computation.stages) {
    const auto notes = NotesOf(stage, 0);
    if (!notes.empty()) return notes;
  }
  if (!computation.convolution) return {};
  const ConvolutionShape& shape = computation.convolution->problem.shape;
  std::vector<cudnnBackendNumericalNote_t> notes;
  // Engine 0, implicit GEMM, is reported as nondeterministic for gradients. Engine 3 is implicit
  // GEMM, too, but sums in one order.
  if (index == 0 && !IsDeterministic(shape, 0))
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (IsWinograd(computation, index)) notes.push_back(CUDNN_NUMERICAL_NOTE_WINOGRAD);
  return notes;
}

}  // namespace hostgpu
