// Which process of a job this one is, by the variables of the launcher that started it: torchrun
// (and `ucudnn run --ranks`), Open MPI, MPICH and its relatives, SLURM. Pure functions.
#pragma once

#include <functional>
#include <string>

namespace ucudnn {

// The value of an environment variable; null when it is unset.
using VariableLookup = std::function<const char*(const char*)>;

struct LauncherRanks {
  // -1: no variable says. The first launcher whose rank can be read says all of them.
  int rank = -1;
  int size = -1;
  int local_rank = -1;        // among the job's processes of this host
  int local_size = 0;         // how many those are; 0: unsaid
  std::string rank_variable;  // who said the rank; empty: nobody
  std::string size_variable;  // of the same launcher, also where it is unset
  std::string fault;          // why rank, size and local rank make no sense; empty: they do
  std::string meeting_host;   // where ranks may meet: rank 0's host; empty: nobody says
  int meeting_port = 0;       // there: the same on all ranks, and most likely not another job's
};

LauncherRanks ReadLauncher(const VariableLookup& lookup);

}  // namespace ucudnn
