#include "planner/cost/configuration.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

bool Divides(int parts, int64_t extent, bool uneven) {
  return uneven ? parts <= extent : extent % parts == 0;
}

// Returns the number of output channels that may be divided. A softmax needs all channels. Flat
// features are divided between channels of the image that was flattened. Attentions are divided
// between heads. An Opaque operator says the number itself (channel_parts).
int64_t DivisibleChannels(const PlannedLayer& layer) {
  if (std::holds_alternative<Softmax>(layer.op)) return 1;
  if (const auto* attention = std::get_if<Attention>(&layer.op)) return attention->heads;
  if (const auto* opaque = std::get_if<Opaque>(&layer.op)) return opaque->channel_parts;
  if (std::holds_alternative<Flatten>(layer.op)) return layer.inputs.front().shape.c;
  return layer.output.c;
}

// Returns the number of input channels that each output channel sums over, if a reduction may
// divide them; else 1. Grouped convolutions are not reduced in parts, because each group has few
// channels.
int64_t SummedChannels(const PlannedLayer& layer) {
  const auto* const convolution = std::get_if<Convolution>(&layer.op);
  const bool sums = (convolution != nullptr && convolution->groups == 1) ||
                    std::holds_alternative<FullyConnected>(layer.op) ||
                    std::holds_alternative<Linear>(layer.op);
  return sums ? layer.inputs.front().shape.c : 1;
}

bool IsLegal(const PlannedLayer& layer, const Degrees& degrees, bool uneven) {
  const auto* opaque = std::get_if<Opaque>(&layer.op);
  if (opaque != nullptr &&
      ((degrees.h > 1 && !opaque->rows) || (degrees.w > 1 && !opaque->columns))) {
    return false;
  }
  const bool whole_channels = std::holds_alternative<Flatten>(layer.op) ||
                              std::holds_alternative<Attention>(layer.op) || opaque != nullptr;
  return Divides(degrees.n, layer.output.n, uneven) &&
         Divides(degrees.c, DivisibleChannels(layer), uneven && !whole_channels) &&
         Divides(degrees.r, SummedChannels(layer), uneven) &&
         Divides(degrees.h, layer.output.extents[1], uneven) &&
         Divides(degrees.w, layer.output.extents[2], uneven);
}

std::vector<Degrees> LegalDegrees(const PlannedLayer& layer, int devices, bool uneven,
                                  bool reduction) {
  std::vector<Degrees> all;
  const auto divisors = [](int of) {
    std::vector<int> found;
    for (int d = 1; d <= of; ++d) {
      if (of % d == 0) found.push_back(d);
    }
    return found;
  };
  for (const int n : divisors(devices)) {
    for (const int c : divisors(devices / n)) {
      for (const int h : divisors(devices / n / c)) {
        for (const int w : divisors(devices / n / c / h)) {
          for (const int r : divisors(reduction ? devices / n / c / h / w : 1)) {
            const Degrees degrees{n, c, h, w, r};
            if (IsLegal(layer, degrees, uneven)) all.push_back(degrees);
          }
        }
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Degrees& a, const Degrees& b) {
    return std::tuple(a.Workers(), a.n, a.c, a.h, a.w) >
           std::tuple(b.Workers(), b.n, b.c, b.h, b.w);
  });
  return all;
}

}  // namespace

std::string Describe(const Degrees& degrees) {
  return "{n=" + std::to_string(degrees.n) + ", c=" + std::to_string(degrees.c) +
         ", h=" + std::to_string(degrees.h) + ", w=" + std::to_string(degrees.w) +
         (degrees.r > 1 ? ", r=" + std::to_string(degrees.r) : "") + "}";
}

std::string ShortText(const Degrees& degrees) {
  std::string text;
  const std::pair<const char*, int> axes[] = {
      {"n", degrees.n}, {"c", degrees.c}, {"h", degrees.h}, {"w", degrees.w}, {"r", degrees.r}};
  for (const auto& [name, parts] : axes) {
    if (parts > 1) text += name + std::to_string(parts);
  }
  return text.empty() ? "n1" : text;
}

