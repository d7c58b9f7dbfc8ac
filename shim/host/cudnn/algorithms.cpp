// Defines all cudnnGetConvolution*Algorithm*, cudnnGetConvolution*WorkspaceSize and
// cudnnFindConvolution* functions. The macro HOSTGPU_QUERIES defines the functions of one
// operation. They call the functions above the macro, which work for every operation.
#include <algorithm>
#include <utility>
#include <vector>

#include "shim/host/cudnn/device_buffer.h"
#include "shim/host/cudnn/entry_points.h"
#include "shim/host/cudnn/ranking.h"
#include "shim/host/hostgpu.h"

using namespace hostgpu;

namespace {

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

cudnnStatus_t WorkspaceSize(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                            int algorithm, size_t* bytes) {
  return Protect([&] {
    if (auto status = CheckQuery(handle)) return status;
    HOSTGPU_REFUSE_IF(bytes == nullptr, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = descriptors.Describe(&problem)) return status;
    return RequiredWorkspace(problem, algorithm, bytes);
  });
}

// The caller's array for the answer of a query.
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

// Answers a query. `rank` is called as rank(problem, &ranked); it writes the ranked algorithms.
template <class Perf, class Rank>
cudnnStatus_t Query(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                    const PerformanceList<Perf>& answer, const Rank& rank) {
  return Protect([&] {
    if (auto status = CheckQuery(handle)) return status;
    HOSTGPU_REFUSE_IF(answer.returned == nullptr || answer.results == nullptr,
                      CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(answer.requested < 1, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = descriptors.Describe(&problem)) return status;
    std::vector<RankedAlgorithm> ranked;
    if (cudnnStatus_t status = rank(problem, &ranked)) return status;
    Give(ranked, problem, answer);
    return CUDNN_STATUS_SUCCESS;
  });
}

template <class Perf>
cudnnStatus_t GetV7(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                    const PerformanceList<Perf>& answer) {
  return Query(handle, descriptors, answer,
               [](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 *ranked = RankByModel(problem);
                 return CUDNN_STATUS_SUCCESS;
               });
}

template <class Perf>
cudnnStatus_t FindEx(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                     const PerformanceList<Perf>& answer, const DevicePointers& pointers) {
  return Query(handle, descriptors, answer,
               [&](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 HOSTGPU_REFUSE_IF(
                     pointers.x == nullptr || pointers.w == nullptr || pointers.y == nullptr,
                     CUDNN_STATUS_BAD_PARAM);
                 return RankByMeasuring(handle, problem, pointers, ranked);
               });
}

// Measures with operands that the library allocates itself. The workspace has the largest size that
// any algorithm needs. If the device lacks the memory for it, the next smaller size is tried, and
// so on.
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
  cuStreamSynchronize(nullptr);  // waits until the buffers are cleared, on the default stream
  return RankByMeasuring(
      handle, problem,
      {x.address(), w.address(), y.address(), workspace.address(), workspace.bytes()}, ranked);
}

template <class Perf>
cudnnStatus_t Find(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                   const PerformanceList<Perf>& answer) {
  return Query(handle, descriptors, answer,
               [&](const Problem& problem, std::vector<RankedAlgorithm>* ranked) {
                 return MeasureInOwnBuffers(handle, problem, ranked);
               });
}

}  // namespace

extern "C" {

#define HOSTGPU_QUERIES(Name, Short, First, Second, Result)                                      \
  cudnnStatus_t cudnnGetConvolution##Name##AlgorithmMaxCount(cudnnHandle_t handle, int* count) { \
    return MaxCount(handle, Operation::k##Name, count);                                          \
  }                                                                                              \
  cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                                         \
      cudnnHandle_t handle, const cudnn##First##Descriptor_t first,                              \
      const cudnn##Second##Descriptor_t second, const cudnnConvolutionDescriptor_t convolution,  \
      const cudnn##Result##Descriptor_t result, const int requested, int* returned,              \
      cudnnConvolution##Short##AlgoPerf_t* results) {                                            \
    return GetV7(handle, {first, second, convolution, result},                                   \
                 PerformanceList{requested, returned, results});                                 \
  }                                                                                              \
  cudnnStatus_t cudnnFindConvolution##Name##Algorithm(                                           \
      cudnnHandle_t handle, const cudnn##First##Descriptor_t first,                              \
      const cudnn##Second##Descriptor_t second, const cudnnConvolutionDescriptor_t convolution,  \
      const cudnn##Result##Descriptor_t result, const int requested, int* returned,              \
      cudnnConvolution##Short##AlgoPerf_t* results) {                                            \
    return Find(handle, {first, second, convolution, result},                                    \
                PerformanceList{requested, returned, results});                                  \
  }                                                                                              \
  cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                                         \
      cudnnHandle_t handle, const cudnn##First##Descriptor_t first_desc, const void* first,      \
      const cudnn##Second##Descriptor_t second_desc, const void* second,                         \
      const cudnnConvolutionDescriptor_t convolution,                                            \
      const cudnn##Result##Descriptor_t result_desc, void* result, const int requested,          \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results, void* workspace,              \
      size_t workspace_bytes) {                                                                  \
    const ConvolutionDescriptors descriptors(first_desc, second_desc, convolution, result_desc); \
    return FindEx(handle, descriptors, PerformanceList{requested, returned, results},            \
                  descriptors.Pointers(first, second, result, workspace, workspace_bytes));      \
  }                                                                                              \
  cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                                        \
      cudnnHandle_t handle, const cudnn##First##Descriptor_t first,                              \
      const cudnn##Second##Descriptor_t second, const cudnnConvolutionDescriptor_t convolution,  \
      const cudnn##Result##Descriptor_t result, cudnnConvolution##Short##Algo_t algorithm,       \
      size_t* bytes) {                                                                           \
    return WorkspaceSize(handle, {first, second, convolution, result}, algorithm, bytes);        \
  }
HOSTGPU_FOR_EACH_OPERATION(HOSTGPU_QUERIES)
#undef HOSTGPU_QUERIES

}  // extern "C"
