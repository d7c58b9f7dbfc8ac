// One workspace budget for all kernels: how the network is learned from the program's calls, and
// how a call runs in the library's own workspace.
#include "interposer/library_workspace.h"

#include <algorithm>

#include "base/byte_size.h"
#include "base/log.h"
#include "cuda/resources.h"
#include "cudnn/legacy_engines.h"
#include "planning/library_promise.h"

namespace ucudnn::interposer {

using planning::Candidate;
using planning::Promise;

Interposer::LibraryWorkspace::LibraryWorkspace(const Interposer& interposer, Session& session,
                                               cudnnHandle_t handle, const LibraryPart& part,
                                               bool wanted, bool capturing)
    : session_(session) {
  Network* const network = session.network();
  if (!wanted || network == nullptr || part.bytes == 0) return;
  const cuda::Driver& driver = *interposer.driver_;
  const cuda::ContextScope scope(driver, session.context());
  const CUstream stream = session.stream();
  auto owner = execution::OwnerOf(driver, handle, stream);
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
  segment_.memory = session.FindWorkspace(*owner, part.bytes);
  if (segment_.memory.data != nullptr) return;
  try {
    segment_ = network->Take(*owner, part);
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
  if (!options_.total_workspace || options_.mode != Mode::kOn) return nullptr;
  const cuda::ContextScope scope(*driver_, context);
  CUdevice device = 0;
  if (driver_->cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  std::lock_guard lock(networks_mutex_);
  std::unique_ptr<Network>& network = networks_[device];
  if (network == nullptr) {
    const cuda::RelaxedCaptureScope relaxed(*driver_);
    size_t budget = *options_.total_workspace, free_bytes = 0, device_bytes = 0;
    if (driver_->cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) {
      networks_.erase(device);
      return nullptr;
    }
    if (budget > device_bytes) {
      WarnOnce("budget", "the total workspace of " + FormatByteSize(budget) +
                             " is more than the device has: " + FormatByteSize(device_bytes) +
                             " are planned with");
      budget = device_bytes;
    }
    network = std::make_unique<Network>(*driver_, context, budget, options_.division);
    NoteBudget(network->summary());
  }
  if (network->context() == context) return network.get();
  WarnOnce("contexts", "a second context on one device has no part in the total workspace");
  return nullptr;
}

void Interposer::NoteBudget(const Network::Summary& summary) {
  report_.SetBudget({*options_.total_workspace, summary.budget_bytes,
                     WorkspaceDivisionName(options_.division), summary.divided, summary.kernels,
                     summary.total_bytes, summary.optimal});
}

size_t Interposer::LibraryLimit() const {
  const size_t limit = limit_is_auto_.load(std::memory_order_acquire) ? kNoLimit : limit_.load();
  return std::min(*options_.total_workspace, limit);
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
    const auto owner = execution::OwnerOf(*driver_, handle, session.stream());
    if (!owner) return;
    const KernelSequence::Known known = network.Run(kernel, *owner);
    if (known != KernelSequence::Known::kNotYet) Divide(network, session, handle, known);
  } catch (...) {
    WarnOnce("memory", "out of host memory: the total workspace is not divided");
    session.network()->Stop();
  }
}

std::vector<Configuration> Interposer::LibraryChoices(const MetKernel& met, Session& session,
                                                      cudnnHandle_t handle) {
  const Kernel kernel{met.problem, &session, handle};
  const Measurements measured =
      Measured(kernel, RequestFor(met.problem, LibraryLimit()), options_.tuning.on);
  const std::vector<Candidate> candidates = OwnCandidates(met.problem, measured);
  return planning::LibraryChoices(
      candidates, LibraryRequest(met.problem, candidates, met.algorithm, LibraryLimit()));
}

void Interposer::Divide(Network& network, Session& session, cudnnHandle_t handle,
                        KernelSequence::Known known) {
  const std::vector<MetKernel> kernels = network.Kernels();
  std::vector<std::vector<Configuration>> choices;
  for (const MetKernel& met : kernels) {
    // Of plans that were made to choose from, most never run: they are not worth measuring.
    const bool may_run = met.plan == nullptr || known == KernelSequence::Known::kRepeated;
    const bool may_measure = options_.tuning.on && may_run;
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
  const Network::Summary summary = network.summary();
  NoteBudget(summary);
  if (!summary.divided) return;
  Log(LogLevel::kInfo, FormatByteSize(summary.budget_bytes) + " of workspace divided among " +
                           std::to_string(summary.kernels) + " kernels (" +
                           WorkspaceDivisionName(options_.division) +
                           "): " + FormatByteSize(summary.total_bytes) + " reserved");
  if (summary.total_bytes == 0) {
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
  const auto owner = execution::OwnerOf(*driver_, call.handle, kernel.session->stream());
  if (!owner) return std::nullopt;
  const Network::Share share = network->ShareOf({kernel.problem}, *owner);
  decision.library.kernel = share.kernel;
  const Measurements measured =
      Measured(kernel, RequestFor(kernel.problem, LibraryLimit()), may_measure);
  settled = measured.settled;
  const std::vector<Candidate> candidates = OwnCandidates(kernel.problem, measured);
  planning::PromiseRequest request = LibraryRequest(kernel.problem, candidates, call.algorithm,
                                                    std::min(share.bytes, LibraryLimit()));
  request.deterministic |= told && told->reported.deterministic;
  return planning::MakeLibraryPromise(candidates, request);
}

}  // namespace ucudnn::interposer
