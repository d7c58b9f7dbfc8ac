#include "planner/schedule/gradient_sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ucudnn::planner {
namespace {

// A part of a parameter that two or more devices hold.
struct SharedPart {
  GradientSum::Member member;
  std::vector<int> devices;
  int64_t elements = 0;
};

// Joins the parts that the same devices hold into sums. A sum is at most as large as a bundle may
// be, unless it is one larger part. The parts of a sum keep their order.
std::vector<GradientSum> Bundled(const std::vector<SharedPart>& parts) {
  std::map<std::vector<int>, int64_t> totals;
  for (const SharedPart& part : parts) totals[part.devices] += part.elements;
  std::map<std::vector<int>, GradientSum> open;
  std::vector<GradientSum> sums;
  for (const SharedPart& part : parts) {
    const int64_t share = CeilDivide(totals[part.devices], kBundles);
    const int64_t most = std::clamp(share, kLeastBundled, kMostBundled);
    GradientSum& sum = open[part.devices];
    if (!sum.parameters.empty() && sum.elements + part.elements > most) {
      sums.push_back(std::exchange(sum, {}));
    }
    sum.parameters.push_back(part.member);
    sum.devices = part.devices;
    sum.elements += part.elements;
  }
  for (auto& [devices, sum] : open) sums.push_back(std::move(sum));
  return sums;
}

// Returns a key that orders sums by the time at which the backward pass has computed the last
// gradient of the sum.
auto ReadyAt(const GradientSum& sum) {
  const GradientSum::Member& last = sum.parameters.back();
  return std::tuple(-last.node, last.parameter, sum.devices.front());
}

// An interval of the elements that are added up, and its owner: the device that so far has the
// interval's sum over one subgroup of devices.
struct Owned {
  Interval elements;
  int device = 0;
};

using Pieces = std::vector<Owned>;

// Returns the pieces whose owners are behind port `port`. Each port has `size` devices.
Pieces Behind(const Pieces& pieces, int port, int size) {
  Pieces behind;
  for (const Owned& piece : pieces) {
    if (piece.device / size == port) behind.push_back(piece);
  }
  return behind;
}

// Returns the device that owns `element` in `pieces`.
int OwnerOf(const Pieces& pieces, int64_t element) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Owned& piece) {
    return piece.elements.begin <= element && element < piece.elements.end;
  });
  return found->device;
}

// Adds up the sums of all subgroups of one group. Each piece has one owner in each subgroup.
// Divides the piece among these owners, one share each. Appends the shares to `owned`, and appends
// to `messages` the messages that bring each owner the other subgroups' sums of its share.
void GiveToOwners(const std::vector<Pieces>& subgroups, Pieces& owned,
                  std::vector<SumMessage>& messages) {
  std::set<int64_t> cuts;
  for (const Pieces& subgroup : subgroups) {
    for (const Owned& piece : subgroup) {
      cuts.insert(piece.elements.begin);
      cuts.insert(piece.elements.end);
    }
  }
  const auto count = static_cast<int>(subgroups.size());
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    const Interval piece = {*cut, *std::next(cut)};
    for (int to = 0; to < count; ++to) {
      Interval part = Part(piece.Length(), count, to);
      part = {piece.begin + part.begin, piece.begin + part.end};
      if (part.Length() == 0) continue;
      const int owner = OwnerOf(subgroups[static_cast<size_t>(to)], piece.begin);
      owned.push_back({part, owner});
      for (int from = 0; from < count; ++from) {
        if (from == to) continue;
        messages.push_back(
            {OwnerOf(subgroups[static_cast<size_t>(from)], piece.begin), owner, part});
      }
    }
  }
}

}  // namespace

std::vector<GradientSum> SumsOf(const std::vector<ScheduledNode>& nodes) {
  std::set<int> seen;                     // tensors whose first reader was found
  std::vector<std::vector<bool>> counts;  // by node and parameter: whether the node sums it
  for (const ScheduledNode& node : nodes) {
    counts.emplace_back();
    for (const ScheduledParameter& parameter : node.parameters) {
      const bool first = parameter.tensor < 0 || seen.insert(parameter.tensor).second;
      counts.back().push_back(first && parameter.trained);
    }
  }
  std::vector<SharedPart> parts;
  for (size_t id = nodes.size(); id-- > 0;) {
    for (size_t at = 0; at < nodes[id].parameters.size(); ++at) {
      if (!counts[id][at]) continue;
      const ScheduledParameter& parameter = nodes[id].parameters[at];
      std::vector<std::pair<ParameterPart, std::vector<int>>> groups;
      for (const ParameterPart& part : parameter.parts) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
          return group.first.ranges == part.ranges;
        });
        if (same == groups.end()) {
          groups.push_back({part, {part.device}});
        } else {
          same->second.push_back(part.device);
        }
      }
      for (const auto& [part, devices] : groups) {
        if (devices.size() < 2) continue;
        parts.push_back({{static_cast<NodeId>(id), static_cast<int>(at)},
                         devices,
                         Elements(parameter.shape, part)});
      }
    }
  }
  std::vector<GradientSum> sums = Bundled(parts);
  std::sort(sums.begin(), sums.end(),
            [](const GradientSum& a, const GradientSum& b) { return ReadyAt(a) < ReadyAt(b); });
  return sums;
}

std::vector<std::vector<SumMessage>> PhasesOf(const Schedule& schedule, const GradientSum& sum) {
  std::vector<int> levels = {schedule.devices};
  if (schedule.update == UpdateModel::kHierarchical) levels = schedule.levels;
  Pieces pieces;
  for (const int device : sum.devices) pieces.push_back({{0, sum.elements}, device});
  std::vector<std::vector<SumMessage>> phases;
  int size = 1;
  for (const int groups : levels) {
    const int parent = size * groups;
    Pieces owned;
    std::vector<SumMessage> messages;
    for (int first = 0; first < schedule.devices; first += parent) {
      std::vector<Pieces> subgroups;
      for (int port = first / size; port < (first + parent) / size; ++port) {
        Pieces behind = Behind(pieces, port, size);
        if (!behind.empty()) subgroups.push_back(std::move(behind));
      }
      if (!subgroups.empty()) GiveToOwners(subgroups, owned, messages);
    }
    if (!messages.empty()) phases.push_back(std::move(messages));
    pieces = std::move(owned);
    size = parent;
  }
  for (size_t at = phases.size(); at-- > 0;) {
    std::vector<SumMessage> back;
    for (const SumMessage& message : phases[at]) {
      back.push_back({message.to, message.from, message.elements});
    }
    phases.push_back(std::move(back));
  }
  return phases;
}

}  // namespace ucudnn::planner
