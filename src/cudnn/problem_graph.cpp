#include "cudnn/problem_graph.h"

#include <algorithm>
#include <utility>

#include "cudnn/graph_parts.h"

namespace ucudnn::cudnn {
namespace {

// The most choices of the heuristics that are tried. The number is large because MayServe may
// refuse many choices.
constexpr int64_t kLookedAt = 16;
constexpr int64_t kUidX = 1, kUidW = 2, kUidY = 3;

struct TensorShape {
  int64_t images;  // number of images; for a filter, of output channels
  int64_t channels;
  Spatial extents;
  Strides strides;
};

Result<BackendDescriptor> Tensor(const Functions& functions, const ConvolutionProblem& problem,
                                 int64_t uid, const TensorShape& shape) {
  TensorParts parts{uid, problem.type, Axes(problem, shape.extents), {}, problem.alignment};
  parts.dims.insert(parts.dims.begin(), {shape.images, shape.channels});
  parts.strides = {shape.strides.end() - problem.spatial_rank, shape.strides.end()};
  parts.strides.insert(parts.strides.begin(), {shape.strides[0], shape.strides[1]});
  return MakeTensor(functions, parts);
}

// Describes y = conv(x, w), or one of its gradients.
Result<BackendDescriptor> DescribeOperation(const Functions& functions,
                                            const ConvolutionProblem& problem) {
  const int64_t filter_channels = problem.c / problem.groups;
  UCUDNN_ASSIGN_OR_RETURN(
      const BackendDescriptor x,
      Tensor(functions, problem, kUidX, {problem.n, problem.c, problem.x, problem.x_strides}));
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor w,
                          Tensor(functions, problem, kUidW,
                                 {problem.k, filter_channels, problem.w,
                                  PackedStrides(problem.layout, filter_channels, problem.w)}));
  UCUDNN_ASSIGN_OR_RETURN(
      const BackendDescriptor y,
      Tensor(functions, problem, kUidY,
             {problem.n, problem.k, OutputExtents(problem), problem.y_strides}));
  return MakeConvolution(functions, problem, x.get(), w.get(), y.get(), {});
}

bool MayShow(int numerical_note, const ConvolutionProblem& problem) {
  switch (static_cast<cudnnBackendNumericalNote_t>(numerical_note)) {
    // These notes do not exclude an engine here, because planning considers them: they become the
    // engine's numeric class and determinism.
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return problem.type == DataType::kFloat
                 ? problem.math == MathType::kTensorOp ||
                       problem.math == MathType::kTensorOpAllowConversion
                 : problem.math != MathType::kFma;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return problem.math == MathType::kTensorOpAllowConversion;
    default:
      return false;
  }
}

bool MayBehave(int behavior_note) {
  return behavior_note == CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API ||
         behavior_note == CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY;
}

}  // namespace

bool MayServe(const EngineNotes& notes, const ConvolutionProblem& problem) {
  return std::all_of(notes.numerical.begin(), notes.numerical.end(),
                     [&](int note) { return MayShow(note, problem); }) &&
         std::all_of(notes.behavior.begin(), notes.behavior.end(), MayBehave);
}

Result<ProblemGraph> ProblemGraph::Create(const Functions& functions, const PlanDevice& device,
                                          const ConvolutionProblem& problem) {
  ProblemGraph created(functions, device, problem);
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor operation, DescribeOperation(functions, problem));
  const cudnnBackendDescriptor_t operations[] = {operation.get()};
  UCUDNN_ASSIGN_OR_RETURN(created.graph_, MakeGraph(functions, device, operations));
  return created;
}

Result<GraphTemplate> ProblemGraph::TemplateOf(cudnnBackendDescriptor_t configuration) const {
  // Notes are read before the plan is built, because building may take long.
  UCUDNN_ASSIGN_OR_RETURN(const EngineNotes notes, ConfigurationNotes(*functions_, configuration));
  if (!MayServe(notes, problem_))
    return Status::Error("an engine of other arithmetic or behaviour");
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor plan,
                          MakePlan(*functions_, device_, configuration));
  UCUDNN_ASSIGN_OR_RETURN(GraphTemplate read, ReadTemplate(*functions_, plan.get()));
  // The graph API has no math type. MayServe has checked the engine against the caller's math type.
  read.convolution.problem.math = problem_.math;
  if (read.convolution.problem != problem_) {
    return Status::Error("the graph of " + Describe(problem_) + " reads back as " +
                         Describe(read.convolution.problem));
  }
  read.callers_beta = true;
  return read;
}

std::vector<GraphTemplate> ProblemGraph::Heuristics(size_t most,
                                                    const std::function<bool()>& in_time) const {
  std::vector<GraphTemplate> best;
  for (const BackendDescriptor& configuration :
       ChosenConfigurations(*functions_, device_, graph_.get(), kLookedAt)) {
    if (best.size() == most || (!best.empty() && !in_time())) break;
    auto read = TemplateOf(configuration.get());
    if (read.ok()) best.push_back(std::move(*read));
  }
  return best;
}

Result<GraphTemplate> ProblemGraph::Named(const EngineId& engine) const {
  const EngineId::Graph* const named = engine.graph();
  if (named == nullptr || !named->fusion.empty()) {
    return Status::Error("'" + engine.Text() + "' is no engine of an unfused graph");
  }
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor configuration,
                          MakeConfiguration(*functions_, device_, graph_.get(), *named));
  UCUDNN_ASSIGN_OR_RETURN(GraphTemplate read, TemplateOf(configuration.get()));
  if (read.convolution.engine != engine) {
    return Status::Error("'" + engine.Text() + "' reads back as " + read.convolution.engine.Text());
  }
  return read;
}

}  // namespace ucudnn::cudnn
