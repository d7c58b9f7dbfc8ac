#include "interposer/interposer.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"

namespace ucudnn::interposer {
namespace {

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kOn:
      return "on";
    case Mode::kObserve:
      return "observe";
    case Mode::kOff:
      return "off";
  }
  return "";
}

// What the genuine library would refuse, it shall refuse itself.
bool HasAllPointers(const cudnn::LegacyCall& call) {
  if (call.alpha == nullptr || call.x == nullptr || call.w == nullptr || call.y == nullptr) {
    return false;
  }
  if (call.bias == nullptr) return call.beta != nullptr;
  return call.bias->alpha2 != nullptr && call.bias->z != nullptr && call.bias->bias != nullptr;
}

}  // namespace

Interposer::Interposer(const Options& options, const cudnn::Functions& functions,
                       const cuda::Driver* driver, planning::MeasurementStore* store)
    : options_(options), functions_(functions), driver_(driver), kernels_(store) {}

int Interposer::PlatformIndex(const planning::Platform& platform) {
  std::lock_guard lock(platforms_mutex_);
  const auto known = std::find_if(platforms_.begin(), platforms_.end(),
                                  [&](const auto& other) { return *other == platform; });
  if (known != platforms_.end()) return static_cast<int>(known - platforms_.begin());
  platforms_.push_back(std::make_unique<planning::Platform>(platform));
  report_.SetPlatform(platform);
  return static_cast<int>(platforms_.size()) - 1;
}

tuning::Device Interposer::DeviceOf(const Session& session) {
  std::lock_guard lock(platforms_mutex_);
  return {driver_, &functions_, session.context(), *platforms_[session.platform()]};
}

void Interposer::OpenSession(cudnnHandle_t handle, Session& session) {
  cudaStream_t stream = nullptr;
  if (functions_.cudnnGetStream(handle, &stream) != CUDNN_STATUS_SUCCESS) stream = nullptr;
  CUcontext context = nullptr;
  if (driver_->cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
    if (driver_->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) context = nullptr;
  }
  const cuda::ContextScope scope(*driver_, context);
  const Result<planning::Platform> platform = tuning::DescribePlatform(*driver_, functions_);
  if (!platform.ok()) {
    // Without a name nothing measured can be filed: such a handle is left alone (index -1).
    WarnOnce("platform", "a handle's device cannot be described: " + platform.message());
    session.Open(nullptr, -1, stream);
    return;
  }
  session.Open(context, PlatformIndex(*platform), stream);
}

Session* Interposer::SessionOf(cudnnHandle_t handle) {
  if (handle == nullptr || driver_ == nullptr || options_.mode == Mode::kOff) return nullptr;
  Session* session = sessions_.Find(handle);
  if (session == nullptr) {
    session = sessions_.FindOrOpen(handle, [&](Session& fresh) { OpenSession(handle, fresh); });
  }
  return session != nullptr && session->platform() >= 0 ? session : nullptr;
}

cudnnStatus_t Interposer::Create(cudnnHandle_t* handle) {
  Log(LogLevel::kDebug, "cudnnCreate intercepted");
  const cudnnStatus_t status = functions_.cudnnCreate(handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  try {
    sessions_.Close(*handle);  // of an earlier handle at this address that died unseen
    SessionOf(*handle);        // now, while the context it is bound to is current
  } catch (...) {
    // Out of memory: the session is opened at the first call instead.
  }
  return status;
}

cudnnStatus_t Interposer::Destroy(cudnnHandle_t handle) {
  sessions_.Close(handle);
  return functions_.cudnnDestroy(handle);
}

cudnnStatus_t Interposer::SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const cudnnStatus_t status = functions_.cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) {
    if (Session* session = sessions_.Find(handle)) session->set_stream(stream);
  }
  return status;
}

bool Interposer::Capturing(const Session& session) const {
  const CUstream stream = session.stream();
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;
  const cuda::ContextScope scope(*driver_, session.context());
  return cuda::IsCapturing(*driver_, stream);
}

