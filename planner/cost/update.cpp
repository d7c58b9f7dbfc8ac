#include "planner/cost/update.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kUpdateNames[] = {"parameter-server", "ring", "tree", "hierarchical",
                                        "owner"};

using Replicas = std::vector<int>;  // devices that hold the same parameters, in ascending order

double LatencyMs(const Machine& machine, int level) {
  return machine.levels[static_cast<size_t>(level)].latency_us * 1e-3;
}

// Counts the messages that cross each port of each level.
class PortLoads {
 public:
  explicit PortLoads(const Machine& machine) : machine_(machine) {
    for (int level = 0; level < static_cast<int>(machine.levels.size()); ++level) {
      out_.emplace_back(static_cast<size_t>(machine.Devices() / machine.PortDevices(level)), 0);
    }
    in_ = out_;
  }

  void Add(int from, int to) {
    const int joining = machine_.JoiningLevel(from, to);
    outermost_ = std::max(outermost_, joining);
    for (int level = 0; level <= joining; ++level) {
      const auto at = static_cast<size_t>(level);
      const int size = machine_.PortDevices(level);
      ++out_[at][static_cast<size_t>(from / size)];
      ++in_[at][static_cast<size_t>(to / size)];
    }
  }
  // Returns the time of sending all messages, of `bytes` each, at once. Leaves out latencies.
  double Ms(double bytes) const {
    double slowest = 0;
    for (size_t level = 0; level < out_.size(); ++level) {
      const int most = std::max(*std::max_element(out_[level].begin(), out_[level].end()),
                                *std::max_element(in_[level].begin(), in_[level].end()));
      slowest = std::max(slowest, most * bytes / (machine_.levels[level].gb_per_s * 1e6));
    }
    return slowest;
  }
  int outermost() const { return outermost_; }

 private:
  const Machine& machine_;
  std::vector<std::vector<int>> out_;  // by level and port
  std::vector<std::vector<int>> in_;
  int outermost_ = 0;
};

double ParameterServerMs(const Machine& machine, const Replicas& workers, double bytes) {
  double least_gb_per_s = machine.levels.front().gb_per_s;
  const int outermost = machine.JoiningLevel(workers.front(), workers.back());
  for (int level = 0; level <= outermost; ++level) {
    least_gb_per_s = std::min(least_gb_per_s, machine.levels[static_cast<size_t>(level)].gb_per_s);
  }
  return 2 * bytes / (least_gb_per_s * 1e6) + 2 * LatencyMs(machine, outermost);
}

double RingMs(const Machine& machine, const std::vector<Replicas>& groups, double bytes) {
  PortLoads loads(machine);
  const size_t replicas = groups.front().size();
  for (const Replicas& group : groups) {
    for (size_t i = 0; i < replicas; ++i) loads.Add(group[i], group[(i + 1) % replicas]);
  }
  const double steps = 2.0 * static_cast<double>(replicas - 1);
  return steps *
         (loads.Ms(bytes / static_cast<double>(replicas)) + LatencyMs(machine, loads.outermost()));
}

double OwnerMs(const Machine& machine, const std::vector<Replicas>& groups, double bytes) {
  PortLoads loads(machine);
  for (const Replicas& group : groups) {
    for (const int from : group) {
      for (const int to : group) {
        if (from != to) loads.Add(from, to);
      }
    }
  }
  return 2 * (loads.Ms(bytes / static_cast<double>(groups.front().size())) +
              LatencyMs(machine, loads.outermost()));
}

double TreeMs(const Machine& machine, const std::vector<Replicas>& groups, double bytes) {
  double ms = 0;
  for (size_t reach = 1; reach < groups.front().size(); reach *= 2) {
    PortLoads loads(machine);
    for (const Replicas& group : groups) {
      for (size_t to = 0; to + reach < group.size(); to += 2 * reach) {
        loads.Add(group[to + reach], group[to]);
      }
    }
    ms += 2 * (loads.Ms(bytes) + LatencyMs(machine, loads.outermost()));
  }
  return ms;
}

