// One workspace budget for all kernels: how the network is learned from the program's calls, and
// how a call runs in the library's own workspace.
#include "interposer/library_workspace.h"

#include <algorithm>

#include "base/byte_size.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "cuda/resources.h"
#include "cudnn/legacy_engines.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

namespace {

// Of the build and install tree's lib/libucudnn.so.1.
constexpr char kGlpkPlugin[] = "ucudnn/libucudnn_glpk.so";

// Empty where the exact solver is asked for.
std::string SolverPath(const Options& options) {
  if (options.solver != Solver::kGlpk) return {};
  const std::string self = FileOf(kGlpkPlugin);
  const size_t folder = self.rfind('/');
  // Never out of the folder that the program happens to run in.
  return folder == std::string::npos ? std::string("/") + kGlpkPlugin
                                     : self.substr(0, folder + 1) + kGlpkPlugin;
}

}  // namespace

std::optional<execution::ArenaOwner> OwnerOf(const cuda::Driver& driver, const Session& session,
                                             cudnnHandle_t handle) {
  auto owner = execution::OwnerOf(driver, handle, session.stream());
  if (const void* const lane = session.order(); owner && lane != nullptr) {
    owner = execution::ArenaOwner{lane};
    owner->capturable = true;
  }
  return owner;
}

Interposer::LibraryWorkspace::LibraryWorkspace(const Interposer& interposer, Session& session,
                                               cudnnHandle_t handle, const LibraryPart& part,
                                               bool wanted, bool capturing)
    : session_(session) {
  Network* const network = session.network();
  if (!wanted || network == nullptr || part.bytes == 0) return;
  const cuda::Driver& driver = *interposer.driver_;
  const cuda::ContextScope scope(driver, session.context());
  const CUstream stream = session.stream();
  auto owner = OwnerOf(driver, session, handle);
  if (!owner) return;
  if (capturing) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t capture = 0;
    const bool known = driver.cuStreamGetCaptureInfo(stream, &status, &capture, nullptr, nullptr,
                                                     nullptr) == CUDA_SUCCESS;
    if (known) segment_.memory = network->TakeForCapture(capture, *owner, part.bytes);
    return;
  }
  owner = network->SlotOwner(*owner, part.kernel);
  segment_.memory = session.FindWorkspace(*owner, part.bytes, network->generation());
  if (segment_.memory.data != nullptr) return;
  try {
    segment_ = network->Take(*owner, part, stream);
    const bool stays = segment_.memory.data != nullptr && !segment_.lent;
    if (stays) session.KeepWorkspace(*owner, segment_.memory);
  } catch (...) {
    // Out of host memory: what was taken stays its owner's.
    if (!segment_.lent) segment_ = {};
  }
}

Interposer::LibraryWorkspace::~LibraryWorkspace() {
  if (!segment_.lent || segment_.memory.data == nullptr) return;
  session_.network()->GiveBack(segment_.memory, session_.stream());
}

