#include "cudnn/legacy_engines.h"

#include <algorithm>
#include <cstdio>

#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

constexpr float kOneFloat = 1, kZeroFloat = 0;
constexpr double kOneDouble = 1, kZeroDouble = 0;

class PreparedLegacyProblem : public PreparedProblem {
 public:
  PreparedLegacyProblem(const Functions& functions, cudnnHandle_t handle,
                        const ConvolutionProblem& problem, OwnedDescriptors descriptors)
      : functions_(functions),
        handle_(handle),
        problem_(problem),
        descriptors_(std::move(descriptors)) {}

  Result<std::vector<EngineChoice>> Engines() override {
    std::vector<AlgorithmPerformance> ranking;
    UCUDNN_RETURN_IF_ERROR(UseMath(problem_.math));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(
        functions_,
        RankAlgorithms(functions_, problem_.operation, handle_, descriptors_.get(), ranking),
        "asking for algorithms"));
    std::vector<EngineChoice> choices;
    for (const AlgorithmPerformance& ranked : ranking) {
      if (ranked.status != CUDNN_STATUS_SUCCESS) continue;
      LegacyEngine engine{ranked.algorithm, std::nullopt};
      const auto math = static_cast<MathType>(ranked.math);
      if (math != problem_.math) engine.math = math;
      EngineChoice choice{LegacyEngineName(engine),
                          LegacyNumericClass(problem_.operation, ranked.algorithm),
                          ranked.determinism == CUDNN_DETERMINISTIC, ranked.workspace_bytes};
      const bool known = std::any_of(choices.begin(), choices.end(), [&](const EngineChoice& c) {
        return c.engine == choice.engine;
      });
      if (known) continue;
      // The size that execution checks, not only the heuristic's.
      size_t bytes = 0;
      UCUDNN_RETURN_IF_ERROR(UseMath(math));
      if (WorkspaceBytes(functions_, problem_.operation, handle_, descriptors_.get(),
                         ranked.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
        continue;
      }
      choice.workspace_bytes = std::max(choice.workspace_bytes, bytes);
      choices.push_back(std::move(choice));
    }
    return choices;
  }

  Status Run(const EngineChoice& choice, const Buffers& buffers) override {
    const std::optional<LegacyEngine> engine = ParseLegacyEngine(choice.engine);
    if (!engine) return Status::Error("'" + choice.engine + "' is no legacy engine");
    UCUDNN_RETURN_IF_ERROR(UseMath(engine->math.value_or(problem_.math)));
    const bool wide = problem_.type == DataType::kDouble;
    LegacyCall call;
    call.operation = problem_.operation;
    call.handle = handle_;
    call.descriptors = descriptors_.get();
    const void* const one = wide ? static_cast<const void*>(&kOneDouble) : &kOneFloat;
    const void* const zero = wide ? static_cast<const void*>(&kZeroDouble) : &kZeroFloat;
    call.alpha = one;
    call.beta = buffers.accumulate ? one : zero;
    call.x = buffers.x;
    call.w = buffers.w;
    call.y = buffers.y;
    call.algorithm = engine->algorithm;
    call.workspace = buffers.workspace;
    call.workspace_bytes = buffers.workspace_bytes;
    return CudnnStatus(functions_, Convolve(functions_, call), "running an engine");
  }

 private:
  Status UseMath(MathType math) {
    return CudnnStatus(functions_,
                       functions_.cudnnSetConvolutionMathType(descriptors_.get().convolution,
                                                              static_cast<cudnnMathType_t>(math)),
                       "setting the math type");
  }

  const Functions& functions_;
  cudnnHandle_t handle_;
  ConvolutionProblem problem_;
  OwnedDescriptors descriptors_;
};

class LegacyPiece : public Piece {
 public:
  // `tensors` without descriptors: the call's own.
  LegacyPiece(const Functions& functions, int algorithm, bool wide, OwnedDescriptors tensors)
      : functions_(functions), algorithm_(algorithm), wide_(wide), tensors_(std::move(tensors)) {}

  cudnnStatus_t Run(const LegacyCall& call, bool accumulate) const override {
    LegacyCall piece = call;
    piece.algorithm = algorithm_;
    if (accumulate) piece.beta = wide_ ? static_cast<const void*>(&kOneDouble) : &kOneFloat;
    const Descriptors& own = tensors_.get();
    if (own.x == nullptr) return Convolve(functions_, piece);
    piece.descriptors.x = own.x;
    piece.descriptors.y = own.y;
    if (call.bias == nullptr) return Convolve(functions_, piece);
    BiasActivation bias = *call.bias;
    bias.z_descriptor = own.y;
    piece.bias = &bias;
    return Convolve(functions_, piece);
  }

 private:
  const Functions& functions_;
  const int algorithm_;
  const bool wide_;
  const OwnedDescriptors tensors_;
};

}  // namespace

std::string LegacyEngineName(const LegacyEngine& engine) {
  std::string name = "legacy:" + std::to_string(engine.algorithm);
  if (engine.math) name += "[math=" + std::to_string(static_cast<int>(*engine.math)) + "]";
  return name;
}

