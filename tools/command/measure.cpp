#include "command/measure.h"

#include <limits>
#include <span>
#include <utility>

#include "cuda/driver.h"
#include "cudnn/descriptors.h"
#include "cudnn/functions.h"
#include "cudnn/genuine_library.h"
#include "cudnn/legacy_engines.h"
#include "planning/workspace_reuse.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::command {
namespace {

// The device and libraries to measure with. The handle keeps the context alive.
class Bench {
 public:
  Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    if (handle_ != nullptr) functions_.cudnnDestroy(handle_);
  }

  Status Open(const Options& options) {
    device_.driver = cuda::GetDriver();
    if (device_.driver == nullptr) {
      return Status::Error(
          "there is no CUDA driver (libcuda.so.1); --host measures on the CPU stand-in");
    }
    const cudnn::GenuineLibrary& genuine = cudnn::OpenGenuine(options.real_cudnn.c_str(), nullptr);
    if (!genuine.library) return Status::Error("there is no genuine cuDNN; see `ucudnn doctor`");
    UCUDNN_RETURN_IF_ERROR(cudnn::LoadFunctions(
        [&](const char* name) { return genuine.library->Symbol(name); }, functions_));
    UCUDNN_RETURN_IF_ERROR(
        cudnn::CudnnStatus(functions_, functions_.cudnnCreate(&handle_), "creating a handle"));
    if (device_.driver->cuCtxGetCurrent(&device_.context) != CUDA_SUCCESS ||
        device_.context == nullptr) {
      return Status::Error("cuDNN made no context current");
    }
    device_.functions = &functions_;
    UCUDNN_ASSIGN_OR_RETURN(device_.platform,
                            tuning::DescribePlatform(*device_.driver, functions_));
    return Status::Ok();
  }

  const tuning::Device& device() const { return device_; }

 private:
  cudnn::Functions functions_;
  cudnnHandle_t handle_ = nullptr;
  tuning::Device device_;
};

// The measurements a run with these options would choose from.
std::vector<MicroConfiguration> Usable(const ConvolutionProblem& problem, const Options& options,
                                       const std::vector<MicroConfiguration>& measured) {
  std::vector<MicroConfiguration> usable;
  for (planning::Candidate& candidate : cudnn::OwnMathCandidates(problem, measured)) {
    if (options.deterministic && !candidate.micro.deterministic) continue;
    usable.push_back(std::move(candidate.micro));
  }
  return usable;
}

MeasuredLayer Choose(const Layer& layer, const std::vector<MicroConfiguration>& usable,
                     size_t limit_bytes) {
  MeasuredLayer chosen{layer, std::nullopt, std::nullopt};
  for (const MicroConfiguration& micro : usable) {
    if (micro.micro_batch != layer.problem.n || micro.workspace_bytes > limit_bytes) continue;
    if (!chosen.undivided || micro.time_ms < chosen.undivided->time_ms) chosen.undivided = micro;
  }
  if (MayDivide(layer.problem)) {
    chosen.divided = planning::OptimizeWorkspaceReuse(usable, layer.problem.n,
                                                      LegalStep(layer.problem), limit_bytes);
  }
  return chosen;
}

}  // namespace

Result<Measured> MeasureLayers(const std::vector<Layer>& layers, const Options& options,
                               planning::MeasurementStore* store,
                               const std::function<void(const Layer&)>& progress) {
  Bench bench;
  UCUDNN_RETURN_IF_ERROR(bench.Open(options));
  tuning::MeasuredKernels kernels(store);
  Measured result;
  result.platform = bench.device().platform;
  const size_t limit = options.workspace_limit.value_or(std::numeric_limits<size_t>::max());
  for (Layer layer : layers) {
    // Measured as a program's calls will be, so that a run finds these measurements.
    layer.problem.alignment = cudnn::kLegacyAlignment;
    progress(layer);
    const Result<std::vector<MicroConfiguration>> measured =
        kernels.Get(bench.device(), layer.problem, options.policy, options.tune != Tune::kOff);
    if (!measured.ok()) return Status::Error(layer.name + ": " + measured.message());
    result.layers.push_back(Choose(layer, Usable(layer.problem, options, *measured), limit));
  }
  result.measured = kernels.measured();
  return result;
}

}  // namespace ucudnn::command
