#include "planner/schedule/labels.h"

#include <algorithm>
#include <set>

namespace ucudnn::planner {
namespace {

bool Has(const Interval& images, const Interval& part) {
  return images.begin <= part.begin && part.end <= images.end;
}

// Returns `device` if it loads all images of `part`; otherwise the first device that loads them;
// -1 if no device does.
int LoaderOf(const std::vector<DeviceBox>& loaded, const Interval& part, int device) {
  int first = -1;
  for (const DeviceBox& one : loaded) {
    if (!Has(one.box[kAxisN], part)) continue;
    if (one.device == device) return device;
    if (first < 0) first = one.device;
  }
  return first;
}

}  // namespace

std::vector<LabelMessage> LabelsOf(const Schedule& schedule) {
  const auto input = std::find_if(schedule.nodes.begin(), schedule.nodes.end(),
                                  [](const ScheduledNode& node) { return node.IsInput(); });
  std::set<int64_t> cuts;  // between two neighbouring cuts all images have the same loaders
  for (const DeviceBox& one : input->boxes) {
    cuts.insert({one.box[kAxisN].begin, one.box[kAxisN].end});
  }
  std::vector<LabelMessage> messages;
  for (const NodeId output : OutputsOf(schedule)) {
    for (const DeviceBox& one : NodeOf(schedule, output).boxes) {
      for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
        const Interval part = Intersection({*cut, *std::next(cut)}, one.box[kAxisN]);
        if (part.Length() == 0) continue;
        const int from = LoaderOf(input->boxes, part, one.device);
        if (from >= 0 && from != one.device) messages.push_back({output, from, one.device, part});
      }
    }
  }
  return messages;
}

}  // namespace ucudnn::planner
