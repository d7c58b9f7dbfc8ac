#include "convolution/axis_cut.h"

#include <algorithm>
#include <limits>
#include <string>

namespace ucudnn {
namespace {

Status Refused(char axis, const std::string& why) {
  return Status::Error(std::string(1, axis) + ": " + why);
}

std::string PartOf(size_t part, size_t parts) {
  return "part " + std::to_string(part) + " of " + std::to_string(parts);
}

// Fails unless the windows of each part end where the windows of the next part begin.
Status CheckPad(char axis, const SlidingWindow& window) {
  const int64_t extent = window.Extent();
  if (extent - window.stride <= 2 * window.pad && 2 * window.pad <= extent - 1) return Status::Ok();
  const int64_t least = std::max<int64_t>(0, extent - window.stride + 1) / 2;
  const int64_t most = (extent - 1) / 2;
  const std::string pad =
      least > most    ? "no pad"
      : least == most ? "a pad of " + std::to_string(most)
                      : "a pad from " + std::to_string(least) + " to " + std::to_string(most);
  const bool is_small = 2 * window.pad < extent - window.stride;
  return Refused(axis, "windows of extent " + std::to_string(extent) + " and stride " +
                           std::to_string(window.stride) + " go on across a cut with " + pad +
                           ", not with " + std::to_string(window.pad) + ": " +
                           (least > most ? "leave this axis uncut" : "set such a pad") +
                           (is_small ? ", or use ucudnn.spatial.convert (PyTorch)" : ""));
}

}  // namespace

Result<AxisCut> CutAxis(char axis, const SlidingWindow& window, std::span<const int64_t> extents) {
  const size_t parts = extents.size();
  if (parts == 0) return Refused(axis, "there are no parts");
  if (parts > 1) UCUDNN_RETURN_IF_ERROR(CheckPad(axis, window));
  AxisCut cut;
  cut.window = window;
  cut.elements.reserve(parts);
  cut.windows.reserve(parts);
  Interval elements, windows;
  for (size_t part = 0; part < parts; ++part) {
    const int64_t extent = extents[part];
    if (extent < 1 || extent > std::numeric_limits<int32_t>::max()) {
      return Refused(axis, PartOf(part, parts) + " has extent " + std::to_string(extent));
    }
    if (part + 1 < parts && extent % window.stride != 0) {
      return Refused(axis, PartOf(part, parts) + " has extent " + std::to_string(extent) +
                               ", which the stride " + std::to_string(window.stride) +
                               " does not divide");
    }
    const int64_t count = FloorDivide(extent + 2 * window.pad - window.Extent(), window.stride) + 1;
    if (count < 1) {
      return Refused(axis, PartOf(part, parts) + " has no window: extent " +
                               std::to_string(extent) + " with pad " + std::to_string(window.pad) +
                               " on both sides is less than the window's extent " +
                               std::to_string(window.Extent()));
    }
    elements = {elements.end, elements.end + extent};
    windows = {windows.end, windows.end + count};
    cut.elements.push_back(elements);
    cut.windows.push_back(windows);
  }
  return cut;
}

}  // namespace ucudnn