void Interposer::Fallback(const ConvolutionProblem& problem, std::string_view cause) noexcept {
  try {
    const std::string kernel = Describe(problem), words(cause);
    WarnOnce(words, kernel + ": " + words);
    report_.AddFallback(kernel, words);
  } catch (...) {
    // Out of memory while telling of a fault: the call's result matters more.
  }
}

cudnnStatus_t Interposer::Convolve(const cudnn::LegacyCall& call) {
  Session* const session = HasAllPointers(call) ? SessionOf(call.handle) : nullptr;
  CallKey key;
  if (session == nullptr ||
      cudnn::ReadProblem(functions_, call.operation, call.descriptors, key.problem) != nullptr) {
    return cudnn::Convolve(functions_, call);
  }
  const std::optional<Flavour> flavour = FlavourOf(call);
  if (!flavour) return cudnn::Convolve(functions_, call);
  key.algorithm = call.algorithm;
  key.flavour = *flavour;
  key.workspace_bytes = call.workspace == nullptr ? 0 : call.workspace_bytes;

  Decision* decision = session->Find(key);
  if (decision == nullptr) {
    try {
      decision = Decide(call, {key.problem, session}, key);
    } catch (...) {
      WarnOnce("memory", "out of host memory: a kernel runs undivided");
      return ConvolveWithoutMemory(call, *session, key);
    }
  }
  if (decision == nullptr) return cudnn::Convolve(functions_, call);
  decision->record->calls.fetch_add(1, std::memory_order_relaxed);
  return decision->plan != nullptr ? RunPlan(call, *session, key, *decision)
                                   : cudnn::Convolve(functions_, call);
}

// What was promised may be less than the caller's algorithm needs, and the engine that keeps such a
// promise undivided can be found without memory.
cudnnStatus_t Interposer::ConvolveWithoutMemory(const cudnn::LegacyCall& call,
                                                const Session& session, const CallKey& key) {
  cudnn::LegacyCall whole = call;
  if (key.flavour != Flavour::kIdentity) {
    const std::optional<int> undivided = promises_.FindUndivided(
        {session.platform(), call.algorithm, key.problem}, key.workspace_bytes);
    whole.algorithm = undivided.value_or(call.algorithm);
  }
  return cudnn::Convolve(functions_, whole);
}

cudnnStatus_t Interposer::RunPlan(const cudnn::LegacyCall& call, const Session& session,
                                  const CallKey& key, Decision& decision) {
  using execution::Outcome;
  const execution::PlannedConvolution& plan = *decision.plan;
  Outcome outcome;
  cudnnStatus_t status;
  const bool capturing = Capturing(session);
  if (plan.has_undivided() && (decision.barred || capturing)) {
    status = plan.RunUndivided(call, outcome);
  } else if (capturing && !decision.ran) {
    // Nothing can take the pieces' place, and what never ran outside may break the capture.
    return cudnn::Convolve(functions_, call);
  } else {
    status = plan.Run(call, outcome);
    decision.ran.store(outcome == Outcome::kPlanned, std::memory_order_relaxed);
    if (plan.has_pieces() && (outcome == Outcome::kUndivided || outcome == Outcome::kFailed)) {
      decision.barred = true;
      Fallback(key.problem, "a piece failed; this kernel runs undivided from now on");
    }
  }
  // Nothing of ours is under way then, and the caller's own call may still do.
  const bool undivided_failed = outcome == Outcome::kUndivided && status != CUDNN_STATUS_SUCCESS;
  if (undivided_failed || outcome == Outcome::kNotAttempted) {
    return cudnn::Convolve(functions_, call);
  }
  return status;
}

void Interposer::WriteReport() {
  if (options_.report.empty() || report_.empty()) return;
  std::lock_guard lock(report_mutex_);
  const Status status =
      report_.Write(options_.report, ModeName(options_.mode), kernels_.measured());
  if (!status.ok()) WarnOnce("report", "the report cannot be written: " + status.message());
}

}  // namespace ucudnn::interposer
