#include "interposer/spatial/splitter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "base/shared_library.h"
#include "base/version.h"
#include "cuda/resources.h"
#include "options/launcher_note.h"
#include "transport/opening.h"

namespace ucudnn::interposer {
namespace {

// The most memory for one exchange if the user sets no limit. If not all images fit, they are
// exchanged in slices, one after the other.
constexpr size_t kMostBufferBytes = size_t{256} << 20;

constexpr size_t kMostRefused = 256;  // names of refused calls for the report

// Returns whether gradients are summed over ranks; none: the API decides.
std::optional<bool> SumsOf(const SpatialOptions& spatial) {
  if (!spatial.reduce) return std::nullopt;
  return *spatial.reduce == SpatialReduction::kAll;
}

// Returns the values that all ranks must share, as text.
std::vector<transport::Term> TermsOf(const Options& options) {
  const SpatialOptions& spatial = options.spatial;
  const auto bytes = [](const std::optional<size_t>& size) {
    return size ? std::to_string(*size) + " bytes" : "unset";
  };
  return {
      {"UCUDNN_SPATIAL", spatial.grid->Text()},
      {"UCUDNN_SPATIAL_AGREE", SpatialAgreementName(spatial.agree)},
      {"UCUDNN_SPATIAL_REDUCE", spatial.reduce ? SpatialReductionName(*spatial.reduce) : "unset"},
      {"UCUDNN_SPATIAL_ONE", spatial.ones ? SpatialOnesName(*spatial.ones) : "unset"},
      {"UCUDNN_SPATIAL_TRANSPORT", TransportName(spatial.transport)},
      {"UCUDNN_WORKSPACE_LIMIT", bytes(options.workspace_limit)},
      {"UCUDNN_TOTAL_WORKSPACE", bytes(options.total_workspace)},
      {"UCUDNN_DETERMINISTIC", options.deterministic ? "1" : "0"},
  };
}

}  // namespace

Splitter::Splitter(const Options& options, const cudnn::Functions& functions,
                   const cuda::Driver* driver, const WorkspaceLimit& limit)
    : options_(options),
      functions_(functions),
      driver_(driver),
      limit_(limit),
      process_(getpid()),
      gradient_sums_(SumsOf(options.spatial)) {
  const int ranks = options.spatial.in_process ? options.spatial.size : 1;
  for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>());
}

cudnnStatus_t Splitter::Refuse(const std::string& what) const {
  WarnOnce("split " + what, what);
  MutexLock lock(refused_mutex_);
  if (refused_.size() < kMostRefused || refused_.contains(what)) ++refused_[what];
  return CUDNN_STATUS_NOT_SUPPORTED;
}

Result<RendezvousAddress> Splitter::OwnPlace() {
  MutexLock lock(mutex_);
  if (folder_.empty()) {
    std::error_code error;
    std::string folder =
        (std::filesystem::temp_directory_path(error) / "ucudnn-ranks-XXXXXX").string();
    if (error || mkdtemp(folder.data()) == nullptr) {
      return Status::Error("ranks of one process need a folder for temporary files to meet in");
    }
    folder_ = std::move(folder);
  }
  RendezvousAddress place;
  place.path = folder_ + "/meeting";
  return place;
}

size_t Splitter::MostBufferBytes() const {
  const size_t limit = options_.total_workspace.value_or(limit_.set_bytes());
  return limit == kNoLimit ? kMostBufferBytes : ShareOf(limit);
}

