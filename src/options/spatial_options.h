// Options about splitting images over ranks: UCUDNN_SPATIAL…, UCUDNN_RENDEZVOUS… and the launcher's
// variables. They are part of Options. Pure functions.
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

// When ranks gather their extents: at a kernel's first execution, or at each execution.
enum class SpatialAgreement { kFirst, kEach };
enum class SpatialReduction { kAll, kNone };
// How maps of extent 1 on every rank are treated.
enum class SpatialOnes { kSplit, kReplicated };
enum class Transport { kAuto, kNccl, kPeer, kLoopback };

struct SpatialOptions {
  std::optional<SpatialGrid> grid;  // none: nothing is split
  // This process's place in its job, by the launcher's variables; -1: unknown.
  int rank = -1;
  int size = -1;
  int local_rank = -1;
  // True if all ranks of the grid are threads of this process, and no launcher started it. With
  // `peer` a call's device determines its rank, with `loopback` its handle does.
  bool in_process = false;
  // Where ranks meet, by the user's variable or the launcher's; none: unknown.
  std::optional<RendezvousAddress> rendezvous;
  bool rendezvous_given = false;
  std::string token;  // the job's secret, never shown; empty: none
  double timeout_seconds = 600;
  SpatialAgreement agree = SpatialAgreement::kFirst;
  std::optional<SpatialReduction> reduce;
  std::optional<SpatialOnes> ones;
  Transport transport = Transport::kAuto;

  // Why every convolution, pooling and normalisation of this process is refused, as one line;
  // empty: they are not refused.
  std::string refusal;
  // The calls are refused because no launcher tells which rank this process is. Processes that it
  // starts may be ranks.
  bool lacks_ranks = false;

  LauncherRanks launcher;
  std::vector<std::string> faults;  // unreadable and unknown variables, a line each
};

const char* SpatialAgreementName(SpatialAgreement agreement);
const char* SpatialReductionName(SpatialReduction reduction);
const char* SpatialOnesName(SpatialOnes ones);
const char* TransportName(Transport transport);

// Returns whether a variable of this name, known or not, is about splitting. A run that cannot obey
// such a variable must not go on without it.
bool IsSpatialVariable(std::string_view name);
// Returns whether the variable's value may be a secret.
bool IsSecretVariable(std::string_view name);

// Sets the members that follow from the variables: ranks, meeting place, refusal.
// `leaves_calls_alone` is the value of UCUDNN_MODE if that leaves calls alone (off, observe), else
// null.
void ConcludeSpatial(const char* leaves_calls_alone, SpatialOptions& spatial);

}  // namespace ucudnn
