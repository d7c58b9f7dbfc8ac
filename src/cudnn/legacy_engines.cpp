#include "cudnn/legacy_engines.h"

#include <algorithm>
#include <map>
#include <set>

#include "convolution/engine_name.h"
#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

using Ranking = std::vector<AlgorithmPerformance>;

// Returns the math types with which `ranking` lists `algorithm`.
std::set<MathType> MathTypesOf(const Ranking& ranking, int algorithm) {
  std::set<MathType> types;
  for (const AlgorithmPerformance& ranked : ranking) {
    if (ranked.status != CUDNN_STATUS_SUCCESS || ranked.algorithm != algorithm) continue;
    types.insert(static_cast<MathType>(ranked.math));
  }
  return types;
}

// Descriptors of one problem with different math types. They never change, so pieces share them.
class DescriptorsByMath {
 public:
  DescriptorsByMath(const Functions& functions, const ConvolutionProblem& problem)
      : functions_(functions), problem_(problem) {}

  Result<std::shared_ptr<const OwnedDescriptors>> Of(MathType math) {
    std::shared_ptr<const OwnedDescriptors>& known = known_[math];
    if (known == nullptr) {
      problem_.math = math;
      auto made = std::make_shared<OwnedDescriptors>(functions_);
      UCUDNN_RETURN_IF_ERROR(made->Create(problem_));
      known = std::move(made);
    }
    return known;
  }

 private:
  const Functions& functions_;
  ConvolutionProblem problem_;
  std::map<MathType, std::shared_ptr<const OwnedDescriptors>> known_;
};

class LegacyPiece : public Piece {
 public:
  LegacyPiece(const Functions& functions, int algorithm, DataType type, size_t workspace_bytes,
              std::shared_ptr<const OwnedDescriptors> own)
      : functions_(functions),
        algorithm_(algorithm),
        type_(type),
        workspace_bytes_(workspace_bytes),
        own_(std::move(own)) {}

  cudnnStatus_t Run(const ConvolutionCall& call, bool adds) const override {
    const Descriptors& own = own_->get();
    Descriptors descriptors = call.descriptors;
    if (descriptors.w == nullptr) descriptors.w = own.w;
    if (descriptors.convolution == nullptr) descriptors.convolution = own.convolution;
    if (descriptors.x == nullptr) {
      descriptors.x = own.x;
      descriptors.y = own.y;
    }
    return Convolve(functions_, call, descriptors, algorithm_, adds ? OneOf(type_) : call.beta);
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

 private:
  const Functions& functions_;
  const int algorithm_;
  const DataType type_;
  const size_t workspace_bytes_;
  const std::shared_ptr<const OwnedDescriptors> own_;
};

// Lists the legacy engines of one part.
class LegacyList {
 public:
  LegacyList(const Functions& functions, cudnnHandle_t handle, const ConvolutionProblem& part)
      : functions_(functions), handle_(handle), part_(part), descriptors_(functions, part) {}

  Result<std::vector<ListedEngine>> Make() {
    UCUDNN_ASSIGN_OR_RETURN(const Ranking ranking, Rank(part_.math));
    std::map<MathType, Ranking> others;
    for (const AlgorithmPerformance& ranked : ranking) {
      if (ranked.status != CUDNN_STATUS_SUCCESS) continue;
      const std::set<MathType> types = MathTypesOf(ranking, ranked.algorithm);
      UCUDNN_ASSIGN_OR_RETURN(std::optional<EngineChoice> listed, ChoiceOf(ranked));
      // If the caller takes over the math type that the library's answer states, `listed` runs. If
      // the caller keeps the problem's own math type, `own` runs: the same algorithm with the
      // problem's math type. `listed` and `own` are both added, as one engine if they run alike.
      if (!types.contains(part_.math)) {
        AlgorithmPerformance as_asked = ranked;
        as_asked.math = static_cast<cudnnMathType_t>(part_.math);
        // The heuristics stated the workspace for the other math type, so it is not used here.
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
        UCUDNN_RETURN_IF_ERROR(Add(std::move(own)));
      }
      UCUDNN_RETURN_IF_ERROR(Add(std::move(listed)));
    }
    return std::move(all_);
  }

