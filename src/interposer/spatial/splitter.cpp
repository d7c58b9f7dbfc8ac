#include "interposer/spatial/splitter.h"

#include <unistd.h>

#include <thread>

#include "base/log.h"
#include "cuda/resources.h"
#include "interposer/report/spatial_record.h"
#include "interposer/session/sessions.h"
#include "options/launcher_note.h"

namespace ucudnn::interposer {
namespace {

// Returns whether gradients are summed over ranks; none if the user has not set it.
std::optional<bool> SumsOf(const SpatialOptions& spatial) {
  if (!spatial.reduce) return std::nullopt;
  return *spatial.reduce == SpatialReduction::kAll;
}

}  // namespace

Splitter::Splitter(const Options& options, const cudnn::Functions& functions,
                   const cuda::Driver* driver, const WorkspaceLimit& limit)
    : options_(options),
      driver_(driver),
      process_(getpid()),
      gradient_sums_(SumsOf(options.spatial)),
      meeting_(options, functions, driver, limit) {
  const int ranks = options.spatial.in_process ? options.spatial.size : 1;
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

cudnnStatus_t Splitter::Refuse(const std::string& what) const {
  refused_.Add(what);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

Result<int> Splitter::RankOf(cudnnHandle_t handle, CUcontext context) {
  const SpatialOptions& spatial = options_.spatial;
  if (!spatial.in_process) return spatial.rank;
  int rank = -1;
  if (spatial.transport == Transport::kPeer) {
    const cuda::ContextScope scope(*driver_, context);
    CUdevice device = -1;
    if (driver_->cuCtxGetDevice(&device) != CUDA_SUCCESS) {
      return Status::Error("a split call is on no device");
    }
    rank = device;
    if (rank >= spatial.size) {
      return Status::Error("device " + std::to_string(rank) + " is no rank of the grid " +
                           spatial.grid->Text());
    }
  } else {
    MutexLock lock(mutex_);
    const auto joined = joined_.find(handle);
    if (joined == joined_.end()) {
      return Status::Error("a cuDNN handle belongs to no rank: ucudnnSpatialJoin says to which");
    }
    rank = joined->second;
  }
  // A thread belongs to one rank only: a thread that made calls for two ranks would wait for
  // itself.
  if (bound_.splitter != this) bound_ = {this, rank};
  if (bound_.rank == rank) return rank;
  return Status::Error("a thread makes split calls for rank " + std::to_string(bound_.rank) +
                       " and for rank " + std::to_string(rank) +
                       ": each rank of one process has a thread of its own");
}

spatial::SplitCalls* Splitter::CallsOf(int number) {
  Rank& rank = At(number);
  if (spatial::SplitCalls* calls = rank.calls.load(std::memory_order_acquire)) return calls;
  MutexLock lock(rank.mutex);
  if (!rank.met) {
    rank.met = true;
    auto met = meeting_.Meet(number, gradient_sums_,
                             [&rank](const char* transport, const std::string& library) {
                               MutexLock own(rank.mutex);
                               rank.transport = transport;
                               rank.library = library;
                             });
    if (met.ok()) {
      rank.owned = std::move(*met);
    } else {
      Log(LogLevel::kError, met.message());
      TellLauncher(LauncherNote::kFailed, met.message());
    }
    rank.calls.store(rank.owned.get(), std::memory_order_release);
  }
  return rank.owned.get();
}

spatial::SplitCalls* Splitter::CallsOf(cudnnHandle_t handle, CUcontext context) {
  const Result<int> rank = RankOf(handle, context);
  if (rank.ok()) return CallsOf(*rank);
  Refuse(rank.message());
  return nullptr;
}

cudnnStatus_t Splitter::Run(const spatial::SplitCall& call, spatial::LocalCall& local) {
  if (!refusal().empty()) return Refuse(refusal());
  if (getpid() != process_) return Refuse("a process that a rank forked is no rank");
  spatial::SplitCalls* const calls = CallsOf(call.call.handle, call.context);
  if (calls == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  // Only now is the thread's rank known, and with it whether the rank's calls are excluded.
  if (!enabled()) return local.Run(call.call);
  spatial::SplitCall said = call;
  said.declared = declared_;
  said.declared.is_replicated = declared_.is_replicated || call.declared.is_replicated;
  using Pair = spatial::CallDeclarations::Pair;
  declared_.pair = declared_.pair == Pair::kFirst ? Pair::kSecond : Pair::kNone;
  return calls->Run(said, local);
}

cudnnStatus_t Splitter::RefuseCall(Operation operation, cudnnHandle_t handle, CUcontext context,
                                   const std::string& what) {
  if (getpid() != process_) return Refuse("a process that a rank forked is no rank");
  if (spatial::SplitCalls* calls = CallsOf(handle, context)) {
    calls->NoteRefused(operation, handle);
  }
  return Refuse(what);
}

cudnnStatus_t Splitter::Fail(const char* why) noexcept {
  if (!refusal().empty() || getpid() != process_) return CUDNN_STATUS_NOT_SUPPORTED;
  try {
    // Ranks that are still meeting wait for this rank, so this rank must meet them before it can
    // tell them of the failure. If ranks are threads, it is unknown to which rank this call
    // belongs.
    if (!options_.spatial.in_process) CallsOf(options_.spatial.rank);
    for (const auto& rank : ranks_) {
      spatial::SplitCalls* const calls = rank->calls.load(std::memory_order_acquire);
      if (calls != nullptr) calls->Fail(why);
    }
  } catch (...) {
    // Out of host memory even for the message. The other ranks will notice that this rank's next
    // record is missing.
  }
  return CUDNN_STATUS_EXECUTION_FAILED;
}

Status Splitter::Enable(bool enabled) {
  const int rank = ThisRank();
  if (rank < 0) {
    return Status::Error("the calling thread has made no split call yet, so it is no rank's");
  }
  At(rank).enabled.store(enabled, std::memory_order_relaxed);
  return Status::Ok();
}

Status Splitter::Join(cudnnHandle_t handle, int rank) {
  const SpatialOptions& spatial = options_.spatial;
  if (!spatial.in_process || spatial.transport != Transport::kLoopback) {
    return Status::Error(
        "only where ranks are threads of one process that no launcher started, with "
        "UCUDNN_SPATIAL_TRANSPORT=loopback, does a handle say its rank");
  }
  if (rank < 0 || rank >= spatial.size) {
    return Status::Error("the grid " + spatial.grid->Text() + " has no rank " +
                         std::to_string(rank));
  }
  MutexLock lock(mutex_);
  joined_[handle] = rank;
  return Status::Ok();
}

Status Splitter::Await(cudnnHandle_t handle, const Session& session) {
  UCUDNN_ASSIGN_OR_RETURN(const int rank, RankOf(handle, session.context()));
  spatial::SplitCalls* const calls = At(rank).calls.load(std::memory_order_acquire);
  if (calls == nullptr) return Status::Ok();
  return calls->Await(session.context(), session.stream());
}

void Splitter::Forget(cudnnHandle_t handle) {
  {
    MutexLock lock(mutex_);
    joined_.erase(handle);
  }
  for (const auto& rank : ranks_) {
    spatial::SplitCalls* const calls = rank->calls.load(std::memory_order_acquire);
    if (calls != nullptr) calls->Forget(handle);
  }
}

void Splitter::Note(Report& report) const {
  SplitJob job;
  job.refused = refused_.Counts();
  for (size_t at = 0; at < ranks_.size(); ++at) {
    Rank& rank = *ranks_[at];
    const spatial::SplitCalls* const calls = rank.calls.load(std::memory_order_acquire);
    if (calls == nullptr) continue;
    const spatial::SplitFigures figures = calls->figures();
    RankEntry& track = job.ranks.emplace_back(ReportedRank(calls->kernel_figures()));
    track.rank = options_.spatial.in_process ? static_cast<int>(at) : options_.spatial.rank;
    track.calls = static_cast<int64_t>(figures.calls);
    track.owned_bytes = figures.owned_bytes;
    {
      MutexLock lock(rank.mutex);
      track.transport = rank.transport;
      track.library = rank.library;
    }
    job.calls += figures.calls;
    job.exchanged_bytes += figures.exchanged_bytes;
    job.owned_bytes += figures.owned_bytes;
  }
  if (!options_.spatial.grid || (job.ranks.empty() && job.refused.empty())) return;
  job.grid = *options_.spatial.grid;
  job.rank = options_.spatial.rank;
  job.size = options_.spatial.size;
  report.SetSplit(std::move(job));
}

void Splitter::Leave() {
  // Each rank waits for the others, so each leaves on a thread of its own.
  std::vector<std::thread> leaving;
  for (const auto& rank : ranks_) {
    spatial::SplitCalls* const calls = rank->calls.load(std::memory_order_acquire);
    if (calls == nullptr) continue;
    const auto leave = [calls] {
      const std::optional<std::string> line = calls->Leave();
      if (!line) return;
      Log(LogLevel::kError, *line);
      TellLauncher(LauncherNote::kUnequal, *line);
    };
    if (ranks_.size() == 1) {
      leave();
      continue;
    }
    try {
      leaving.emplace_back(leave);
    } catch (...) {
      // The system has no thread or memory left. The other ranks wait a bounded time for this rank.
    }
  }
  for (std::thread& thread : leaving) thread.join();
  if (getpid() == process_) meeting_.End();
}

Session* SplitContext::SessionOf(cudnnHandle_t handle) const { return sessions.Of(handle); }

}  // namespace ucudnn::interposer
