// Parallel configurations of a layer: into how many parts each axis of its output is divided, and
// which devices compute the parts. Plain values and pure functions. Source: DeePa, section 3.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

// Numbers of parts along images, channels, height and width. Depth is never divided. `r` is the
// degree of reduction: r workers share each part of the output of a convolution or a fully
// connected layer. Each of them computes a partial sum of that part, over an r-th of the input
// channels. Then they add up their sums, and each keeps an r-th of the part's channels.
struct Degrees {
  int n = 1;
  int c = 1;
  int h = 1;
  int w = 1;
  int r = 1;

  bool operator==(const Degrees&) const = default;
  int Workers() const { return n * c * h * w * r; }
  int WeightParts() const { return c * r; }  // disjoint parts of the layer's parameters
};

// Formats "{n=16, c=1, h=1, w=1}"; r follows if it is more than 1.
std::string Describe(const Degrees& degrees);

// Formats the degrees as in a pin: "n16" or "n4h2w2", and "n1" if nothing is divided.
std::string ShortText(const Degrees& degrees);

// Part (i, j, m, k, l) along n, c, r, h, w is on device first_device + (((i * c + j) * r + m) * h +
// k) * w + l.
struct ParallelConfiguration {
  Degrees degrees;
  int first_device = 0;

  bool operator==(const ParallelConfiguration&) const = default;
};

// Fixes the degrees of one layer.
struct Pin {
  std::string layer;
  Degrees degrees;
};

// Parses "fc6=c4", "conv1=n4h2w2" or "fc7=r8". Axes that the text does not name are not divided.
Result<Pin> ParsePin(std::string_view text);

struct ConfigurationOptions {
  // If set, parts may differ by one element (55 rows in 4 parts). The paper only divides evenly.
  bool uneven = false;
  // If set, a layer may be on any group of devices that begins at a multiple of the group's size,
  // so that independent branches may be on different devices. If not set, every group begins at
  // device 0.
  bool placements = false;
  // If set, input channels may be divided too. A pin with r > 1 allows this for its own layer even
  // if `reduction` is false.
  bool reduction = false;
  std::vector<Pin> pins;
  // If set, layers without a pin get only configurations for which this function returns true. The
  // function must accept the configuration that divides nothing.
  std::function<bool(const PlannedLayer&, const Degrees&)> is_accepted = {};
};

// Returns the configurations of one layer on `devices` devices, without regard to pins. The number
// of workers divides the number of devices, so that groups of devices tile the machine.
// Configurations with more workers come first. Among equal numbers of workers, dividing images
// comes before dividing channels, and dividing channels before dividing height.
std::vector<ParallelConfiguration> LegalConfigurations(const PlannedLayer& layer, int devices,
                                                       const ConfigurationOptions& options);

// `configurations` are the configurations of `layer`. If they divide only images, returns "along
// images alone: REASON". The reason is the kind of an Opaque operator, or the number of heads of an
// attention. Returns an empty text for other operators, and for configurations that divide another
// axis or nothing at all.
std::string WhyImagesAlone(const PlannedLayer& layer,
                           const std::vector<ParallelConfiguration>& configurations);

// Returns the configurations of every layer. A layer with a pin gets only the configurations with
// the pin's degrees. An error names the pin whose layer does not exist or whose degrees the layer
// cannot have.
Result<std::vector<std::vector<ParallelConfiguration>>> LegalConfigurations(
    const LayerGraph& graph, int devices, const ConfigurationOptions& options);

}  // namespace ucudnn::planner
