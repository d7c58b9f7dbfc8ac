// Every cudnnGetConvolution*Algorithm*, cudnnFindConvolution* and *WorkspaceSize function. The same
// few bodies serve three operations, whose enumerations and result structs differ only in their
// names.
#include <algorithm>
#include <utility>
#include <vector>

#include "shim/host/cudnn/device_buffer.h"
#include "shim/host/cudnn/ranking.h"
#include "shim/host/hostgpu.h"

using namespace hostgpu;

namespace {

struct Descriptors {
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  cudnnTensorDescriptor_t y;
};

cudnnStatus_t CheckQuery(cudnnHandle_t handle) {
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(hostgpuFaultDue("query"), CUDNN_STATUS_ALLOC_FAILED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t MaxCount(cudnnHandle_t handle, Operation operation, int* count) {
  if (auto status = CheckQuery(handle)) return status;
  HOSTGPU_REFUSE_IF(count == nullptr, CUDNN_STATUS_BAD_PARAM);
  *count = AlgorithmCount(operation);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t WorkspaceSize(cudnnHandle_t handle, Operation operation,
                            const Descriptors& descriptors, int algorithm, size_t* bytes) {
  return Protect([&] {
    if (auto status = CheckQuery(handle)) return status;
    HOSTGPU_REFUSE_IF(bytes == nullptr, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = Describe(operation, descriptors.x, descriptors.w, descriptors.convolution,
                               descriptors.y, &problem)) {
      return status;
    }
    return RequiredWorkspace(problem, algorithm, bytes);
  });
}

// The caller's array for a query's answer.
template <class Perf>
struct PerformanceList {
  int requested;
  int* returned;
  Perf* results;
};
template <class Perf>
PerformanceList(int, int*, Perf*) -> PerformanceList<Perf>;

template <class Perf>
void Give(const std::vector<RankedAlgorithm>& ranked, const Problem& problem,
          const PerformanceList<Perf>& answer) {
  const int count = std::min<int>(answer.requested, static_cast<int>(ranked.size()));
  for (int i = 0; i < count; ++i) {
    Perf perf{};
    perf.algo = static_cast<decltype(perf.algo)>(ranked[i].algorithm);
    perf.status = ranked[i].status;
    perf.time = ranked[i].time_ms;
    perf.memory = ranked[i].memory;
    perf.determinism = ranked[i].deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    perf.mathType = problem.math_type;
    answer.results[i] = perf;
  }
  *answer.returned = count;
}

// Answers a query; rank(problem, &ranked) fills in the ranking.
template <class Perf, class Rank>
cudnnStatus_t Query(cudnnHandle_t handle, Operation operation, const Descriptors& descriptors,
                    const PerformanceList<Perf>& answer, const Rank& rank) {
  return Protect([&] {
    if (auto status = CheckQuery(handle)) return status;
    HOSTGPU_REFUSE_IF(answer.returned == nullptr || answer.results == nullptr,
                      CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(answer.requested < 1, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = Describe(operation, descriptors.x, descriptors.w, descriptors.convolution,
                               descriptors.y, &problem)) {
      return status;
    }
    std::vector<RankedAlgorithm> ranked;
    if (cudnnStatus_t status = rank(problem, &ranked)) return status;
    Give(ranked, problem, answer);
    return CUDNN_STATUS_SUCCESS;
  });
}

template <class Perf>
cudnnStatus_t GetV7(cudnnHandle_t handle, Operation operation, const Descriptors& descriptors,
                    const PerformanceList<Perf>& answer) {
  return Query(handle, operation, descriptors, answer,
               [](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 *ranked = RankByModel(problem);
                 return CUDNN_STATUS_SUCCESS;
               });
}

template <class Perf>
cudnnStatus_t FindEx(cudnnHandle_t handle, Operation operation, const Descriptors& descriptors,
                     const PerformanceList<Perf>& answer, const DevicePointers& pointers) {
  return Query(handle, operation, descriptors, answer,
               [&](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 HOSTGPU_REFUSE_IF(
                     pointers.x == nullptr || pointers.w == nullptr || pointers.y == nullptr,
                     CUDNN_STATUS_BAD_PARAM);
                 return RankByMeasuring(handle, problem, pointers, ranked);
               });
}

// Measures with operands of the library's own; the workspace is as large as the device allows, up
// to the largest need.
cudnnStatus_t MeasureInOwnBuffers(cudnnHandle_t handle, const Problem& problem,
                                  std::vector<RankedAlgorithm>* ranked) {
  DeviceBuffer x, w, y, workspace;
  for (auto [buffer, bytes] : {std::pair{&x, problem.bytes.x}, std::pair{&w, problem.bytes.w},
                               std::pair{&y, problem.bytes.y}}) {
    HOSTGPU_REFUSE_IF(!buffer->Allocate(bytes), CUDNN_STATUS_ALLOC_FAILED);
  }
  std::vector<size_t> needs;
  for (const RankedAlgorithm& candidate : RankByModel(problem)) needs.push_back(candidate.memory);
  std::sort(needs.rbegin(), needs.rend());
  for (size_t need : needs) {
    if (need > 0 && workspace.Allocate(need)) break;
  }
  cuStreamSynchronize(nullptr);  // the buffers are cleared on the default stream
  return RankByMeasuring(
      handle, problem,
      {x.address(), w.address(), y.address(), workspace.address(), workspace.bytes()}, ranked);
}

template <class Perf>
cudnnStatus_t Find(cudnnHandle_t handle, Operation operation, const Descriptors& descriptors,
                   const PerformanceList<Perf>& answer) {
  return Query(handle, operation, descriptors, answer,
               [&](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 return MeasureInOwnBuffers(handle, problem, ranked);
               });
}

}  // namespace

extern "C" {

// ---- forward ----

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return MaxCount(handle, Operation::kForward, count);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnFilterDescriptor_t filterDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t destDesc, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t* perfResults) {
  return GetV7(handle, Operation::kForward, {srcDesc, filterDesc, convDesc, destDesc},
               PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t* perfResults) {
  return Find(handle, Operation::kForward, {xDesc, wDesc, convDesc, yDesc},
              PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void* x,
    const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t yDesc, void* y, const int requestedAlgoCount,
    int* returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSizeInBytes) {
  return FindEx(handle, Operation::kForward, {xDesc, wDesc, convDesc, yDesc},
                PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults},
                {x, w, y, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdAlgo_t algo, size_t* sizeInBytes) {
  return WorkspaceSize(handle, Operation::kForward, {xDesc, wDesc, convDesc, yDesc}, algo,
                       sizeInBytes);
}

// ---- backward_data ----

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return MaxCount(handle, Operation::kBackwardData, count);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  return GetV7(handle, Operation::kBackwardData, {gradDesc, filterDesc, convDesc, diffDesc},
               PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  return Find(handle, Operation::kBackwardData, {dxDesc, wDesc, convDesc, dyDesc},
              PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const void* w,
    const cudnnTensorDescriptor_t dyDesc, const void* dy,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc, void* dx,
    const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t* perfResults, void* workSpace, size_t workSpaceSizeInBytes) {
  return FindEx(handle, Operation::kBackwardData, {dxDesc, wDesc, convDesc, dyDesc},
                PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults},
                {dx, w, dy, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataAlgo_t algo, size_t* sizeInBytes) {
  return WorkspaceSize(handle, Operation::kBackwardData, {dxDesc, wDesc, convDesc, dyDesc}, algo,
                       sizeInBytes);
}

// ---- backward_filter ----

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return MaxCount(handle, Operation::kBackwardFilter, count);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  return GetV7(handle, Operation::kBackwardFilter, {srcDesc, gradDesc, convDesc, diffDesc},
               PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc,
    const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  return Find(handle, Operation::kBackwardFilter, {xDesc, dwDesc, convDesc, dyDesc},
              PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults});
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const void* x,
    const cudnnTensorDescriptor_t dyDesc, const void* y,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t dwDesc, void* dw,
    const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSizeInBytes) {
  return FindEx(handle, Operation::kBackwardFilter, {xDesc, dwDesc, convDesc, dyDesc},
                PerformanceList{requestedAlgoCount, returnedAlgoCount, perfResults},
                {x, dw, y, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t* sizeInBytes) {
  return WorkspaceSize(handle, Operation::kBackwardFilter, {xDesc, gradDesc, convDesc, dyDesc},
                       algo, sizeInBytes);
}

}  // extern "C"
