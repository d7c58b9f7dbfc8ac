#include "interposer/interposer.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/log.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "interposer/checked_call.h"
#include "interposer/library_workspace.h"

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

// The other devices are other ranks': measuring there would be in their way, and they in its.
BenchmarkDevices HelpersOf(const Options& options) {
  if (!options.benchmark_devices.parallel() || options.rank < 0) return options.benchmark_devices;
  WarnOnce("benchmark devices", "UCUDNN_BENCHMARK_DEVICES is ignored in rank " +
                                    std::to_string(options.rank) +
                                    " of a job: the other devices are its other ranks'");
  return {};
}

}  // namespace

Interposer::Interposer(const Options& options, const cudnn::Functions& functions,
                       const cuda::Driver* driver, planning::MeasurementStore* store,
                       bool hosts_share_store)
    : options_(options),
      hosts_share_store_(hosts_share_store),
      functions_(functions),
      driver_(driver),
      kernels_(store, options.tuning, options.lock_folder, HelpersOf(options)),
      pinned_(options, functions),
      legacy_(functions, options, kernels_),
      limit_(options.workspace_limit.value_or(kNoLimit)),
      limit_is_auto_(options.workspace_limit_auto),
      graph_(*this, store) {}

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

bool Interposer::Tunes(const Session& session, const ConvolutionProblem& problem, bool legacy) {
  if (!options_.tuning.on) return false;
  return options_.plan.empty() || !pinned_.Has(DeviceOf(session).platform, problem, legacy);
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
  Network* const network = NetworkOf(context);
  if (network != nullptr) network->Open(handle);
  session.Open(context, PlatformIndex(*platform), stream, network);
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
    // Of an earlier handle at this address that died unseen.
    Leave(*handle);
    SessionOf(*handle);  // now, while the context it is bound to is current
  } catch (...) {
    // Out of memory: the session is opened at the first call instead.
  }
  return status;
}

std::pair<Network*, uint64_t> Interposer::Leave(cudnnHandle_t handle) {
  sessions_.Close(handle);
  lanes_.Leave(handle);
  std::lock_guard lock(networks_mutex_);
  for (const auto& [device, network] : networks_) {
    if (const uint64_t leave = network->Close(handle); leave > 0) return {network.get(), leave};
  }
  return {};
}

cudnnStatus_t Interposer::Destroy(cudnnHandle_t handle) {
  // Before another handle may have its address.
  const auto [network, leave] = Leave(handle);
  if (sessions_.empty()) kernels_.ReleaseHelpers();
  if (network == nullptr) return functions_.cudnnDestroy(handle);
  // What it waits for is the current device, as cuDNN documents it.
  const cuda::ContextScope scope(*driver_, network->context());
  CUcontext current = nullptr;
  driver_->cuCtxGetCurrent(&current);
  const cudnnStatus_t status = functions_.cudnnDestroy(handle);
  if (status == CUDNN_STATUS_SUCCESS && current == network->context()) network->Closed(leave);
  return status;
}

cudnnStatus_t Interposer::SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const cudnnStatus_t status = functions_.cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) {
    if (Session* session = sessions_.Find(handle)) session->set_stream(stream);
  }
  return status;
}

void Interposer::FollowStream(cudnnHandle_t handle) {
  Session* const session = sessions_.Find(handle);
  cudaStream_t stream = nullptr;
  if (session == nullptr || functions_.cudnnGetStream(handle, &stream) != CUDNN_STATUS_SUCCESS) {
    return;
  }
  if (stream != session->stream()) session->set_stream(stream);
}

bool Interposer::Capturing(const Session& session) const {
  const CUstream stream = session.stream();
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;
  const cuda::ContextScope scope(*driver_, session.context());
  return cuda::IsCapturing(*driver_, stream);
}

uint64_t Interposer::LaneOf(Session& session, cudnnHandle_t handle) {
  if (const uint64_t lane = session.lane(); lane != 0) return lane;
  const void* const order = session.order();
  const uint64_t lane =
      lanes_.BitOf(order != nullptr ? order : handle, order != nullptr, session.stream());
  session.set_lane(lane);
  return lane;
}

size_t Interposer::UserLimit(const Session& session) {
  // Under one budget the library brings what is used beyond that.
  if (options_.total_workspace && options_.mode == Mode::kOn) return 0;
  if (session.network() != nullptr) return 0;
  if (!limit_is_auto_.load(std::memory_order_acquire)) return limit_.load();
  size_t limit = auto_limit_.load(std::memory_order_relaxed);
  if (limit != kNoLimit) return limit;
  const cuda::ContextScope scope(*driver_, session.context());
  const cuda::RelaxedCaptureScope relaxed(*driver_);
  size_t free_bytes = 0, total_bytes = 0;
  if (driver_->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) return kNoLimit;
  // A power of two, so that processes on like devices come to the same.
  limit = std::bit_floor(free_bytes / 4);
  size_t expected = kNoLimit;
  auto_limit_.compare_exchange_strong(expected, limit);
  return std::min(limit, expected);
}