Network* Interposer::NetworkOf(CUcontext context) {
  if (options_.mode != Mode::kOn) return nullptr;
  const cuda::ContextScope scope(*driver_, context);
  const planning::PinnedPlan* pinned = nullptr;
  if (!options_.plan.empty()) {
    const auto platform = tuning::DescribePlatform(*driver_, functions_);
    if (platform.ok()) pinned = pinned_.For(*platform);
  }
  const bool divided = pinned != nullptr && pinned->total_bytes;
  if (!options_.total_workspace && !divided) return nullptr;
  CUdevice device = 0;
  if (driver_->cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  std::lock_guard lock(networks_mutex_);
  std::unique_ptr<Network>& network = networks_[device];
  if (network == nullptr) {
    const cuda::RelaxedCaptureScope relaxed(*driver_);
    size_t budget = options_.total_workspace ? *options_.total_workspace : *pinned->total_bytes;
    size_t free_bytes = 0, device_bytes = 0;
    if (driver_->cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) {
      networks_.erase(device);
      return nullptr;
    }
    if (pinned != nullptr && pinned->reserved_bytes > device_bytes) {
      pinned_.Ignore("its segments take " + FormatByteSize(pinned->reserved_bytes) +
                     ", and the device has " + FormatByteSize(device_bytes));
      pinned = nullptr;
      if (!options_.total_workspace) {
        networks_.erase(device);
        return nullptr;
      }
    }
    if (budget > device_bytes) {
      WarnOnce("budget", "the total workspace of " + FormatByteSize(budget) +
                             " is more than the device has: " + FormatByteSize(device_bytes) +
                             " are planned with");
      budget = device_bytes;
    }
    network = std::make_unique<Network>(*driver_, context, budget, options_.division,
                                        SolverPath(options_), pinned);
    NoteBudget(*network);
  }
  if (network->context() == context) return network.get();
  WarnOnce("contexts", "a second context on one device has no part in the total workspace");
  return nullptr;
}

void Interposer::NoteBudget(const Network& network) {
  const Network::Summary summary = network.summary();
  report_.SetBudget(
      &network, {options_.total_workspace.value_or(network.budget_bytes()), summary.budget_bytes,
                 WorkspaceDivisionName(network.division()), summary.divided, summary.kernels,
                 summary.held_bytes, summary.capture_bytes, summary.solver, summary.optimal});
}

size_t Interposer::LibraryLimit(const Network& network) const {
  const size_t limit = limit_is_auto_.load(std::memory_order_acquire) ? kNoLimit : limit_.load();
  return std::min(network.budget_bytes(), limit);
}

planning::PromiseRequest Interposer::LibraryRequest(const ConvolutionProblem& problem,
                                                    const std::vector<Candidate>& candidates,
                                                    int algorithm, size_t limit_bytes) const {
  planning::PromiseRequest request = RequestFor(problem, limit_bytes);
  request.chosen = cudnn::LegacyNumericClass(problem.operation, algorithm);
  const std::string engine = cudnn::LegacyEngineName({algorithm, std::nullopt});
  // Where nothing tells, what the caller named may be deterministic.
  request.deterministic |=
      std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.micro.engine == engine && !candidate.micro.deterministic;
      });
  return request;
}

void Interposer::Learn(const MetKernel& kernel, Session& session, cudnnHandle_t handle) noexcept {
  try {
    if (Capturing(session)) return;
    Network& network = *session.network();
    const cuda::ContextScope scope(*driver_, session.context());
    const auto owner = OwnerOf(*driver_, session, handle);
    if (!owner) return;
    const KernelSequence::Known known = network.Run(kernel, *owner);
    if (known != KernelSequence::Known::kNotYet) Divide(network, session, handle, known);
  } catch (...) {
    WarnOnce("memory", "out of host memory: the total workspace is not divided");
    session.network()->Stop();
  }
}

void Interposer::SettleNow(Session& session) noexcept {
  try {
    if (Capturing(session)) return;
    const cuda::ContextScope scope(*driver_, session.context());
    session.network()->SettleNow();
  } catch (...) {
    // Out of memory: a later call tries again.
  }
}

std::vector<Configuration> Interposer::LibraryChoices(const MetKernel& met, Session& session,
                                                      cudnnHandle_t handle) {
  const Kernel kernel{met.problem, &session, handle};
  const size_t limit = LibraryLimit(*session.network());
  const Measurements measured =
      Measured(kernel, RequestFor(met.problem, limit), Tunes(session, met.problem));
  const std::vector<Candidate> candidates = OwnCandidates(met.problem, measured);
  return planning::LibraryChoices(candidates,
                                  LibraryRequest(met.problem, candidates, met.algorithm, limit));
}

Status Interposer::EndRecording(cudnnHandle_t handle) {
  Session* const session = SessionOf(handle);
  if (session == nullptr) return Status::Error("the handle is unknown");
  Network* const network = session->network();
  if (network == nullptr) return Status::Ok();
  if (Capturing(*session)) return Status::Error("the handle's stream is captured");
  const cuda::ContextScope scope(*driver_, session->context());
  try {
    UCUDNN_ASSIGN_OR_RETURN(const KernelSequence::Known known, network->EndLearning());
    if (known != KernelSequence::Known::kNotYet) Divide(*network, *session, handle, known);
    return Status::Ok();
  } catch (...) {
    network->Stop();
    throw;
  }
}