std::optional<LegacyEngine> ParseLegacyEngine(const std::string& text) {
  int algorithm = 0, math = 0, end = 0;
  if (std::sscanf(text.c_str(), "legacy:%2d%n[math=%1d]%n", &algorithm, &end, &math, &end) < 1) {
    return std::nullopt;
  }
  LegacyEngine engine{algorithm, std::nullopt};
  if (text.find('[') != std::string::npos) engine.math = static_cast<MathType>(math);
  // Only what LegacyEngineName writes is a legacy engine.
  if (LegacyEngineName(engine) != text || algorithm < 0 ||
      math > static_cast<int>(MathType::kFma)) {
    return std::nullopt;
  }
  return engine;
}

planning::NumericClass LegacyNumericClass(Operation operation, int algorithm) {
  using planning::NumericClass;
  switch (operation) {
    case Operation::kForward:
      switch (algorithm) {
        case CUDNN_CONVOLUTION_FWD_ALGO_FFT:
        case CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING:
          return NumericClass::kFft;
        case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD:
        case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED:
          return NumericClass::kWinograd;
      }
      break;
    case Operation::kBackwardData:
      switch (algorithm) {
        case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT:
        case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING:
          return NumericClass::kFft;
        case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD:
        case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED:
          return NumericClass::kWinograd;
      }
      break;
    case Operation::kBackwardFilter:
      switch (algorithm) {
        case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT:
        case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING:
          return NumericClass::kFft;
        case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD:
        case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED:
          return NumericClass::kWinograd;
      }
      break;
  }
  return NumericClass::kDirect;
}

std::vector<MathGroup> GroupByMath(const ConvolutionProblem& problem,
                                   const std::vector<MicroConfiguration>& measured) {
  std::vector<MathGroup> groups;
  for (const MicroConfiguration& micro : measured) {
    const std::optional<LegacyEngine> engine = ParseLegacyEngine(micro.engine);
    if (!engine) continue;
    const MathType math = engine->math.value_or(problem.math);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const MathGroup& other) { return other.math == math; });
    if (group == groups.end()) group = groups.insert(groups.end(), {math, {}});
    planning::Candidate candidate{micro, LegacyNumericClass(problem.operation, engine->algorithm)};
    candidate.micro.engine = LegacyEngineName({engine->algorithm, std::nullopt});
    group->candidates.push_back(std::move(candidate));
  }
  return groups;
}

std::vector<planning::Candidate> OwnMathCandidates(
    const ConvolutionProblem& problem, const std::vector<MicroConfiguration>& measured) {
  for (MathGroup& group : GroupByMath(problem, measured)) {
    if (group.math == problem.math) return std::move(group.candidates);
  }
  return {};
}

std::optional<size_t> LegacyNeeds::Of(int images, const std::string& engine) {
  const std::optional<LegacyEngine> named = ParseLegacyEngine(engine);
  if (!named) return std::nullopt;
  const MathType math = named->math.value_or(problem_.math);
  if (!descriptors_ || problem_.n != images) {
    problem_.n = images;
    descriptors_.emplace(functions_);
    if (!descriptors_->Create(problem_).ok()) {
      descriptors_.reset();
      return std::nullopt;
    }
  }
  if (functions_.cudnnSetConvolutionMathType(descriptors_->get().convolution,
                                             static_cast<cudnnMathType_t>(math)) !=
      CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  size_t bytes = 0;
  const cudnnStatus_t status = WorkspaceBytes(functions_, problem_.operation, handle_,
                                              descriptors_->get(), named->algorithm, &bytes);
  if (status == CUDNN_STATUS_SUCCESS) return bytes;
  if (status == CUDNN_STATUS_NOT_SUPPORTED) return kNeverServes;
  return std::nullopt;
}

Result<std::unique_ptr<PreparedProblem>> LegacyEngines::Prepare(const ConvolutionProblem& problem) {
  OwnedDescriptors descriptors(functions_);
  UCUDNN_RETURN_IF_ERROR(descriptors.Create(problem));
  return std::unique_ptr<PreparedProblem>(
      new PreparedLegacyProblem(functions_, handle_, problem, std::move(descriptors)));
}

Result<std::unique_ptr<Piece>> LegacyEngines::MakePiece(const ConvolutionProblem& problem,
                                                        const MicroConfiguration& micro) {
  const std::optional<LegacyEngine> engine = ParseLegacyEngine(micro.engine);
  if (!engine) return Status::Error("'" + micro.engine + "' is no legacy engine");
  OwnedDescriptors tensors(functions_);
  if (micro.micro_batch != problem.n) {
    ConvolutionProblem piece = problem;
    piece.n = micro.micro_batch;
    UCUDNN_RETURN_IF_ERROR(tensors.CreateTensors(piece));
  }
  return std::unique_ptr<Piece>(new LegacyPiece(
      functions_, engine->algorithm, problem.type == DataType::kDouble, std::move(tensors)));
}

}  // namespace ucudnn::cudnn