Result<std::unique_ptr<spatial::SplitCalls>> Splitter::Meet(int rank) {
  const SpatialOptions& spatial = options_.spatial;
  if (driver_ == nullptr) return Status::Error("there is no CUDA driver to split convolutions on");
  transport::Meeting meeting;
  const SpatialGrid& grid = *spatial.grid;
  meeting.membership = {rank, spatial.size, grid.GroupOf(rank), grid.GroupRankOf(rank),
                        grid.GroupSize()};
  if (spatial.rendezvous) {
    meeting.place = *spatial.rendezvous;
  } else if (spatial.in_process) {
    UCUDNN_ASSIGN_OR_RETURN(meeting.place, OwnPlace());
  } else {
    return Status::Error(
        "nobody says where ranks meet: UCUDNN_RENDEZVOUS=tcp://host:port or file:PATH");
  }
  meeting.token = spatial.token;
  meeting.local_size = spatial.in_process ? spatial.size : spatial.launcher.local_size;
  meeting.version = kVersion;
  meeting.terms = TermsOf(options_);
  meeting.times.timeout = transport::Milliseconds(static_cast<long>(spatial.timeout_seconds * 1e3));
  meeting.times.warning = std::min(meeting.times.warning, meeting.times.timeout / 2);
  UCUDNN_ASSIGN_OR_RETURN(auto ranks, transport::Ranks::Join(meeting));
  if (!spatial.rendezvous && spatial.in_process) {
    // All ranks have met, and their file is removed: a process that is killed leaves nothing
    // behind.
    rmdir(std::filesystem::path(meeting.place.path).parent_path().c_str());
  }
  spatial::SplitSettings settings;
  settings.grid = grid;
  settings.shared_options = std::string("ucudnn ") + kVersion + ", " + grid.Text();
  settings.agrees_each_time = spatial.agree == SpatialAgreement::kEach;
  settings.sums = &gradient_sums_;
  settings.ones = spatial.ones;
  settings.most_buffer_bytes = [this] { return MostBufferBytes(); };
  settings.deterministic = options_.deterministic;
  settings.waits_for_records = options_.check;
  settings.times_exchanges = !options_.report.empty();
  settings.warning = meeting.times.warning;
  settings.timeout = meeting.times.timeout;
  const Transport wanted = spatial.transport;
  // The NCCL of the program's own wheels lies beside its cuDNN.
  const std::string cudnn_file = FileOf(reinterpret_cast<const void*>(functions_.cudnnCreate));
  const auto open =
      [cudnn_file, wanted, own = &At(rank)](
          const transport::ChannelSetup& setup) -> Result<std::unique_ptr<transport::Channel>> {
    UCUDNN_ASSIGN_OR_RETURN(auto opened, transport::OpenChannel(setup, wanted, cudnn_file));
    if (setup.rank == 0 && !opened.choice.note.empty()) {
      WarnOnce("transport", opened.choice.note);
    }
    MutexLock lock(own->mutex);
    own->transport = TransportName(opened.choice.transport);
    own->library = opened.library;
    return std::move(opened.channel);
  };
  return std::make_unique<spatial::SplitCalls>(std::move(settings), functions_, *driver_,
                                               std::move(ranks), open);
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
  // A thread that acted for two ranks would wait for itself.
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
    auto met = Meet(number);
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
  // The thread may have belonged to no rank until now.
  if (!enabled()) return local.Run(call.call);
  spatial::SplitCall said = call;
  said.declared = declared_;
  said.declared.is_replicated = declared_.is_replicated || call.declared.is_replicated;
  using Pair = spatial::Declared::Pair;
  declared_.pair = declared_.pair == Pair::kFirst ? Pair::kSecond : Pair::kNone;
  return calls->Run(said, local);
}

cudnnStatus_t Splitter::RefuseCall(Operation operation, cudnnHandle_t handle,
                                   const Session& session, const std::string& what) {
  if (getpid() != process_) return Refuse("a process that a rank forked is no rank");
  if (spatial::SplitCalls* calls = CallsOf(handle, session.context())) {
    calls->NoteRefused(operation, handle);
  }
  return Refuse(what);
}

cudnnStatus_t Splitter::Fail(const char* why) noexcept {
  if (!refusal().empty() || getpid() != process_) return CUDNN_STATUS_NOT_SUPPORTED;
  try {
    // Ranks that have yet to meet wait for this one. If ranks are threads, it is unknown whose call
    // this was.
    if (!options_.spatial.in_process) CallsOf(options_.spatial.rank);
    for (const auto& rank : ranks_) {
      spatial::SplitCalls* const calls = rank->calls.load(std::memory_order_acquire);
      if (calls != nullptr) calls->Fail(why);
    }
  } catch (...) {
    // Memory is out even for the message, so the other ranks will miss this rank's next record.
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

void Splitter::DeclareReplicated(cudnnTensorDescriptor_t tensor, bool replicated) {
  MutexLock lock(replicated_mutex_);
  if (replicated) {
    replicated_.insert(tensor);
  } else {
    replicated_.erase(tensor);
  }
  any_replicated_.store(!replicated_.empty(), std::memory_order_release);
}

bool Splitter::IsReplicated(cudnnTensorDescriptor_t tensor) const {
  if (!any_replicated_.load(std::memory_order_acquire)) return false;
  MutexLock lock(replicated_mutex_);
  return replicated_.contains(tensor);
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
  SpatialRecord record;
  {
    MutexLock lock(refused_mutex_);
    record.refused.assign(refused_.begin(), refused_.end());
  }
  for (size_t at = 0; at < ranks_.size(); ++at) {
    Rank& rank = *ranks_[at];
    const spatial::SplitCalls* const calls = rank.calls.load(std::memory_order_acquire);
    if (calls == nullptr) continue;
    const spatial::SplitFigures figures = calls->figures();
    RankRecord& track = record.tracks.emplace_back();
    track.rank = options_.spatial.in_process ? static_cast<int>(at) : options_.spatial.rank;
    track.calls = figures.calls;
    track.owned_bytes = figures.owned_bytes;
    track.figures = calls->kernel_figures();
    {
      MutexLock lock(rank.mutex);
      track.transport = rank.transport;
      track.library = rank.library;
    }
    record.calls += figures.calls;
    record.exchanged_bytes += figures.exchanged_bytes;
    record.owned_bytes += figures.owned_bytes;
  }
  if (!options_.spatial.grid || (record.tracks.empty() && record.refused.empty())) return;
  record.grid = options_.spatial.grid->Text();
  record.rank = options_.spatial.rank;
  record.ranks = options_.spatial.size;
  report.SetSpatial(std::move(record));
}

void Splitter::Leave() {
  // Ranks leave on threads of their own, because each waits for the others.
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
      // The system has no thread, or no memory for one, so the others wait a bounded time for this
      // rank's end.
    }
  }
  for (std::thread& thread : leaving) thread.join();
  MutexLock lock(mutex_);
  if (!folder_.empty() && getpid() == process_) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
}

}  // namespace ucudnn::interposer