 private:
  Status Add(std::optional<EngineChoice> choice) {
    if (!choice) return Status::Ok();
    const bool known = std::any_of(all_.begin(), all_.end(), [&](const ListedEngine& other) {
      return other.choice.engine == choice->engine;
    });
    if (known) return Status::Ok();
    const EngineId::Legacy& engine = *choice->engine.legacy();
    UCUDNN_ASSIGN_OR_RETURN(auto own, descriptors_.Of(engine.math.value_or(part_.math)));
    auto piece = std::make_unique<LegacyPiece>(functions_, engine.algorithm, part_.type,
                                               choice->workspace_bytes, std::move(own));
    all_.push_back({std::move(*choice), std::move(piece)});
    return Status::Ok();
  }

  // Returns the heuristics' answer for a descriptor with `math`.
  Result<Ranking> Rank(MathType math) {
    Ranking ranking;
    UCUDNN_ASSIGN_OR_RETURN(const auto described, descriptors_.Of(math));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(
        functions_, RankAlgorithms(functions_, part_.operation, handle_, described->get(), ranking),
        "asking for algorithms"));
    return ranking;
  }

  // Returns the engine of this algorithm and math type; none if the library does not state its
  // workspace.
  Result<std::optional<EngineChoice>> ChoiceOf(const AlgorithmPerformance& ranked) {
    EngineId::Legacy engine{ranked.algorithm, std::nullopt};
    const auto math = static_cast<MathType>(ranked.math);
    if (math != part_.math) engine.math = math;
    // When the engine runs, cuDNN demands as much workspace as WorkspaceBytes states. The
    // heuristics may state less.
    size_t bytes = 0;
    UCUDNN_ASSIGN_OR_RETURN(const auto described, descriptors_.Of(math));
    if (WorkspaceBytes(functions_, part_.operation, handle_, described->get(), ranked.algorithm,
                       &bytes) != CUDNN_STATUS_SUCCESS) {
      return std::optional<EngineChoice>();
    }
    return std::optional<EngineChoice>({engine,
                                        LegacyNumericClass(part_.operation, ranked.algorithm),
                                        ranked.determinism == CUDNN_DETERMINISTIC,
                                        std::max(ranked.workspace_bytes, bytes),
                                        {}});
  }

  // `types` are the math types with which the library lists the algorithm for a descriptor with the
  // problem's math type. Returns true if `types` is a single type and the library lists the
  // algorithm only with this type for the math type of `listed`, too. `others` caches the library's
  // answers by math type.
  Result<bool> RunsAlike(const AlgorithmPerformance& listed, const std::set<MathType>& types,
                         std::map<MathType, Ranking>& others) {
    if (types.size() != 1) return false;
    const auto [other, fresh] = others.try_emplace(static_cast<MathType>(listed.math));
    if (fresh) {
      UCUDNN_ASSIGN_OR_RETURN(other->second, Rank(other->first));
    }
    return MathTypesOf(other->second, listed.algorithm) == types;
  }

  const Functions& functions_;
  const cudnnHandle_t handle_;
  const ConvolutionProblem part_;
  DescriptorsByMath descriptors_;
  std::vector<ListedEngine> all_;
};

}  // namespace

AlgorithmPerformance PerformanceOf(const MicroConfiguration& micro, MathType math) {
  AlgorithmPerformance performance;
  performance.algorithm = micro.engine.legacy()->algorithm;
  performance.time_ms = static_cast<float>(micro.time_ms);
  performance.workspace_bytes = micro.workspace_bytes;
  performance.determinism = micro.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  performance.math = static_cast<cudnnMathType_t>(math);
  return performance;
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

Result<std::vector<ListedEngine>> LegacyEngines::List(const ConvolutionProblem& part) {
  return LegacyList(functions_, handle_, part).Make();
}

Result<std::unique_ptr<Piece>> LegacyEngines::MakePiece(const ConvolutionProblem& part,
                                                        const EngineId& engine, const PieceScales&,
                                                        size_t workspace_bytes) {
  const EngineId::Legacy* const legacy = engine.legacy();
  if (legacy == nullptr) return Status::Error("'" + engine.Text() + "' is no legacy engine");
  auto own = std::make_shared<OwnedDescriptors>(functions_);
  UCUDNN_RETURN_IF_ERROR(own->Create(part));
  return std::unique_ptr<Piece>(
      new LegacyPiece(functions_, legacy->algorithm, part.type, workspace_bytes, std::move(own)));
}

}  // namespace ucudnn::cudnn
