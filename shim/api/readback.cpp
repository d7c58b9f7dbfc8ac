// Functions of <ucudnn/ucudnn.h> that return plans, statistics and the report, or set the names of
// layers.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/process.h"
#include "api/refusal.h"
#include "cudnn/descriptors.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

cudnnStatus_t RefuseParameter(const std::string& message) {
  return Refuse(CUDNN_STATUS_BAD_PARAM, message);
}

cudnnStatus_t NoCudnn() {
  return Refuse(CUDNN_STATUS_NOT_INITIALIZED, "no real cuDNN 9 was found");
}

// Returns use(interposer) with the process's interposer; refuses the call if there is none.
template <typename Use>
cudnnStatus_t WithInterposer(Use use) noexcept {
  return WithoutExceptions([&] {
    interposer::Interposer* const interposer = ProcessInterposer();
    return interposer == nullptr ? NoCudnn() : use(*interposer);
  });
}

// Reads the convolution of `descriptors` into `problem`, or refuses the call with the reason.
cudnnStatus_t Read(const cudnn::Functions& functions, const char* function, Operation operation,
                   const cudnn::Descriptors& descriptors, ConvolutionProblem& problem) {
  if (descriptors.x == nullptr || descriptors.w == nullptr || descriptors.y == nullptr ||
      descriptors.convolution == nullptr) {
    return RefuseParameter(std::string(function) + ": a descriptor is a null pointer");
  }
  const char* const why = cudnn::ReadProblem(functions, operation, descriptors, problem);
  if (why == nullptr) return CUDNN_STATUS_SUCCESS;
  return Refuse(CUDNN_STATUS_NOT_SUPPORTED, std::string(function) + ": left alone: " + why);
}

// Refuses a struct whose size differs from this version's. This version is the first. A later
// version must also accept the sizes of earlier versions, and must not write beyond them.
template <typename Struct>
cudnnStatus_t CheckSize(const char* function, const Struct& given) {
  if (given.struct_size == sizeof(Struct)) return CUDNN_STATUS_SUCCESS;
  return RefuseParameter(std::string(function) + ": struct_size is " +
                         std::to_string(given.struct_size) + ", not " +
                         std::to_string(sizeof(Struct)));
}

ucudnnMicroBatches_t InWords(const Run& run) {
  ucudnnMicroBatches_t batches = {};
  batches.struct_size = sizeof batches;
  const std::string engine = run.micro.engine.Text();
  std::copy_n(engine.data(), std::min(engine.size(), sizeof batches.engine - 1), batches.engine);
  batches.micro_batch = run.micro.micro_batch;
  batches.count = run.count;
  batches.workspace_bytes = run.micro.workspace_bytes;
  batches.piece_ms = run.micro.time_ms;
  return batches;
}

}  // namespace
}  // namespace ucudnn

extern "C" {

cudnnStatus_t ucudnnSetLayerName(const char* name, cudnnTensorDescriptor_t x,
                                 cudnnFilterDescriptor_t w,
                                 cudnnConvolutionDescriptor_t convolution,
                                 cudnnTensorDescriptor_t y) {
  using namespace ucudnn;
  return WithoutExceptions([&] {
    if (name == nullptr) return RefuseParameter("ucudnnSetLayerName: the name is a null pointer");
    const cudnn::Functions* const functions = RealFunctions();
    if (functions == nullptr) return NoCudnn();
    ConvolutionProblem problem;
    const cudnnStatus_t status = Read(*functions, "ucudnnSetLayerName", Operation::kForward,
                                      {x, w, y, convolution}, problem);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (NameLayer(problem, name)) return CUDNN_STATUS_SUCCESS;
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "ucudnnSetLayerName: '" + std::string(name) + "' is beyond the first " +
                      std::to_string(interposer::kMostLayerNames) + " names");
  });
}

cudnnStatus_t ucudnnGetPlan(ucudnnOperation_t operation, cudnnTensorDescriptor_t x,
                            cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                            cudnnTensorDescriptor_t y, int requested, int* returned,
                            ucudnnMicroBatches_t* batches) {
  using namespace ucudnn;
  return WithInterposer([&](interposer::Interposer& interposer) {
    constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                         Operation::kBackwardFilter};
    const auto index = static_cast<unsigned>(operation);
    if (index >= std::size(kOperations)) {
      return RefuseParameter("ucudnnGetPlan: no operation has the number " +
                             std::to_string(static_cast<int>(operation)));
    }
    if (requested < 0 || returned == nullptr || (requested > 0 && batches == nullptr)) {
      return RefuseParameter("ucudnnGetPlan: nowhere to write " + std::to_string(requested) +
                             " kinds of micro-batches and their number");
    }
    cudnnStatus_t status =
        requested > 0 ? CheckSize("ucudnnGetPlan", *batches) : CUDNN_STATUS_SUCCESS;
    if (status != CUDNN_STATUS_SUCCESS) return status;
    ConvolutionProblem problem;
    status = Read(interposer.functions(), "ucudnnGetPlan", kOperations[index],
                  {x, w, y, convolution}, problem);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    const auto record = interposer.report().Find(problem);
    if (!record) {
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED,
                    "ucudnnGetPlan: not called yet: " + Describe(problem));
    }
    const std::vector<Run>& runs = record->configuration.runs;
    *returned = static_cast<int>(runs.size());
    for (size_t i = 0; i < std::min<size_t>(requested, runs.size()); ++i) {
      batches[i] = InWords(runs[i]);
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t ucudnnGetStatistics(ucudnnStatistics_t* statistics) {
  using namespace ucudnn;
  return WithInterposer([&](interposer::Interposer& interposer) {
    if (statistics == nullptr) return RefuseParameter("ucudnnGetStatistics: a null pointer");
    const cudnnStatus_t status = CheckSize("ucudnnGetStatistics", *statistics);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    const interposer::Totals totals = interposer.report().Count();
    *statistics = {sizeof *statistics, totals.kernels,       totals.divided_kernels,
                   totals.calls,       totals.divided_calls, interposer.kernels().measured(),
                   totals.fallbacks};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t ucudnnGetReport(char* text, size_t* bytes) {
  using namespace ucudnn;
  return WithInterposer([&](interposer::Interposer& interposer) {
    if (bytes == nullptr) return RefuseParameter("ucudnnGetReport: bytes is a null pointer");
    const std::string report = interposer.reporter().Text();
    const size_t room = *bytes;
    *bytes = report.size() + 1;
    if (text == nullptr) return CUDNN_STATUS_SUCCESS;
    if (room < *bytes) {
      return RefuseParameter("ucudnnGetReport: " + std::to_string(*bytes) +
                             " bytes do not fit in " + std::to_string(room));
    }
    std::memcpy(text, report.c_str(), report.size() + 1);
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