Result<Pin> ParsePin(std::string_view text) {
  const Status fault = Status::Error("pin " + Quoted(text) +
                                     "; expected a layer and its degrees, as fc6=c4 or "
                                     "conv1=n4h2w2");
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) return fault;
  Pin pin{std::string(text.substr(0, equals)), {}};
  std::string seen;
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  while (at != end) {
    const char axis = *at++;
    int parts = 0;
    const auto [after, error] = std::from_chars(at, end, parts);
    if (error != std::errc() || parts < 1 || seen.find(axis) != std::string::npos) return fault;
    switch (axis) {
      case 'n':
        pin.degrees.n = parts;
        break;
      case 'c':
        pin.degrees.c = parts;
        break;
      case 'h':
        pin.degrees.h = parts;
        break;
      case 'w':
        pin.degrees.w = parts;
        break;
      case 'r':
        pin.degrees.r = parts;
        break;
      default:
        return fault;
    }
    seen.push_back(axis);
    at = after;
  }
  return pin;
}

std::vector<ParallelConfiguration> LegalConfigurations(const PlannedLayer& layer, int devices,
                                                       const ConfigurationOptions& options) {
  std::vector<ParallelConfiguration> all;
  for (const Degrees& degrees : LegalDegrees(layer, devices, options.uneven, options.reduction)) {
    const int workers = degrees.Workers();
    const int groups = options.placements ? devices / workers : 1;
    for (int group = 0; group < groups; ++group) all.push_back({degrees, group * workers});
  }
  return all;
}

std::string WhyImagesAlone(const PlannedLayer& layer,
                           const std::vector<ParallelConfiguration>& configurations) {
  const bool has_other = std::any_of(
      configurations.begin(), configurations.end(), [](const ParallelConfiguration& configuration) {
        return configuration.degrees.Workers() > configuration.degrees.n;
      });
  const bool has_images = std::any_of(
      configurations.begin(), configurations.end(),
      [](const ParallelConfiguration& configuration) { return configuration.degrees.n > 1; });
  if (has_other || !has_images) return "";
  if (const auto* attention = std::get_if<Attention>(&layer.op)) {
    return "along images alone: " + std::to_string(attention->heads) + " heads";
  }
  const auto* opaque = std::get_if<Opaque>(&layer.op);
  return opaque == nullptr ? "" : "along images alone: " + opaque->kind;
}

Result<std::vector<std::vector<ParallelConfiguration>>> LegalConfigurations(
    const LayerGraph& graph, int devices, const ConfigurationOptions& options) {
  std::vector<std::vector<ParallelConfiguration>> all;
  for (const PlannedLayer& layer : graph.layers) {
    ConfigurationOptions of_layer = options;
    of_layer.reduction |=
        std::any_of(options.pins.begin(), options.pins.end(),
                    [&](const Pin& pin) { return pin.layer == layer.name && pin.degrees.r > 1; });
    all.push_back(LegalConfigurations(layer, devices, of_layer));
    const bool is_pinned = std::any_of(options.pins.begin(), options.pins.end(),
                                       [&](const Pin& pin) { return pin.layer == layer.name; });
    if (!options.is_accepted || is_pinned) continue;
    std::erase_if(all.back(), [&](const ParallelConfiguration& configuration) {
      return !options.is_accepted(layer, configuration.degrees);
    });
  }
  for (const Pin& pin : options.pins) {
    const std::string what = "pin " + Quoted(pin.layer) + " " + Describe(pin.degrees);
    const int position = graph.Find(pin.layer);
    if (position < 0) {
      return Status::Error(what + ": " + Quoted(graph.name) + " has no such layer");
    }
    const PlannedLayer& layer = graph.layers[static_cast<size_t>(position)];
    auto& configurations = all[static_cast<size_t>(position)];
    std::erase_if(configurations, [&](const ParallelConfiguration& configuration) {
      return !(configuration.degrees == pin.degrees);
    });
    if (configurations.empty()) {
      return Status::Error(
          what + ": its " +
          (pin.degrees.r > 1 ? "input " + Describe(layer.inputs.front().shape) + " or " : "") +
          "output " + Describe(layer.output) + " cannot be divided so on " +
          std::to_string(devices) + " devices");
    }
  }
  return all;
}

}  // namespace ucudnn::planner
