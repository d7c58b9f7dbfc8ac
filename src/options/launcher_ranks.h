// Tells which process of a job this one is, by the variables of the launcher that started it:
// torchrun (and `ucudnn run --ranks`), Open MPI, MPICH and its relatives, SLURM. Pure functions.
#pragma once

#include <functional>
#include <string>

namespace ucudnn {

// Returns the value of an environment variable; null if it is unset.
using VariableLookup = std::function<const char*(const char*)>;

struct LauncherRanks {
  // -1: no variable gives it. All members come from the first launcher whose rank can be read.
  int rank = -1;
  int size = -1;
  int local_rank = -1;        // among the job's processes of this host
  int local_size = 0;         // number of the job's processes on this host; 0: unknown
  std::string rank_variable;  // the variable that gave the rank; empty: none
  std::string size_variable;  // of the same launcher, even if it is unset
  std::string fault;          // why rank, size and local rank make no sense; empty: they do
  std::string meeting_host;   // rank 0's host, where ranks may meet; empty: unknown
  // A port of that host: equal on all ranks, and most likely not another job's.
  int meeting_port = 0;
};

LauncherRanks ReadLauncher(const VariableLookup& lookup);

}  // namespace ucudnn
