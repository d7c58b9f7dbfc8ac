#include "tests/support/recording_graphs.h"

#include <cstring>

#include "tests/support/null_cudnn/null_graph.h"
#include "tests/support/recording_cudnn.h"

namespace ucudnn::test {
namespace {

cudnnStatus_t RecordExecution(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                              cudnnBackendDescriptor_t pack) {
  GraphRecording& recording = Executions();
  const bool fails = recording.fail_at == static_cast<int>(recording.calls.size());
  recording.calls.push_back({nullGraphEngine(plan), nullGraphImages(plan),
                             nullGraphPointer(pack, kX), nullGraphPointer(pack, kW),
                             nullGraphPointer(pack, kY), nullGraphPointer(pack, kResidual),
                             nullGraphPointer(pack, kBias), nullGraphWorkspace(pack),
                             std::strstr(nullGraphJson(plan), "\"beta\":1.0") != nullptr});
  return fails ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

}  // namespace

GraphRecording& Executions() {
  thread_local GraphRecording recording;
  return recording;
}

cudnn::Functions RecordingGraphs() {
  cudnn::Functions functions = NullFunctions();
  functions.cudnnBackendExecute = RecordExecution;
  functions.cudnnBackendPopulateCudaGraph = [](cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                               cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
    const cudnnStatus_t status = RecordExecution(handle, plan, pack);
    Executions().calls.back().graph = graph;
    return status;
  };
  functions.cudnnBackendUpdateCudaGraph = functions.cudnnBackendPopulateCudaGraph;
  functions.cudnnBackendGetAttribute = [](cudnnBackendDescriptor_t const from, auto name, auto type,
                                          int64_t requested, int64_t* count, void* values) {
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
        nullGraphEngine(from) == Executions().nondeterministic) {
      *count = 1;
      if (values != nullptr && requested > 0) {
        *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      }
      return CUDNN_STATUS_SUCCESS;
    }
    return NullFunctions().cudnnBackendGetAttribute(from, name, type, requested, count, values);
  };
  // cuDNN has this function since 9.23. It returns the workspace size for the shapes of a variant
  // pack, which may differ from the plan's shapes. So here it returns another number than the
  // plan's own workspace size.
  functions.cudnnGetExecutionPlanWorkspaceSize = [](cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                                    cudnnBackendDescriptor_t, size_t* bytes) {
    *bytes = static_cast<size_t>(100 + nullGraphEngine(plan));
    return CUDNN_STATUS_SUCCESS;
  };
  return functions;
}

}  // namespace ucudnn::test
