#include "spatial/small_convolution.h"

#include <algorithm>
#include <vector>

#include "cudnn/legacy_engines.h"

namespace ucudnn::spatial {

Result<std::unique_ptr<SmallConvolution>> SmallConvolution::Make(const cudnn::Functions& functions,
                                                                 cudnnHandle_t handle,
                                                                 const ConvolutionProblem& problem,
                                                                 const EngineDemand& demand) {
  std::unique_ptr<SmallConvolution> made(new SmallConvolution(functions, problem));
  UCUDNN_RETURN_IF_ERROR(made->descriptors_.Create(problem));
  UCUDNN_RETURN_IF_ERROR(made->ChooseEngine(handle, demand));
  return made;
}

bool SmallConvolution::Takes(cudnnHandle_t handle, const cudnn::AlgorithmPerformance& entry,
                             const EngineDemand& demand) {
  const bool serves =
      entry.status == CUDNN_STATUS_SUCCESS &&
      (!demand.deterministic || entry.determinism == CUDNN_DETERMINISTIC) &&
      cudnn::LegacyNumericClass(problem_.operation, entry.algorithm) == NumericClass::kDirect;
  size_t bytes = 0;
  if (!serves ||
      cudnn::WorkspaceBytes(functions_, problem_.operation, handle, descriptors_.get(),
                            entry.algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
      bytes > demand.most_workspace_bytes) {
    return false;
  }
  algorithm_ = entry.algorithm;
  workspace_bytes_ = bytes;
  return true;
}

Status SmallConvolution::ChooseEngine(cudnnHandle_t handle, const EngineDemand& demand) {
  std::vector<cudnn::AlgorithmPerformance> ranking;
  const cudnnStatus_t ranked =
      cudnn::RankAlgorithms(functions_, problem_.operation, handle, descriptors_.get(), ranking);
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions_, ranked, "ranking algorithms"));
  // The library may list an algorithm under other math types than the descriptor's; it runs in the
  // descriptor's all the same.
  const auto math = static_cast<cudnnMathType_t>(problem_.math);
  std::stable_partition(ranking.begin(), ranking.end(),
                        [&](const auto& entry) { return entry.math == math; });
  const auto is_precomputed = [](const cudnn::AlgorithmPerformance& entry) {
    return entry.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  };
  if (demand.is_fused) std::stable_partition(ranking.begin(), ranking.end(), is_precomputed);
  for (const cudnn::AlgorithmPerformance& entry : ranking) {
    if (demand.is_identity && !is_precomputed(entry)) break;
    if (Takes(handle, entry, demand)) return Status::Ok();
  }
  return Status::Error("no engine of the library adds what a halo contributes: " +
                       Describe(problem_));
}

cudnnStatus_t SmallConvolution::Run(const cudnn::ConvolutionCall& call) const {
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

}  // namespace ucudnn::spatial
