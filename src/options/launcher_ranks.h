// Finds this process's rank in its job, from the variables of the launcher that started the
// process: torchrun (and `ucudnn run --ranks`), Open MPI, MPICH and its relatives, SLURM. Pure
// functions.
#pragma once

#include <functional>
#include <string>

namespace ucudnn {

// Returns the value of an environment variable; null if it is unset.
using VariableLookup = std::function<const char*(const char*)>;

struct LauncherRanks {
  // This process's rank; -1: no variable gives a rank. All members come from one launcher: the
  // first one in the table of launcher_ranks.cpp whose rank variable has a number.
  int rank = -1;
  int size = -1;
  int local_rank = -1;        // number among the job's processes on this host; -1: unknown
  int local_size = 0;         // number of the job's processes on this host; 0: unknown
  std::string rank_variable;  // the variable that gave the rank; empty: none
  std::string size_variable;  // the launcher's variable for `size`, even if the variable is unset
  // what is wrong with the variables of rank, size and local rank; empty: they are right
  std::string fault;
  std::string meeting_host;  // rank 0's host, where ranks may meet; empty: unknown
  // A port of meeting_host that is equal on all ranks. Other jobs most likely have different ports.
  int meeting_port = 0;
};

LauncherRanks ReadLauncher(const VariableLookup& lookup);

}  // namespace ucudnn