void Interposer::SetWorkspaceLimit(size_t bytes) {
  limit_ = bytes;
  limit_is_auto_.store(false, std::memory_order_release);
}

void Interposer::NoteScarceWorkspace(const PromiseKey& key, size_t passed_bytes) {
  if (!limit_is_auto_) return;
  const std::optional<size_t> reported = promises_.LastReported(key);
  // A caller told several sizes may have chosen any.
  if (!reported || passed_bytes >= *reported || promises_.Find(key, passed_bytes)) return;
  // A caller who goes without any workspace has not found that none is left.
  const size_t fallen = std::max(passed_bytes, *reported / 2);
  size_t limit = auto_limit_.load();
  while (fallen < limit && !auto_limit_.compare_exchange_weak(limit, fallen)) {
  }
  Fallback(key.problem, "the caller had less memory than it was told to use: the limit falls");
}

void Interposer::Fallback(const ConvolutionProblem& problem, std::string_view cause,
                          std::string_view detail) noexcept {
  try {
    const std::string kernel = Describe(problem);
    std::string words(cause);
    if (!detail.empty()) words.append(": ").append(detail);
    WarnOnce(std::string(cause), kernel + ": " + words);
    report_.AddFallback(kernel, words);
  } catch (...) {
    // Out of memory while telling of a fault: the call's result matters more.
  }
}

void Interposer::TooManyKernels() noexcept {
  try {
    const std::string cause = "too many different kernels: others run as the caller asked";
    WarnOnce(cause, cause);
    report_.AddFallback("kernels beyond the first " + std::to_string(kMostKernels), cause);
  } catch (...) {
    // As above.
  }
}

void Interposer::NoteUnlikeRanks() {
  if (options_.rank < 0 || unlike_ranks_noted_) return;
  const char* cause = nullptr;
  if (kernels_.keeps_own()) {
    cause =
        "measured for this process alone: ranks that share no store may choose different plans; "
        "name one that all can write with UCUDNN_DATABASE";
  } else if (!hosts_share_store_) {
    cause =
        "the store lies on a network file system, where every host writes its own: ranks of "
        "different hosts may choose different plans until `ucudnn cache merge` joins them";
  }
  if (cause == nullptr || unlike_ranks_noted_.exchange(true)) return;
  report_.AddFallback("every kernel", cause);
}

cudnnStatus_t Interposer::Convolve(const cudnn::LegacyCall& call) {
  Session* const session = HasAllPointers(call) ? SessionOf(call.handle) : nullptr;
  CallKey key;
  if (session == nullptr ||
      cudnn::ReadProblem(functions_, call.operation, call.descriptors, key.problem) != nullptr) {
    return cudnn::Convolve(functions_, call);
  }
  const std::optional<Flavour> flavour = FlavourOf(call, key.problem);
  if (!flavour) return cudnn::Convolve(functions_, call);
  key.algorithm = call.algorithm;
  key.flavour = *flavour;
  key.workspace_bytes = call.workspace == nullptr ? 0 : call.workspace_bytes;

  Network* const network = session->network();
  if (network != nullptr && network->learning()) {
    Learn({key.problem, call.algorithm}, *session, call.handle);
  }
  if (network != nullptr && network->waiting()) SettleNow(*session);
  Decision* decision = session->Find(key);
  const bool redivided =
      decision != nullptr && network != nullptr && decision->library.epoch != network->epoch();
  // What has run once outside is worth more to a capture than what is known by now.
  if (decision == nullptr || ((decision->Due() || redivided) && !Capturing(*session))) {
    // Only pieces keep what was promised to an identity activation.
    const bool must_plan = decision != nullptr || *flavour == Flavour::kIdentity;
    if (!must_plan && !MayRemember(*session, key)) {
      TooManyKernels();
      return ConvolveUnplanned(call, *session, key);
    }
    try {
      const bool graph = *flavour == Flavour::kPlain || *flavour == Flavour::kAdding;
      const Kernel kernel{key.problem, session, call.handle, graph};
      decision = Decide(call, kernel, key, decision);
    } catch (...) {
      WarnOnce("memory", "out of host memory: a kernel runs undivided");
      return ConvolveUnplanned(call, *session, key);
    }
  }
  if (decision == nullptr) return cudnn::Convolve(functions_, call);
  decision->Count(LaneOf(*session, call.handle));
  if (decision->refused) return CUDNN_STATUS_NOT_SUPPORTED;
  return decision->plan != nullptr ? RunPlan(call, *session, key, *decision)
                                   : cudnn::Convolve(functions_, call);
}

bool Interposer::MayRemember(const Session& session, const CallKey& key) {
  return !session.full() &&
         (!promises_.full() || promises_.Knows({session.platform(), key.algorithm, key.problem}));
}

