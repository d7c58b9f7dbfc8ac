#include "planner/cost/transfer.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

// Sets `digits` to the digits of every worker (see Parts), one worker after the other.
void ListDigits(const Parts& parts, std::vector<int>& digits) {
  const int workers = parts.Workers();
  digits.resize(static_cast<size_t>(workers) * kTensorAxes);
  for (int worker = 0; worker < workers; ++worker) {
    int rest = worker;
    for (int axis = kTensorAxes; axis-- > 0;) {
      const auto count = static_cast<int>(parts.axes[static_cast<size_t>(axis)].size());
      digits[static_cast<size_t>(worker * kTensorAxes + axis)] = rest % count;
      rest /= count;
    }
  }
}

}  // namespace

void TrafficCounter::TabulateOverlaps(const Parts& held, const Parts& needed) {
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    const std::vector<Interval>& have = held.axes[axis];
    const std::vector<Interval>& need = needed.axes[axis];
    held_counts_[axis] = static_cast<int>(have.size());
    overlap_[axis].clear();
    requested_[axis].assign(have.size(), 0);
    for (const Interval& wanted : need) {
      for (size_t part = 0; part < have.size(); ++part) {
        overlap_[axis].push_back(Overlap(wanted, have[part]));
        requested_[axis][part] += overlap_[axis].back();
      }
    }
  }
  ListDigits(held, held_digits_);
  ListDigits(needed, needed_digits_);
  offered_.clear();
  for (size_t worker = 0; worker < held_digits_.size(); worker += kTensorAxes) {
    int64_t elements = 1;
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      elements *= requested_[axis][static_cast<size_t>(held_digits_[worker + axis])];
    }
    offered_.push_back(elements);
  }
  wanted_.clear();
  for (size_t worker = 0; worker < needed_digits_.size(); worker += kTensorAxes) {
    int64_t elements = 1;
    for (size_t axis = 0; axis < kTensorAxes; ++axis) {
      elements *= needed.axes[axis][static_cast<size_t>(needed_digits_[worker + axis])].Length();
    }
    wanted_.push_back(elements);
  }
}

int64_t TrafficCounter::Shared(const int* needed_digits, const int* held_digits) const {
  int64_t elements = 1;
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    elements *=
        overlap_[axis]
                [static_cast<size_t>(needed_digits[axis] * held_counts_[axis] + held_digits[axis])];
  }
  return elements;
}

void TrafficCounter::CountPorts(int level, int held_first, int needed_first) {
  const int size = machine_.PortDevices(level);
  const int held_end = held_first + static_cast<int>(offered_.size());
  const int needed_end = needed_first + static_cast<int>(wanted_.size());
  for (int first = 0; first < machine_.Devices(); first += size) {
    const int have_begin = std::max(first, held_first);
    const int have_end = std::min(first + size, held_end);
    const int need_begin = std::max(first, needed_first);
    const int need_end = std::min(first + size, needed_end);
    int64_t in = 0;
    int64_t out = 0;
    int64_t inside = 0;
    for (int device = have_begin; device < have_end; ++device) {
      out += offered_[static_cast<size_t>(device - held_first)];
    }
    for (int device = need_begin; device < need_end; ++device) {
      in += wanted_[static_cast<size_t>(device - needed_first)];
      const int* const digits =
          &needed_digits_[static_cast<size_t>(device - needed_first) * kTensorAxes];
      for (int holder = have_begin; holder < have_end; ++holder) {
        inside +=
            Shared(digits, &held_digits_[static_cast<size_t>(holder - held_first) * kTensorAxes]);
      }
    }
    int64_t& busiest = traffic_.busiest[static_cast<size_t>(level)];
    busiest = std::max({busiest, in - inside, out - inside});
    if (level == 0) {
      traffic_.moved += in - inside;
      traffic_.most_received = std::max(traffic_.most_received, in - inside);
    }
  }
}

const Traffic& TrafficCounter::Count(const Parts& held, int held_first, const Parts& needed,
                                     int needed_first) {
  TabulateOverlaps(held, needed);
  traffic_.moved = 0;
  traffic_.most_received = 0;
  traffic_.busiest.assign(machine_.levels.size(), 0);
  for (int level = 0; level < static_cast<int>(machine_.levels.size()); ++level) {
    CountPorts(level, held_first, needed_first);
    if (traffic_.moved == 0) break;
  }
  return traffic_;
}

const Traffic& CountReduction(TrafficCounter& counter, const PlannedLayer& layer,
                              const ParallelConfiguration& configuration) {
  const auto& [degrees, first] = configuration;
  return counter.Count(OutputParts(layer.output, degrees), first,
                       ComputedParts(layer.output, degrees), first);
}

double TransferMs(const Machine& machine, const Traffic& traffic, int element_bytes) {
  double slowest_ms = 0;
  double latency_ms = 0;
  for (size_t level = 0; level < machine.levels.size(); ++level) {
    if (traffic.busiest[level] == 0) continue;
    const Level& link = machine.levels[level];
    slowest_ms = std::max(slowest_ms, static_cast<double>(traffic.busiest[level]) * element_bytes /
                                          (link.gb_per_s * 1e6));
    latency_ms = link.latency_us * 1e-3;
  }
  return slowest_ms + latency_ms;
}

}  // namespace ucudnn::planner
