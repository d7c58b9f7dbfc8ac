#include "spatial/small_convolution.h"

#include <algorithm>
#include <vector>

#include "convolution/engine_name.h"
#include "cudnn/descriptors.h"

namespace ucudnn::spatial {
namespace {

Status NoneServes(const ConvolutionProblem& problem) {
  return Status::Error("no engine of the library adds what a halo contributes: " +
                       Describe(problem));
}

class LegacyConvolution : public SmallConvolution {
 public:
  LegacyConvolution(const cudnn::Functions& functions, const ConvolutionProblem& problem)
      : SmallConvolution(problem), functions_(functions), descriptors_(functions) {}
  Status Create(cudnnHandle_t handle, const EngineDemand& demand) {
    UCUDNN_RETURN_IF_ERROR(descriptors_.Create(problem_));
    return ChooseEngine(handle, demand);
  }
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) const override;

 private:
  // Chooses the algorithm of `entry` and returns true if the algorithm meets the demand and needs
  // at most `most_bytes` of workspace; otherwise returns false.
  bool Takes(cudnnHandle_t handle, const cudnn::AlgorithmPerformance& entry,
             const EngineDemand& demand, size_t most_bytes);
  Status ChooseEngine(cudnnHandle_t handle, const EngineDemand& demand);

  const cudnn::Functions& functions_;
  cudnn::OwnedDescriptors descriptors_;
  int algorithm_ = 0;
};

bool LegacyConvolution::Takes(cudnnHandle_t handle, const cudnn::AlgorithmPerformance& entry,
                              const EngineDemand& demand, size_t most_bytes) {
  const bool serves =
      entry.status == CUDNN_STATUS_SUCCESS &&
      (!demand.deterministic || entry.determinism == CUDNN_DETERMINISTIC) &&
      LegacyNumericClass(problem_.operation, entry.algorithm) == NumericClass::kDirect;
  size_t bytes = 0;
  if (!serves ||
      cudnn::WorkspaceBytes(functions_, problem_.operation, handle, descriptors_.get(),
                            entry.algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
      bytes > most_bytes) {
    return false;
  }
  algorithm_ = entry.algorithm;
  workspace_bytes_ = bytes;
  return true;
}

Status LegacyConvolution::ChooseEngine(cudnnHandle_t handle, const EngineDemand& demand) {
  std::vector<cudnn::AlgorithmPerformance> ranking;
  const cudnnStatus_t ranked =
      cudnn::RankAlgorithms(functions_, problem_.operation, handle, descriptors_.get(), ranking);
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions_, ranked, "ranking algorithms"));
  // Entries with the descriptor's math type come first. The library may list algorithms under other
  // math types, too, but runs all of them with the descriptor's math type.
  const auto math = static_cast<cudnnMathType_t>(problem_.math);
  std::stable_partition(ranking.begin(), ranking.end(),
                        [&](const auto& entry) { return entry.math == math; });
  const auto is_precomputed = [](const cudnn::AlgorithmPerformance& entry) {
    return entry.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  };
  if (demand.is_fused) std::stable_partition(ranking.begin(), ranking.end(), is_precomputed);
  const size_t preferred = std::min(demand.preferred_workspace_bytes, demand.most_workspace_bytes);
  for (const size_t most_bytes : {preferred, demand.most_workspace_bytes}) {
    for (const cudnn::AlgorithmPerformance& entry : ranking) {
      if (demand.is_identity && !is_precomputed(entry)) break;
      if (Takes(handle, entry, demand, most_bytes)) return Status::Ok();
    }
  }
  return NoneServes(problem_);
}

cudnnStatus_t LegacyConvolution::Run(const cudnn::ConvolutionCall& call) const {
  cudnn::ConvolutionCall mine = call;
  mine.operation = problem_.operation;
  mine.descriptors = descriptors_.get();
  mine.algorithm = algorithm_;
  mine.workspace_bytes = workspace_bytes_;
  if (workspace_bytes_ == 0) mine.workspace = nullptr;
  if (call.bias == nullptr) return cudnn::Convolve(functions_, mine);
  cudnn::BiasActivation bias = *call.bias;
  bias.z_descriptor = descriptors_.get().y;
  mine.bias = &bias;
  return cudnn::Convolve(functions_, mine);
}

// An execution plan with fused operations, built again for other extents.
class PlanConvolution : public SmallConvolution {
 public:
  explicit PlanConvolution(const ConvolutionProblem& problem) : SmallConvolution(problem) {}
  Status Create(const cudnn::Functions& functions, cudnnHandle_t handle,
                const EngineDemand& demand);
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) const override {
    return piece_->Run(call, false);
  }

 private:
  Status Take(const cudnn::Functions& functions, cudnnHandle_t handle,
              const cudnn::GraphTemplate& plan, const EngineDemand& demand);

  std::unique_ptr<cudnn::Piece> piece_;
};

Status PlanConvolution::Take(const cudnn::Functions& functions, cudnnHandle_t handle,
                             const cudnn::GraphTemplate& plan, const EngineDemand& demand) {
  if (demand.deterministic && !plan.deterministic) return Status::Error("not deterministic");
  for (const cudnn::FusedOperand& operand : plan.convolution.operands) {
    if (operand.differs_by_place()) return Status::Error("an operand is not cut with the rows");
  }
  cudnn::GraphEngines engines(functions, {handle, nullptr}, {&plan});
  ConvolutionProblem part = plan.convolution.problem;
  part.n = problem_.n;
  part.x = problem_.x;
  part.pad = problem_.pad;
  part.x_strides = problem_.x_strides;
  part.y_strides = problem_.y_strides;
  UCUDNN_ASSIGN_OR_RETURN(
      piece_, engines.MakePiece(part, plan.convolution.engine, {}, demand.most_workspace_bytes));
  workspace_bytes_ = piece_->workspace_bytes();
  return Status::Ok();
}

Status PlanConvolution::Create(const cudnn::Functions& functions, cudnnHandle_t handle,
                               const EngineDemand& demand) {
  constexpr int kMostEngines = 128;
  const cudnn::GraphTemplate& own = *demand.fused_plan;
  const Status taken = Take(functions, handle, own, demand);
  if (taken.ok()) return taken;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    const auto other = cudnn::WithOtherEngine(functions, {handle, nullptr}, own,
                                              "graph:" + std::to_string(engine));
    if (!other.ok() || !cudnn::MayReplace(*other, own)) continue;
    if (Take(functions, handle, *other, demand).ok()) return Status::Ok();
  }
  return Status::Error(NoneServes(problem_).message() + " (its own: " + taken.message() + ")");
}

}  // namespace

Result<std::unique_ptr<SmallConvolution>> SmallConvolution::Make(const cudnn::Functions& functions,
                                                                 cudnnHandle_t handle,
                                                                 const ConvolutionProblem& problem,
                                                                 const EngineDemand& demand) {
  if (demand.fused_plan != nullptr) {
    auto made = std::make_unique<PlanConvolution>(problem);
    UCUDNN_RETURN_IF_ERROR(made->Create(functions, handle, demand));
    return std::unique_ptr<SmallConvolution>(std::move(made));
  }
  auto made = std::make_unique<LegacyConvolution>(functions, problem);
  UCUDNN_RETURN_IF_ERROR(made->Create(handle, demand));
  return std::unique_ptr<SmallConvolution>(std::move(made));
}

}  // namespace ucudnn::spatial