// What was promised may be less than the caller's algorithm needs, and the engine that keeps such a
// promise undivided can be found without memory.
cudnnStatus_t Interposer::ConvolveUnplanned(const cudnn::LegacyCall& call, const Session& session,
                                            const CallKey& key) {
  cudnn::LegacyCall whole = call;
  std::optional<int> promised;
  if (key.flavour != Flavour::kIdentity) {
    promised = promises_.FindUndivided({session.platform(), call.algorithm, key.problem},
                                       key.workspace_bytes);
    whole.algorithm = promised.value_or(call.algorithm);
  }
  size_t need = 0;
  const bool over_limit =
      options_.strict_limit && options_.mode == Mode::kOn && !promised &&
      cudnn::WorkspaceBytes(functions_, call.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS &&
      need > UserLimit(session);
  return over_limit ? CUDNN_STATUS_NOT_SUPPORTED : cudnn::Convolve(functions_, whole);
}

cudnnStatus_t Interposer::RunPlan(const cudnn::LegacyCall& asked, Session& session,
                                  const CallKey& key, Decision& decision) {
  using execution::Outcome;
  const execution::PlannedConvolution& plan = *decision.plan;
  Outcome outcome;
  cudnnStatus_t status;
  const bool capturing = Capturing(session);
  // What never ran outside may break a capture.
  bool may_run = !decision.barred && !decision.page->failed && (!capturing || decision.ran);
  cudnn::LegacyCall call = asked;
  const auto count_undivided = [&] {
    if (plan.has_pieces()) {
      decision.record->undivided_calls.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const bool alone = !plan.has_undivided();
  const LibraryWorkspace library(*this, session, call.handle, decision.library, may_run || alone,
                                 capturing);
  if (decision.library.bytes > 0) {
    may_run &= library.data() != nullptr;
    call.workspace = library.data();
    call.workspace_bytes = library.data() != nullptr ? decision.library.bytes : 0;
  }
  may_run = may_run && plan.Suits(call.workspace);
  if (may_run && !capturing && decision.checked) {
    const CheckedCall checked = RunChecked(*driver_, session.context(), session.stream(), plan,
                                           key.problem, *decision.checked, call);
    const tuning::Verdict verdict = checked.verification.verdict;
    if (verdict == tuning::Verdict::kDifferent || verdict == tuning::Verdict::kTrespassed) {
      decision.page->failed = true;
      Fallback(key.problem, "UCUDNN_CHECK found the plan wrong; it is never used again");
      Fallback(key.problem, checked.verification.message);
    }
    if (verdict == tuning::Verdict::kEqual) decision.ran = true;
    if (checked.piece_failed) {
      decision.page->failed = true;
      Fallback(key.problem, kPieceFailed);
    }
    if (checked.done) {
      if (verdict != tuning::Verdict::kEqual) count_undivided();
      return CUDNN_STATUS_SUCCESS;
    }
  }
  if (!may_run && !alone) {
    count_undivided();
    status = plan.RunUndivided(call, outcome);
  } else if (capturing && !decision.ran) {
    count_undivided();
    return ConvolveUnplanned(asked, session, key);
  } else {
    status = plan.Run(call, outcome);
    if (outcome != Outcome::kPlanned) count_undivided();
    if (!capturing) decision.ran.store(outcome == Outcome::kPlanned, std::memory_order_relaxed);
    const bool replaced = outcome == Outcome::kUndivided && status == CUDNN_STATUS_SUCCESS;
    if (plan.has_pieces() && (replaced || outcome == Outcome::kFailed)) {
      decision.page->failed = true;
      Fallback(key.problem, kPieceFailed);
    } else if (may_run && outcome == Outcome::kNotAttempted) {
      Fallback(key.problem, "a piece failed; the call runs as the caller asked");
    }
  }
  // Nothing of ours is under way then, and the caller's own call may still do.
  const bool undivided_failed = outcome == Outcome::kUndivided && status != CUDNN_STATUS_SUCCESS;
  if (undivided_failed || outcome == Outcome::kNotAttempted) {
    return alone ? ConvolveUnplanned(asked, session, key) : cudnn::Convolve(functions_, asked);
  }
  return status;
}

void Interposer::NoteBudgets() {
  std::lock_guard lock(networks_mutex_);
  for (const auto& [device, network] : networks_) NoteBudget(*network);
}

std::string Interposer::ReportText() {
  NoteBudgets();
  return report_.Json(ModeName(options_.mode), kernels_.measured());
}

void Interposer::WriteReport() {
  if (options_.report.empty() || report_.empty()) return;
  NoteBudgets();
  std::lock_guard lock(report_mutex_);
  const Status status =
      report_.Write(options_.report, ModeName(options_.mode), kernels_.measured());
  if (!status.ok()) WarnOnce("report", "the report cannot be written: " + status.message());
}

}  // namespace ucudnn::interposer
