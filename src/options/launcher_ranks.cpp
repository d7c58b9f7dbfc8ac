#include "options/launcher_ranks.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

// The variables of one launcher. Of several names for a member, the first one that is set is used.
struct Launcher {
  const char* rank;
  std::vector<const char*> size;
  const char* local_rank;
  // The variable for the number of the job's processes on this host; null if the launcher sets
  // none.
  const char* local_size;
  // The variables for the number of the job's hosts; empty if the launcher sets none.
  std::vector<const char*> hosts;
};

const Launcher kLaunchers[] = {
    {"RANK", {"WORLD_SIZE"}, "LOCAL_RANK", "LOCAL_WORLD_SIZE", {}},
    {"OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {}},
    {"PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {}},
    {"SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}},
};

// Returns the variable's value; empty if it is unset.
std::string ValueOrEmpty(const VariableLookup& lookup, const char* name) {
  const char* const value = name != nullptr ? lookup(name) : nullptr;
  return value != nullptr ? value : "";
}

const char* FirstSet(const VariableLookup& lookup, const std::vector<const char*>& names) {
  for (const char* const name : names) {
    if (!ValueOrEmpty(lookup, name).empty()) return name;
  }
  return names.empty() ? nullptr : names.front();
}

// Returns the number in `text`; -1 if it is not a whole number of 0 or more.
int RankNumber(const std::string& text) {
  int number = -1;
  return ReadNumber(text, number) && number >= 0 ? number : -1;
}

std::string ShownVariable(const char* name, const std::string& value) {
  return std::string(name) + "=" + Quoted(value);
}

// Returns the first host of a SLURM node list: "gpu07" for "gpu[07-09,12],login1".
std::string FirstOfNodeList(const std::string& list) {
  const size_t bracket = list.find_first_of("[,");
  if (bracket == std::string::npos || list[bracket] == ',') return list.substr(0, bracket);
  const size_t number_end = list.find_first_of("-,]", bracket + 1);
  const size_t close = list.find(']', bracket);
  if (number_end == std::string::npos || close == std::string::npos) return {};
  const std::string rest = list.substr(close + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, number_end - bracket - 1) +
         rest.substr(0, rest.find_first_of("[,"));
}

// Returns a port from 20000 to 32000, below the range that Linux uses for outgoing connections
// (32768 up). The port is a hash of `job`. If the hash is `not_this`, returns the next port.
int PortOf(const std::string& job, int not_this) {
  constexpr uint32_t kFirst = 20000, kPorts = 12000;
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  const int port = static_cast<int>(kFirst + hash % kPorts);
  return port == not_this ? port + 1 : port;
}

void FindMeeting(const VariableLookup& lookup, const Launcher& launcher, LauncherRanks& ranks) {
  const int local_size = RankNumber(ValueOrEmpty(lookup, launcher.local_size));
  ranks.local_size = std::max(local_size, 0);
  const bool on_one_host =
      local_size > 0 ? local_size == ranks.size
                     : RankNumber(ValueOrEmpty(lookup, FirstSet(lookup, launcher.hosts))) == 1;
  ranks.meeting_host = ValueOrEmpty(lookup, "MASTER_ADDR");
  if (ranks.meeting_host.empty() && on_one_host) ranks.meeting_host = "127.0.0.1";
  if (ranks.meeting_host.empty() && !launcher.hosts.empty()) {
    // SLURM starts rank 0 on the first host.
    ranks.meeting_host = FirstOfNodeList(
        ValueOrEmpty(lookup, FirstSet(lookup, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})));
  }
  std::string job = ValueOrEmpty(lookup, "MASTER_PORT");
  const int master_port = RankNumber(job);
  if (job.empty()) job = ValueOrEmpty(lookup, "PMIX_NAMESPACE");
  if (job.empty())
    job = ValueOrEmpty(lookup, "SLURM_JOB_ID") + "." + ValueOrEmpty(lookup, "SLURM_STEP_ID");
  ranks.meeting_port = PortOf(job, master_port);
}

// Returns whether this process may be a batch script rather than a task of srun. SLURM starts a
// batch script as process 0. The processes that the script starts get their ranks from srun or
// another launcher. An srun step of a single task has the same variables as a script, so it counts
// as a script, too.
bool IsBatchStep(const VariableLookup& lookup, const Launcher& launcher, int rank) {
  if (std::string_view(launcher.rank) != "SLURM_PROCID" || rank != 0) return false;
  const std::string tasks = ValueOrEmpty(lookup, "SLURM_STEP_NUM_TASKS");
  return tasks.empty() || tasks == "1";
}

// Describes what is wrong with the launcher's variables; empty if nothing is wrong. `unreadable` is
// the first rank variable whose value is not a number, in the form "RANK='two'"; empty: none.
std::string FaultOf(const LauncherRanks& ranks, const std::string& size,
                    const std::string& local_rank, const std::string& unreadable) {
  if (!unreadable.empty()) return unreadable + " is no rank: expected a number from 0";
  if (ranks.rank < 0) return {};
  const std::string rank = ranks.rank_variable + "=" + std::to_string(ranks.rank);
  if (size.empty()) return rank + " says a rank, but " + ranks.size_variable + " is not set";
  const std::string shown = ShownVariable(ranks.size_variable.c_str(), size);
  if (ranks.size < 1) return shown + " is no number of ranks";
  if (ranks.rank >= ranks.size) return rank + " is no rank of " + shown + ": those begin with 0";
  if (!local_rank.empty() && ranks.local_rank < 0)
    return "the local rank " + Quoted(local_rank) + " is no number";
  return {};
}

}  // namespace

LauncherRanks ReadLauncher(const VariableLookup& lookup) {
  LauncherRanks ranks;
  std::string unreadable;
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = ValueOrEmpty(lookup, launcher.rank);
    const int number = RankNumber(rank);
    if (rank.empty() || IsBatchStep(lookup, launcher, number)) continue;
    if (number < 0) {
      if (unreadable.empty()) unreadable = ShownVariable(launcher.rank, rank);
      continue;
    }
    ranks.rank = number;
    ranks.rank_variable = launcher.rank;
    ranks.size_variable = FirstSet(lookup, launcher.size);
    const std::string size = ValueOrEmpty(lookup, ranks.size_variable.c_str());
    const std::string local_rank = ValueOrEmpty(lookup, launcher.local_rank);
    ranks.size = RankNumber(size);
    ranks.local_rank = RankNumber(local_rank);
    ranks.fault = FaultOf(ranks, size, local_rank, unreadable);
    FindMeeting(lookup, launcher, ranks);
    return ranks;
  }
  ranks.fault = FaultOf(ranks, {}, {}, unreadable);
  return ranks;
}

}  // namespace ucudnn