// Returns the time of an update that goes level by level. At each level, the ports of a parent port
// form a ring, which does a reduce-scatter and an all-gather. The replicas behind one port hold
// equal shards, which add up to `bytes` bytes. So each ring reduces and gathers `bytes` bytes,
// however many replicas are behind a port.
double HierarchicalMs(const Machine& machine, const std::vector<Replicas>& groups, double bytes) {
  double ms = 0;
  for (int level = 0; level < static_cast<int>(machine.levels.size()); ++level) {
    const int size = machine.PortDevices(level);
    const int parent = machine.PortDevices(level + 1);
    std::vector<int> crossing(static_cast<size_t>(machine.Devices() / size), 0);
    int most = 1;
    for (const Replicas& group : groups) {
      for (int first = 0; first < machine.Devices(); first += parent) {
        std::vector<int> ports;
        for (const int device : group) {
          if (device >= first && device < first + parent &&
              (ports.empty() || ports.back() != device / size)) {
            ports.push_back(device / size);
          }
        }
        if (ports.size() < 2) continue;
        most = std::max(most, static_cast<int>(ports.size()));
        for (const int port : ports) ++crossing[static_cast<size_t>(port)];
      }
    }
    if (most == 1) continue;
    const Level& link = machine.levels[static_cast<size_t>(level)];
    const int busiest = *std::max_element(crossing.begin(), crossing.end());
    ms += 2.0 * (most - 1) *
          (busiest * bytes / most / (link.gb_per_s * 1e6) + LatencyMs(machine, level));
  }
  return ms;
}

}  // namespace

const char* UpdateName(UpdateModel model) { return kUpdateNames[static_cast<size_t>(model)]; }

Result<UpdateModel> ParseUpdate(const std::string& name) {
  const auto found = std::find(std::begin(kUpdateNames), std::end(kUpdateNames), name);
  if (found == std::end(kUpdateNames)) {
    return Status::Error(Quoted(name) + ": expected one of " +
                         Join({std::begin(kUpdateNames), std::end(kUpdateNames)}, ", "));
  }
  return static_cast<UpdateModel>(found - std::begin(kUpdateNames));
}

std::vector<std::vector<int>> ReplicaDevices(const ParallelConfiguration& configuration) {
  const Degrees& degrees = configuration.degrees;
  const int image = degrees.h * degrees.w;
  const int parts = degrees.WeightParts();
  std::vector<Replicas> groups(static_cast<size_t>(parts));
  for (int worker = 0; worker < degrees.Workers(); ++worker) {
    groups[static_cast<size_t>(worker / image % parts)].push_back(configuration.first_device +
                                                                  worker);
  }
  return groups;
}

double UpdateMs(const Machine& machine, UpdateModel model,
                const ParallelConfiguration& configuration, int64_t bytes) {
  const std::vector<Replicas> groups = ReplicaDevices(configuration);
  const auto replicas = static_cast<double>(groups.front().size());
  if (bytes == 0 || groups.front().size() < 2) return 0;
  const double share = static_cast<double>(bytes) / configuration.degrees.WeightParts();
  switch (model) {
    case UpdateModel::kParameterServer:
      return ParameterServerMs(machine, {groups.front().front(), groups.back().back()},
                               replicas * static_cast<double>(bytes));
    case UpdateModel::kRing:
      return RingMs(machine, groups, share);
    case UpdateModel::kTree:
      return TreeMs(machine, groups, share);
    case UpdateModel::kHierarchical:
      return HierarchicalMs(machine, groups, share);
    case UpdateModel::kOwner:
      return OwnerMs(machine, groups, share);
  }
  return 0;
}

int64_t UpdateBytes(UpdateModel model, const Degrees& degrees, int64_t bytes) {
  const int64_t replicas = int64_t{degrees.n} * degrees.h * degrees.w;
  if (replicas < 2) return 0;
  return 2 * bytes * (model == UpdateModel::kParameterServer ? replicas : replicas - 1);
}

}  // namespace ucudnn::planner