Status Interposer::DeclareOrder(cudnnHandle_t first, cudnnHandle_t second) {
  Session* const sessions[] = {SessionOf(first), SessionOf(second)};
  if (sessions[0] == nullptr || sessions[1] == nullptr) {
    return Status::Error("one of the handles is unknown");
  }
  Network* const network = sessions[0]->network();
  if (network != sessions[1]->network()) {
    return Status::Error("the handles are of different devices");
  }
  if (network == nullptr) {
    sessions_.Order(*sessions[0], *sessions[1]);
    return Status::Ok();
  }
  UCUDNN_ASSIGN_OR_RETURN(const Network::Lane lane, network->DeclareOrder(first, second));
  for (const void* const handle : lane.handles) {
    Session* const session = sessions_.Find(static_cast<cudnnHandle_t>(const_cast<void*>(handle)));
    if (session != nullptr) session->set_order(lane.name);
  }
  return Status::Ok();
}

void Interposer::Divide(Network& network, Session& session, cudnnHandle_t handle,
                        KernelSequence::Known known) {
  const std::vector<MetKernel> kernels = network.Kernels();
  std::vector<std::vector<Configuration>> choices;
  for (const MetKernel& met : kernels) {
    // Of plans that were made to choose from, most never run: they are not worth measuring.
    const bool may_run = met.plan == nullptr || known == KernelSequence::Known::kRepeated;
    const bool may_measure = Tunes(session, met.problem, met.plan == nullptr) && may_run;
    choices.push_back(met.plan == nullptr
                          ? LibraryChoices(met, session, handle)
                          : graph_.LibraryChoices(*met.plan, session, handle, may_measure));
    if (choices.back().empty() && may_run) {
      Fallback(met.problem, "not measured without workspace, so it has no part in the total");
    }
  }
  if (const Status status = network.Divide(kernels, std::move(choices), known); !status.ok()) {
    WarnOnce("division", "the total workspace is not divided: " + status.message());
    network.Stop();
    return;
  }
  // All that runs was measured.
  if (known == KernelSequence::Known::kRepeated) kernels_.ReleaseHelpers();
  const Network::Summary summary = network.summary();
  NoteBudget(network);
  if (!summary.divided) return;
  Log(LogLevel::kInfo, FormatByteSize(summary.budget_bytes) + " of workspace divided among " +
                           std::to_string(summary.kernels) + " kernels (" +
                           WorkspaceDivisionName(options_.division) + "): they may use " +
                           FormatByteSize(summary.shares_bytes));
  if (!summary.asked_only && summary.shares_bytes == 0) {
    WarnOnce("budget", "the total workspace of " + FormatByteSize(summary.budget_bytes) +
                           " makes no kernel faster: all run without");
  }
}

std::optional<Promise> Interposer::PlanInLibrary(const cudnn::LegacyCall& call,
                                                 const Kernel& kernel,
                                                 const std::optional<Promise>& told,
                                                 bool may_measure, Decision& decision,
                                                 bool& settled) {
  Network* const network = kernel.session->network();
  if (network == nullptr) return std::nullopt;
  const cuda::ContextScope scope(*driver_, kernel.session->context());
  const auto owner = OwnerOf(*driver_, *kernel.session, call.handle);
  if (!owner) return std::nullopt;
  FindPinned(kernel);  // what does not hold has no share of the file's
  const Network::Share share = network->ShareOf({kernel.problem}, *owner);
  decision.library.kernel = share.kernel;
  const size_t limit = std::min(share.bytes, LibraryLimit(*network));
  if (auto pinned = PinnedPromise(kernel, call.algorithm, limit, told);
      pinned && (pinned->plan.Deterministic() || !told || !told->reported.deterministic)) {
    return pinned;
  }
  const Measurements measured =
      Measured(kernel, RequestFor(kernel.problem, LibraryLimit(*network)), may_measure);
  settled = measured.settled;
  const std::vector<Candidate> candidates = OwnCandidates(kernel.problem, measured);
  planning::PromiseRequest request =
      LibraryRequest(kernel.problem, candidates, call.algorithm, limit);
  request.deterministic |= told && told->reported.deterministic;
  return planning::MakeLibraryPromise(candidates, request);
}

}  // namespace ucudnn::interposer
