#include "shim/host/cudnn/ranking.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>

#include "shim/host/cudnn/device_memory.h"

namespace hostgpu {
namespace {

// If a single run takes less than kShortRun_ms, its time is unreliable. Then the time of the
// fastest of kShortRuns runs is used.
constexpr float kShortRun_ms = 5;
constexpr int kShortRuns = 3;

std::vector<RankedAlgorithm> Candidates(const Problem& problem) {
  std::vector<RankedAlgorithm> candidates;
  for (int algorithm = 0; algorithm < AlgorithmCount(problem.shape.operation); ++algorithm) {
    RankedAlgorithm candidate{algorithm, CUDNN_STATUS_SUCCESS, -1, 0, false};
    candidate.status = RequiredWorkspace(problem, algorithm, &candidate.memory);
    candidate.deterministic =
        candidate.status == CUDNN_STATUS_SUCCESS && IsDeterministic(problem.shape, algorithm);
    candidates.push_back(candidate);
  }
  return candidates;
}

float MeasureNow(const Problem& problem, int algorithm, const Operands& operands) {
  using Clock = std::chrono::steady_clock;
  float fastest_ms = 0;
  // Run 0, which fills caches and loads code, does not count.
  for (int run = 0; run <= kShortRuns; ++run) {
    const auto start = Clock::now();
    Execute(problem, algorithm, 1, 0, operands);
    const float time_ms = std::chrono::duration<float, std::milli>(Clock::now() - start).count();
    if (run == 0) continue;
    fastest_ms = run == 1 ? time_ms : std::min(fastest_ms, time_ms);
    if (fastest_ms > kShortRun_ms) break;
  }
  return fastest_ms;
}

bool Aligned(const DevicePointers& pointers, size_t alignment) {
  const auto bits =
      reinterpret_cast<uintptr_t>(pointers.x) | reinterpret_cast<uintptr_t>(pointers.w) |
      reinterpret_cast<uintptr_t>(pointers.y) | reinterpret_cast<uintptr_t>(pointers.workspace);
  return bits % alignment == 0;
}

}  // namespace

std::vector<RankedAlgorithm> RankByModel(const Problem& problem) {
  auto candidates = Candidates(problem);
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const bool a_runs = a.status == CUDNN_STATUS_SUCCESS;
    const bool b_runs = b.status == CUDNN_STATUS_SUCCESS;
    return a_runs != b_runs ? a_runs : (a.memory > 0) > (b.memory > 0);
  });
  return candidates;
}

cudnnStatus_t RankByMeasuring(cudnnHandle_t handle, const Problem& problem,
                              const DevicePointers& pointers,
                              std::vector<RankedAlgorithm>* ranked) {
  // Measuring waits for the stream. A capturing stream cannot be waited for: cuStreamSynchronize
  // then fails and invalidates the capture.
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  HOSTGPU_REFUSE_IF(!BindContext(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  cuStreamIsCapturing(handle->stream, &capturing);
  HOSTGPU_REFUSE_IF(capturing != CU_STREAM_CAPTURE_STATUS_NONE &&
                        cuStreamSynchronize(handle->stream) != CUDA_SUCCESS,
                    CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  *ranked = Candidates(problem);
  for (RankedAlgorithm& candidate : *ranked) {
    if (candidate.status != CUDNN_STATUS_SUCCESS) continue;
    if (candidate.memory > 0 &&
        (pointers.workspace == nullptr || candidate.memory > pointers.workspace_bytes)) {
      candidate.status = CUDNN_STATUS_ALLOC_FAILED;
      continue;
    }
    if (candidate.algorithm != 0 &&
        !Aligned(pointers, RequiredAlignment(problem, candidate.algorithm))) {
      candidate.status = CUDNN_STATUS_NOT_SUPPORTED;
      continue;
    }
    Operands operands;
    if (auto status = Check(handle, problem, candidate.algorithm, pointers, &operands))
      return status;
    const auto time_ms = std::make_shared<std::promise<float>>();
    auto measured = time_ms->get_future();
    if (auto status = Enqueue(handle, {}, [=] {
          time_ms->set_value(MeasureNow(problem, candidate.algorithm, operands));
        })) {
      return status;
    }
    candidate.time_ms = measured.get();
    HOSTGPU_REFUSE_IF(DeviceFaulted(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  }
  std::stable_sort(ranked->begin(), ranked->end(), [](const auto& a, const auto& b) {
    const bool a_runs = a.status == CUDNN_STATUS_SUCCESS;
    const bool b_runs = b.status == CUDNN_STATUS_SUCCESS;
    return a_runs != b_runs ? a_runs : a_runs && a.time_ms < b.time_ms;
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
