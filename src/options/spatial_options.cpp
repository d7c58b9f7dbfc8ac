#include "options/spatial_options.h"

namespace ucudnn {
namespace {

std::string InRanks(int ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

// Returns why this process cannot be one of the ranks of the grid; empty if it can be one.
std::string RefuseRanks(const SpatialOptions& spatial) {
  const LauncherRanks& launcher = spatial.launcher;
  const std::string grid =
      "the grid " + spatial.grid->Text() + " is for " + InRanks(spatial.grid->Ranks());
  if (!launcher.fault.empty()) return grid + ", but " + launcher.fault;
  if (spatial.transport == Transport::kPeer && launcher.size > 1) {
    return "UCUDNN_SPATIAL_TRANSPORT='peer' is for ranks that are threads of one process, but " +
           launcher.size_variable + "=" + std::to_string(launcher.size);
  }
  if (spatial.in_process) return {};
  if (launcher.rank < 0) {
    return grid +
           ", and no launcher says which one this process is; start it with `ucudnn run --ranks " +
           std::to_string(spatial.grid->Ranks()) + "`, torchrun, mpirun or srun";
  }
  if (launcher.size != spatial.grid->Ranks()) {
    return grid + ", but " + launcher.size_variable + "=" + std::to_string(launcher.size);
  }
  if (launcher.size > 1 && !spatial.rendezvous) {
    return grid +
           ", and nobody says where they meet: set UCUDNN_RENDEZVOUS to tcp://HOST:PORT, rank 0's "
           "host, or to file:PATH";
  }
  return {};
}

}  // namespace

const char* SpatialAgreementName(SpatialAgreement agreement) {
  return agreement == SpatialAgreement::kFirst ? "first" : "each";
}

const char* SpatialReductionName(SpatialReduction reduction) {
  return reduction == SpatialReduction::kAll ? "all" : "none";
}

const char* SpatialOnesName(SpatialOnes ones) {
  return ones == SpatialOnes::kSplit ? "split" : "replicated";
}

const char* TransportName(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kNccl:
      return "nccl";
    case Transport::kPeer:
      return "peer";
    case Transport::kLoopback:
      return "loopback";
  }
  return "";
}

bool IsSpatialVariable(std::string_view name) {
  return name.starts_with("UCUDNN_SPATIAL") || name.starts_with("UCUDNN_RENDEZVOUS");
}

bool IsSecretVariable(std::string_view name) {
  // Any other name that begins with UCUDNN_RENDEZVOUS may be a misspelt UCUDNN_RENDEZVOUS_TOKEN.
  return name.starts_with("UCUDNN_RENDEZVOUS") && name != "UCUDNN_RENDEZVOUS";
}

void ConcludeSpatial(const char* leaves_calls_alone, SpatialOptions& spatial) {
  const LauncherRanks& launcher = spatial.launcher;
  const bool by_threads =
      spatial.transport == Transport::kPeer || spatial.transport == Transport::kLoopback;
  spatial.in_process = spatial.grid && by_threads && launcher.rank < 0 && launcher.fault.empty();
  spatial.rank = launcher.rank;
  spatial.size = spatial.in_process ? spatial.grid->Ranks() : launcher.size;
  spatial.local_rank = launcher.local_rank;
  if (!spatial.rendezvous_given) {
    spatial.rendezvous.reset();
    if (!launcher.meeting_host.empty()) {
      spatial.rendezvous = RendezvousAddress{
          launcher.meeting_host, static_cast<uint16_t>(launcher.meeting_port), {}};
    }
  }
  spatial.refusal.clear();
  spatial.lacks_ranks = false;
  if (!spatial.faults.empty()) {
    spatial.refusal = spatial.faults.front();
  } else if (spatial.grid && leaves_calls_alone != nullptr) {
    spatial.refusal = "the grid " + spatial.grid->Text() +
                      " does not go with UCUDNN_MODE=" + leaves_calls_alone +
                      ": each rank would compute its stripe without its neighbours' rows";
  } else if (spatial.grid) {
    spatial.refusal = RefuseRanks(spatial);
    spatial.lacks_ranks = !spatial.refusal.empty() && launcher.rank < 0 && launcher.fault.empty();
  }
}

}  // namespace ucudnn
