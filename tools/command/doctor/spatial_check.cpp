#include "command/doctor/spatial_check.h"

#include <algorithm>
#include <optional>

#include "base/byte_size.h"
#include "base/shared_library.h"
#include "base/text.h"
#include "command/numbers.h"
#include "command/report/spatial_page.h"
#include "transport/nccl_functions.h"

namespace ucudnn::command {
namespace {

// A rank's wait for exchanges, or for sums, becomes a finding if it is longer than this share of a
// step.
constexpr double kNotableShare = 0.05;

std::string LauncherName(const std::string& rank_variable, bool is_ours) {
  if (is_ours) return "`ucudnn run --ranks`";
  if (rank_variable == "RANK") return "torchrun, or one that sets its variables";
  if (rank_variable == "OMPI_COMM_WORLD_RANK") return "Open MPI";
  if (rank_variable == "PMI_RANK") return "MPICH or one of its kind";
  return "SLURM";
}

std::string LauncherText(const Options& options) {
  const SpatialOptions& spatial = options.spatial;
  const LauncherRanks& launcher = spatial.launcher;
  if (spatial.in_process) return "none: the ranks are threads of the process";
  if (launcher.rank < 0) {
    return "none that says which rank this process is; those that the program starts may have one";
  }
  std::string text = LauncherName(launcher.rank_variable, !options.launcher_socket.empty()) + ": " +
                     launcher.rank_variable + "=" + std::to_string(launcher.rank) + ", " +
                     launcher.size_variable + "=" + std::to_string(launcher.size);
  if (launcher.local_size > 0) {
    text += ", " + std::to_string(launcher.local_size) + " of them on this host";
  }
  return text;
}

std::string RendezvousText(const SpatialOptions& spatial) {
  if (!spatial.rendezvous) {
    return spatial.in_process ? "a file in the folder for temporary ones" : "nobody says where";
  }
  const char* const by = spatial.rendezvous_given ? "UCUDNN_RENDEZVOUS" : "as the launcher says";
  return spatial.rendezvous->Text() + " (" + by + ", " +
         (spatial.token.empty() ? "without a token)" : "with a token)");
}

bool IsLocalHost(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void CheckRendezvous(const SpatialOptions& spatial, Diagnosis& diagnosis) {
  if (!spatial.rendezvous || spatial.rendezvous->in_file()) return;
  const LauncherRanks& launcher = spatial.launcher;
  const bool is_local = IsLocalHost(spatial.rendezvous->host);
  if (is_local && launcher.local_size > 0 && launcher.local_size < launcher.size) {
    diagnosis.Add(Severity::kFault,
                  "ranks meet at " + spatial.rendezvous->Text() + ", but only " +
                      std::to_string(launcher.local_size) + " of " + std::to_string(launcher.size) +
                      " are on this host",
                  "those of other hosts do not reach it",
                  "set UCUDNN_RENDEZVOUS=tcp://HOST:PORT to rank 0's host");
  }
  if (!is_local && spatial.token.empty()) {
    diagnosis.Add(Severity::kNote, "ranks meet without a token",
                  "whoever reaches the port can stand for one of them",
                  "set UCUDNN_RENDEZVOUS_TOKEN to a secret, the same on all ranks");
  }
}

// Returns the number of CUDA devices; unset if no driver works.
std::optional<int> CountDevices() {
  const Result<SharedLibrary> library = SharedLibrary::Open("libcuda.so.1");
  if (!library.ok()) return std::nullopt;
  const auto init = reinterpret_cast<int (*)(unsigned)>(library->Symbol("cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(library->Symbol("cuDeviceGetCount"));
  int devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&devices) != 0) {
    return std::nullopt;
  }
  return devices;
}

const char* OfTransport(const SpatialOptions& spatial) {
  switch (spatial.transport) {
    case Transport::kNccl:
      return "nccl: between GPUs";
    case Transport::kPeer:
      return "peer: copies between the GPUs of one process's threads";
    case Transport::kLoopback:
      return spatial.in_process ? "loopback: copies between one process's threads, on any GPU"
                                : "loopback: through host memory";
    case Transport::kAuto:
      break;
  }
  return "auto: nccl where each rank has a GPU of its own, peer between threads of one process, "
         "loopback where ranks share a GPU";
}

void CheckTransport(const SpatialOptions& spatial, const std::string& cudnn_file,
                    Diagnosis& diagnosis) {
  diagnosis.AddFact("transport", OfTransport(spatial));
  const auto loaded = transport::nccl::Load(cudnn_file);
  diagnosis.AddFact(
      "NCCL", loaded.ok() ? transport::nccl::VersionText(loaded->version) + ", " + loaded->file
                          : "no: " + loaded.message());
  const bool may_be_nccl = spatial.transport == Transport::kNccl ||
                           (spatial.transport == Transport::kAuto && !spatial.in_process);
  if (may_be_nccl && !loaded.ok()) {
    diagnosis.Add(Severity::kWarning, "no NCCL was found: " + loaded.message(),
                  "ranks with a GPU each exchange over it; a program may still bring its own",
                  "install NCCL (libnccl2, or nvidia-nccl from PyPI)");
  }
  const std::optional<int> devices = CountDevices();
  const int local = spatial.in_process ? spatial.size : spatial.launcher.local_size;
  const bool share = devices && local > *devices;
  const bool by_host = spatial.transport == Transport::kLoopback && !spatial.in_process;
  if (share || by_host) {
    diagnosis.Add(Severity::kNote,
                  share ? std::to_string(local) + " ranks share the " + Counted(*devices, "GPU") +
                              " of this host"
                        : "rows travel through host memory",
                  "that is meant for tests: it is slower than one rank",
                  "to be faster, give each rank a GPU of its own, and leave "
                  "UCUDNN_SPATIAL_TRANSPORT at auto");
  }
}

void CheckSettings(const Options& options, Diagnosis& diagnosis) {
  if (options.spatial.agree == SpatialAgreement::kEach) {
    diagnosis.Add(Severity::kNote,
                  "UCUDNN_SPATIAL_AGREE=each: ranks wait for each other at every call",
                  "each tells the others its extents, through rank 0",
                  "to be faster, unset it, if extents do not change while the program runs");
  }
  if (options.check) {
    diagnosis.Add(Severity::kNote, "UCUDNN_CHECK=1: each call waits for all ranks' records", "",
                  "to be faster, unset it");
  }
}

std::string PercentText(double share) { return NumberText("%.0f %%", 100 * share); }

void CheckStep(const RankEntry& rank, Diagnosis& diagnosis) {
  const std::string name = "rank " + std::to_string(rank.rank);
  const StepTimes share = StepTimesOf(rank);
  if (share.step_ms <= 0) {
    diagnosis.AddFact("", name + ": no step was timed");
    return;
  }
  diagnosis.AddFact("", name + ": a step takes " + Milliseconds(share.step_ms) + ", exchanges " +
                            Milliseconds(share.exchange_ms) + ", of which " +
                            Milliseconds(share.exposed_exchange_ms) + " are waited for");
  if (share.worst && share.exposed_exchange_ms > kNotableShare * share.step_ms) {
    diagnosis.Add(Severity::kNote,
                  name + " waits for exchanges in " +
                      PercentText(share.exposed_exchange_ms / share.step_ms) +
                      " of a step, most in " + SplitKernelLabel(rank.kernels[*share.worst]),
                  "its own part is done before its rows come, or another rank comes later",
                  "to be faster, use fewer and larger stripes, or more images at a time");
  }
  if (share.exposed_sum_ms > kNotableShare * share.step_ms) {
    diagnosis.Add(Severity::kNote,
                  name + " waits for sums of gradients in " +
                      PercentText(share.exposed_sum_ms / share.step_ms) + " of a step",
                  "each filter gradient waits for its own sum",
                  "to be faster, defer them: ucudnnSpatialDefer(1), then ucudnnSpatialAwait");
  }
}

bool Exchanges(const SplitKernelEntry& kernel) { return kernel.moved_bytes() > 0; }

// Returns whether dy of a layer is sent twice, for the data gradient and for the filter gradient.
// It is sent once if the program calls ucudnnSpatialSameGradient.
bool SendsTwice(const RankEntry& rank) {
  for (const SplitKernelEntry& data : rank.kernels) {
    if (data.op != "backward_data" || !data.problem || !Exchanges(data)) continue;
    for (const SplitKernelEntry& filter : rank.kernels) {
      if (filter.op != "backward_filter" || !filter.problem || !Exchanges(filter)) continue;
      ConvolutionProblem other = *filter.problem;
      other.operation = Operation::kBackwardData;
      other.x_strides = data.problem->x_strides;
      other.alignment = data.problem->alignment;
      if (other == *data.problem && data.paired_calls + filter.paired_calls == 0) return true;
    }
  }
  return false;
}

void CheckKernels(const RankEntry& rank, Diagnosis& diagnosis) {
  int64_t most_slices = 1;
  for (const SplitKernelEntry& kernel : rank.kernels) {
    most_slices = std::max(most_slices, kernel.slices);
    if (kernel.verdict != "refused") continue;
    diagnosis.Add(Severity::kWarning, SplitKernelLabel(kernel) + " is refused on all ranks",
                  kernel.reason, "docs/spatial.md says what can be split");
  }
  // The exchanges of a call's first two slices overlap with work. The exchanges of further slices
  // cost time.
  if (most_slices > 2) {
    diagnosis.Add(Severity::kNote,
                  "a call exchanges its images in up to " + std::to_string(most_slices) + " slices",
                  "what is exchanged at once takes at most a quarter of the workspace limit, and "
                  "what comes behind the first two is not hidden",
                  "to be faster, raise UCUDNN_WORKSPACE_LIMIT or UCUDNN_TOTAL_WORKSPACE (256 MiB "
                  "are for exchanges without either)");
  }
  if (SendsTwice(rank)) {
    diagnosis.Add(Severity::kNote, "rows of dy travel twice, once for each gradient of a layer", "",
                  "to be faster, call ucudnnSpatialSameGradient() before the two calls");
  }
}

}  // namespace

void CheckSplitting(const Options& options, const std::string& cudnn_file, Diagnosis& diagnosis) {
  const SpatialOptions& spatial = options.spatial;
  if (!spatial.grid) return;
  std::string split =
      spatial.grid->Text() + ", " + std::to_string(spatial.grid->Ranks()) + " ranks";
  if (spatial.rank >= 0) split += ", this process is rank " + std::to_string(spatial.rank);
  diagnosis.AddFact("split over", split);
  diagnosis.AddFact("launcher", LauncherText(options));
  diagnosis.AddFact("rendezvous", RendezvousText(spatial));
  CheckRendezvous(spatial, diagnosis);
  CheckTransport(spatial, cudnn_file, diagnosis);
  CheckSettings(options, diagnosis);
}

void CheckSplitJob(const SplitJob& job, Diagnosis& diagnosis) {
  bool is_first = true;
  for (const RankEntry& rank : job.ranks) {
    const std::string library = rank.library.empty() ? "" : " (" + rank.library + ")";
    diagnosis.AddFact(is_first ? "exchanges" : "",
                      "rank " + std::to_string(rank.rank) + " of " + job.grid.Text() + ": " +
                          (rank.transport.empty() ? "none yet" : rank.transport + library));
    CheckStep(rank, diagnosis);
    // The first rank is enough, because all ranks have the same kernels.
    if (is_first) CheckKernels(rank, diagnosis);
    is_first = false;
  }
  for (const RefusedEntry& one : job.refused) {
    diagnosis.Add(Severity::kWarning, one.what, "it was called " + Counted(one.count, "time"));
  }
}

}  // namespace ucudnn::command
