#include "interposer/spatial/splitter.h"

#include <unistd.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/launcher_note.h"
#include "base/log.h"
#include "base/version.h"
#include "transport/opening.h"

namespace ucudnn::interposer {
namespace {

// Without a limit of the user's: what an exchange may take at once. More images than fit are
// exchanged one slice after the other.
constexpr size_t kMostBufferBytes = size_t{256} << 20;

transport::Transport WantedOf(SpatialTransport transport) {
  switch (transport) {
    case SpatialTransport::kAuto:
      return transport::Transport::kAuto;
    case SpatialTransport::kNccl:
      return transport::Transport::kNccl;
    case SpatialTransport::kPeer:
      return transport::Transport::kPeer;
    case SpatialTransport::kLoopback:
      break;
  }
  return transport::Transport::kLoopback;
}

// All that ranks must have in common, in words.
std::vector<transport::Term> TermsOf(const Options& options) {
  const SpatialOptions& spatial = options.spatial;
  return {
      {"UCUDNN_SPATIAL", spatial.grid->Text()},
      {"UCUDNN_SPATIAL_AGREE", SpatialAgreementName(spatial.agree)},
      {"UCUDNN_SPATIAL_REDUCE", spatial.reduce ? SpatialReductionName(*spatial.reduce) : "unset"},
      {"UCUDNN_SPATIAL_ONE", spatial.ones ? SpatialOnesName(*spatial.ones) : "unset"},
      {"UCUDNN_SPATIAL_TRANSPORT", SpatialTransportName(spatial.transport)},
      {"UCUDNN_WORKSPACE_LIMIT",
       options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "unset"},
      {"UCUDNN_DETERMINISTIC", options.deterministic ? "1" : "0"},
  };
}

transport::MeetingPlace PlaceOf(const RendezvousAddress& address) {
  transport::MeetingPlace place;
  place.host = address.host;
  place.port = static_cast<uint16_t>(address.port);
  place.file = address.path;
  return place;
}

}  // namespace

Splitter::Splitter(const Options& options, const cudnn::Functions& functions,
                   const cuda::Driver* driver)
    : options_(options), functions_(functions), driver_(driver), process_(getpid()) {}

cudnnStatus_t Splitter::Refuse(const std::string& what) const {
  WarnOnce("split " + what, what);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

Status Splitter::Meet() {
  const SpatialOptions& spatial = options_.spatial;
  if (driver_ == nullptr) return Status::Error("there is no CUDA driver to split convolutions on");
  if (spatial.in_process) {
    return Status::Error("ranks that are threads of one process are not served yet");
  }
  transport::Meeting meeting;
  const SpatialGrid& grid = *spatial.grid;
  meeting.membership = {spatial.rank, spatial.size, grid.GroupOf(spatial.rank),
                        grid.GroupRankOf(spatial.rank), grid.GroupSize()};
  if (!spatial.rendezvous) {
    return Status::Error(
        "nobody says where ranks meet: UCUDNN_RENDEZVOUS=tcp://host:port or file:PATH");
  }
  meeting.place = PlaceOf(*spatial.rendezvous);
  meeting.token = spatial.token;
  meeting.version = kVersion;
  meeting.terms = TermsOf(options_);
  meeting.times.timeout = transport::Milliseconds(static_cast<long>(spatial.timeout_seconds * 1e3));
  meeting.times.warning = std::min(meeting.times.warning, meeting.times.timeout / 2);
  UCUDNN_ASSIGN_OR_RETURN(auto ranks, transport::Ranks::Join(meeting));
  spatial::SplitSettings settings;
  settings.grid = grid;
  settings.shared_options = std::string("ucudnn ") + kVersion + ", " + grid.Text();
  settings.agrees_each_time = spatial.agree == SpatialAgreement::kEach;
  if (spatial.reduce) settings.sums_gradients = *spatial.reduce == SpatialReduction::kAll;
  if (spatial.ones) {
    settings.ones =
        *spatial.ones == SpatialOnes::kSplit ? spatial::Ones::kStripes : spatial::Ones::kCopies;
  }
  settings.most_buffer_bytes =
      options_.workspace_limit ? ShareOf(*options_.workspace_limit) : kMostBufferBytes;
  settings.deterministic = options_.deterministic;
  settings.waits_for_records = options_.check;
  settings.warning = meeting.times.warning;
  settings.timeout = meeting.times.timeout;
  const transport::Transport wanted = WantedOf(spatial.transport);
  const auto open =
      [this, wanted](
          const transport::ChannelSetup& setup) -> Result<std::unique_ptr<transport::Channel>> {
    UCUDNN_ASSIGN_OR_RETURN(auto opened,
                            transport::OpenChannel(setup, wanted, options_.real_cudnn));
    if (setup.rank == 0 && !opened.choice.note.empty()) {
      WarnOnce("transport", opened.choice.note);
    }
    return std::move(opened.channel);
  };
  owned_ = std::make_unique<spatial::SplitCalls>(std::move(settings), functions_, *driver_,
                                                 std::move(ranks), open);
  return Status::Ok();
}

spatial::SplitCalls* Splitter::Calls() {
  if (spatial::SplitCalls* calls = calls_.load(std::memory_order_acquire)) return calls;
  MutexLock lock(mutex_);
  if (!met_) {
    met_ = true;
    if (Status met = Meet(); !met.ok()) {
      Log(LogLevel::kError, met.message());
      TellLauncher(LauncherNote::kFailed, met.message());
    }
    calls_.store(owned_.get(), std::memory_order_release);
  }
  return owned_.get();
}

cudnnStatus_t Splitter::Run(const spatial::SplitCall& call, spatial::LocalCall& local) {
  if (!refusal().empty()) return Refuse(refusal());
  if (getpid() != process_) return CUDNN_STATUS_NOT_SUPPORTED;  // a forked child is no rank
  spatial::SplitCalls* const calls = Calls();
  if (calls == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  spatial::SplitCall said = call;
  said.is_replicated = IsReplicated();
  return calls->Run(said, local);
}

cudnnStatus_t Splitter::RefuseCall(Operation operation, cudnnHandle_t handle,
                                   const std::string& what) {
  if (spatial::SplitCalls* calls = Calls()) calls->NoteRefused(operation, handle);
  return Refuse(what);
}

cudnnStatus_t Splitter::Fail(const char* why) noexcept {
  try {
    // Ranks that have yet to meet wait for this one.
    if (spatial::SplitCalls* calls = Calls()) calls->Fail(why);
  } catch (...) {
    // Out of memory even for the line: the others miss this rank's next record.
  }
  return CUDNN_STATUS_EXECUTION_FAILED;
}

void Splitter::Forget(cudnnHandle_t handle) {
  if (spatial::SplitCalls* calls = calls_.load(std::memory_order_acquire)) calls->Forget(handle);
}

void Splitter::Note(Report& report) const {
  const spatial::SplitCalls* const calls = calls_.load(std::memory_order_acquire);
  if (calls == nullptr) return;
  const spatial::SplitFigures figures = calls->figures();
  report.SetSpatial({options_.spatial.grid->Text(), options_.spatial.rank, options_.spatial.size,
                     figures.calls, figures.exchanged_bytes, figures.owned_bytes});
}

void Splitter::Leave() {
  spatial::SplitCalls* const calls = calls_.load(std::memory_order_acquire);
  if (calls == nullptr) return;
  const std::optional<std::string> line = calls->Leave();
  if (!line) return;
  Log(LogLevel::kError, *line);
  TellLauncher(LauncherNote::kUnequal, *line);
}

}  // namespace ucudnn::interposer
