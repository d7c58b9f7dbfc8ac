#include "cudnn/legacy_engines.h"

#include <algorithm>
#include <map>
#include <set>

#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

using Ranking = std::vector<AlgorithmPerformance>;

constexpr float kOneFloat = 1, kZeroFloat = 0;
constexpr double kOneDouble = 1, kZeroDouble = 0;

// With which math types the library says that it runs `algorithm`.
std::set<MathType> MathTypesOf(const Ranking& ranking, int algorithm) {
  std::set<MathType> types;
  for (const AlgorithmPerformance& ranked : ranking) {
    if (ranked.status != CUDNN_STATUS_SUCCESS || ranked.algorithm != algorithm) continue;
    types.insert(static_cast<MathType>(ranked.math));
  }
  return types;
}

Status NoLegacyEngine(const EngineId& engine) {
  return Status::Error("'" + engine.Text() + "' is no legacy engine");
}

class PreparedLegacyProblem : public PreparedProblem {
 public:
  PreparedLegacyProblem(const Functions& functions, cudnnHandle_t handle,
                        const ConvolutionProblem& problem, OwnedDescriptors descriptors)
      : functions_(functions),
        handle_(handle),
        problem_(problem),
        descriptors_(std::move(descriptors)) {}

  Result<std::vector<EngineChoice>> Engines() override {
    UCUDNN_ASSIGN_OR_RETURN(const Ranking ranking, Rank(problem_.math));
    std::map<MathType, Ranking> others;
    std::vector<EngineChoice> choices;
    for (const AlgorithmPerformance& ranked : ranking) {
      if (ranked.status != CUDNN_STATUS_SUCCESS) continue;
      const std::set<MathType> types = MathTypesOf(ranking, ranked.algorithm);
      UCUDNN_ASSIGN_OR_RETURN(std::optional<EngineChoice> listed, ChoiceOf(ranked));
      // Callers who set the math type that they were told run `listed`, the others their own.
      if (!types.contains(problem_.math)) {
        AlgorithmPerformance as_asked = ranked;
        as_asked.math = static_cast<cudnnMathType_t>(problem_.math);
        // What the heuristics say is of the other math type.
        as_asked.workspace_bytes = 0;
        UCUDNN_ASSIGN_OR_RETURN(std::optional<EngineChoice> own, ChoiceOf(as_asked));
        if (own && listed) {
          UCUDNN_ASSIGN_OR_RETURN(const bool same, RunsAlike(ranked, types, others));
          if (same) {
            own->workspace_bytes = std::max(own->workspace_bytes, listed->workspace_bytes);
            own->twin = listed->engine;
            listed.reset();
          }
        }
        Add(std::move(own), choices);
      }
      Add(std::move(listed), choices);
    }
    return choices;
  }

  Status Run(const EngineChoice& choice, const Buffers& buffers) override {
    const EngineId::Legacy* const engine = choice.engine.legacy();
    if (engine == nullptr) return NoLegacyEngine(choice.engine);
    UCUDNN_RETURN_IF_ERROR(UseMath(engine->math.value_or(problem_.math)));
    const bool wide = problem_.type == DataType::kDouble;
    ConvolutionCall call;
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
  static void Add(std::optional<EngineChoice> choice, std::vector<EngineChoice>& choices) {
    if (!choice) return;
    const bool known = std::any_of(choices.begin(), choices.end(), [&](const EngineChoice& other) {
      return other.engine == choice->engine;
    });
    if (!known) choices.push_back(std::move(*choice));
  }

  // The library's answer to a descriptor with `math`.
  Result<Ranking> Rank(MathType math) {
    Ranking ranking;
    UCUDNN_RETURN_IF_ERROR(UseMath(math));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(
        functions_,
        RankAlgorithms(functions_, problem_.operation, handle_, descriptors_.get(), ranking),
        "asking for algorithms"));
    return ranking;
  }

  // The engine of that algorithm and math type; none where the library does not tell its workspace.
  Result<std::optional<EngineChoice>> ChoiceOf(const AlgorithmPerformance& ranked) {
    EngineId::Legacy engine{ranked.algorithm, std::nullopt};
    const auto math = static_cast<MathType>(ranked.math);
    if (math != problem_.math) engine.math = math;
    // The size that execution checks, not only the heuristic's.
    size_t bytes = 0;
    UCUDNN_RETURN_IF_ERROR(UseMath(math));
    if (WorkspaceBytes(functions_, problem_.operation, handle_, descriptors_.get(),
                       ranked.algorithm, &bytes) != CUDNN_STATUS_SUCCESS) {
      return std::optional<EngineChoice>();
    }
    return std::optional<EngineChoice>({engine,
                                        LegacyNumericClass(problem_.operation, ranked.algorithm),
                                        ranked.determinism == CUDNN_DETERMINISTIC,
                                        std::max(ranked.workspace_bytes, bytes),
                                        {}});
  }

  // Whether the library says the same of the algorithm, `types`, to a descriptor with the problem's
  // math type and to one with the math type that it lists. `others`: its answers to the latter.
  Result<bool> RunsAlike(const AlgorithmPerformance& listed, const std::set<MathType>& types,
                         std::map<MathType, Ranking>& others) {
    if (types.size() != 1) return false;
    const auto [other, fresh] = others.try_emplace(static_cast<MathType>(listed.math));
    if (fresh) {
      UCUDNN_ASSIGN_OR_RETURN(other->second, Rank(other->first));
    }
    return MathTypesOf(other->second, listed.algorithm) == types;
  }

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
  // `tensors` without descriptors stand for the call's own.
  LegacyPiece(const Functions& functions, int algorithm, bool wide, OwnedDescriptors tensors)
      : functions_(functions), algorithm_(algorithm), wide_(wide), tensors_(std::move(tensors)) {}

  cudnnStatus_t Run(const ConvolutionCall& call, bool accumulate) const override {
    ConvolutionCall piece = call;
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

NumericClass LegacyNumericClass(Operation operation, int algorithm) {
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

AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math) {
  AlgorithmPerformance performance;
  performance.algorithm = micro.engine.legacy()->algorithm;
  performance.time_ms = static_cast<float>(micro.time_ms);
  performance.workspace_bytes = micro.workspace_bytes;
  performance.determinism = micro.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  performance.math = static_cast<cudnnMathType_t>(math);
  return performance;
}

std::vector<MathGroup> GroupByMath(const ConvolutionProblem& problem,
                                   const std::vector<MicroConfiguration>& measured) {
  std::vector<MathGroup> groups;
  for (const MicroConfiguration& micro : measured) {
    const EngineId::Legacy* const engine = micro.engine.legacy();
    if (engine == nullptr) continue;
    const MathType math = engine->math.value_or(problem.math);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const MathGroup& other) { return other.math == math; });
    if (group == groups.end()) group = groups.insert(groups.end(), {math, {}});
    planning::Candidate candidate{micro, LegacyNumericClass(problem.operation, engine->algorithm)};
    candidate.micro.engine = EngineId::Legacy{engine->algorithm, std::nullopt};
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

std::optional<size_t> LegacyNeeds::Of(int images, const EngineId& engine) {
  const EngineId::Legacy* const named = engine.legacy();
  if (named == nullptr) return std::nullopt;
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
  const EngineId::Legacy* const engine = micro.engine.legacy();
  if (engine == nullptr) return NoLegacyEngine(micro.engine);
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
