#include "interposer/spatial/rank_meeting.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/shared_library.h"
#include "base/version.h"
#include "transport/meeting.h"
#include "transport/opening.h"

namespace ucudnn::interposer {
namespace {

// The most memory for exchanges if the user sets no limit. If all images of a call together need
// more, the images are exchanged in slices, one after the other.
constexpr size_t kMostBufferBytes = size_t{256} << 20;

// Returns the options that must be equal on all ranks, with their values as text.
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

Result<RendezvousAddress> RankMeeting::OwnPlace() {
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

size_t RankMeeting::MostBufferBytes() const {
  const size_t limit = options_.total_workspace.value_or(limit_.set_bytes());
  return limit == kNoLimit ? kMostBufferBytes : ExchangeShare(limit);
}

Result<std::unique_ptr<spatial::SplitCalls>> RankMeeting::Meet(int rank,
                                                               spatial::GradientSums& sums,
                                                               OnOpened on_opened) {
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
    // All ranks have met, and the meeting's file is gone. The folder is removed now, so that
    // nothing is left even if the process is killed later.
    rmdir(std::filesystem::path(meeting.place.path).parent_path().c_str());
  }
  spatial::SplitSettings settings;
  settings.grid = grid;
  settings.shared_options = std::string("ucudnn ") + kVersion + ", " + grid.Text();
  settings.agrees_each_time = spatial.agree == SpatialAgreement::kEach;
  settings.sums = &sums;
  settings.ones = spatial.ones;
  settings.most_buffer_bytes = [this] { return MostBufferBytes(); };
  settings.deterministic = options_.deterministic;
  settings.waits_for_records = options_.check;
  settings.times_exchanges = !options_.report.empty();
  settings.warning = meeting.times.warning;
  settings.timeout = meeting.times.timeout;
  // If the program uses NCCL from Python wheels, NCCL is installed beside the wheels' cuDNN, so
  // OpenChannel gets the path of that cuDNN.
  const std::string cudnn_file = FileOf(reinterpret_cast<const void*>(functions_.cudnnCreate));
  auto open =
      [cudnn_file, wanted = spatial.transport, on_opened = std::move(on_opened)](
          const transport::ChannelSetup& setup) -> Result<std::unique_ptr<transport::Channel>> {
    UCUDNN_ASSIGN_OR_RETURN(auto opened, transport::OpenChannel(setup, wanted, cudnn_file));
    if (setup.rank == 0 && !opened.choice.note.empty()) {
      WarnOnce("transport", opened.choice.note);
    }
    on_opened(TransportName(opened.choice.transport), opened.library);
    return std::move(opened.channel);
  };
  return std::make_unique<spatial::SplitCalls>(std::move(settings), functions_, *driver_,
                                               std::move(ranks), std::move(open));
}

void RankMeeting::End() {
  MutexLock lock(mutex_);
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace ucudnn::interposer
