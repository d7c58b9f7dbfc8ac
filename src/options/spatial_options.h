// Options about splitting images over ranks, from UCUDNN_SPATIAL…, UCUDNN_RENDEZVOUS… and the
// launcher's variables. They are a part of Options. The functions keep no state; ConcludeSpatial
// sets members of `spatial`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "options/launcher_ranks.h"
#include "options/rendezvous_address.h"

namespace ucudnn {

// Says when the ranks gather the extents of their parts of the images: at a kernel's first
// execution, or at each execution.
enum class SpatialAgreement { kFirst, kEach };
enum class SpatialReduction { kAll, kNone };
// Says how a convolution is treated whose images have extent 1 along a cut axis on every rank. With
// kSplit, the tensors count as stripes, and the convolution is split. With kReplicated, the tensors
// count as copies, and each rank runs the convolution alone.
enum class SpatialOnes { kSplit, kReplicated };
enum class Transport { kAuto, kNccl, kPeer, kLoopback };

struct SpatialOptions {
  std::optional<SpatialGrid> grid;  // none: nothing is split
  // This process's rank in its job, by the launcher's variables; -1: unknown.
  int rank = -1;
  int size = -1;
  int local_rank = -1;
  // True if the transport is `peer` or `loopback` and no launcher has set a rank. All ranks of the
  // grid are then threads of this process. With `peer`, a call's rank is the rank of its device;
  // with `loopback`, it is the rank of its handle.
  bool in_process = false;
  // The place where ranks meet, from the user's variable or from the launcher's variables; none:
  // unknown.
  std::optional<RendezvousAddress> rendezvous;
  bool rendezvous_given = false;
  std::string token;  // the job's secret, which is never shown; empty: none
  double timeout_seconds = 600;
  SpatialAgreement agree = SpatialAgreement::kFirst;
  std::optional<SpatialReduction> reduce;
  std::optional<SpatialOnes> ones;
  Transport transport = Transport::kAuto;

  // The reason why every convolution, pooling and normalisation of this process is refused, in one
  // line; empty: they are not refused.
  std::string refusal;
  // True if `refusal` says that no launcher has set this process's rank. Processes that this
  // process starts may then still be ranks.
  bool lacks_ranks = false;

  LauncherRanks launcher;
  std::vector<std::string> faults;  // a line for each variable that is unreadable or unknown
};

const char* SpatialAgreementName(SpatialAgreement agreement);
const char* SpatialReductionName(SpatialReduction reduction);
const char* SpatialOnesName(SpatialOnes ones);
const char* TransportName(Transport transport);

// Returns whether a variable of this name is about splitting, even if ucudnn has no such variable.
// A run must not go on if such a variable cannot be obeyed.
bool IsSpatialVariable(std::string_view name);
// Returns whether the variable's value may be a secret.
bool IsSecretVariable(std::string_view name);

// Sets the members that follow from the variables: ranks, meeting place, refusal.
// `leaves_calls_alone` is the value of UCUDNN_MODE ("off", "observe") if this mode changes no call,
// otherwise null.
void ConcludeSpatial(const char* leaves_calls_alone, SpatialOptions& spatial);

}  // namespace ucudnn
