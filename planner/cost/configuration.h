// Parallel configurations of a layer: into how many parts each axis of its output is divided, and
// which devices compute them. Plain values and pure functions. Source: DeePa, section 3.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

// Parts along images, channels, height and width. Depth is never divided. `r` is the reduction:
// parts of a convolution's or fully connected layer's input channels, each of which gives a partial
// sum of the same output. The r workers of a part add their sums up and keep an r-th of its
// channels each.
struct Degrees {
  int n = 1;
  int c = 1;
  int h = 1;
  int w = 1;
  int r = 1;

  bool operator==(const Degrees&) const = default;
  int Workers() const { return n * c * h * w * r; }
  int WeightParts() const { return c * r; }  // disjoint, of the layer's parameters
};

// "{n=16, c=1, h=1, w=1}", with r where that is divided.
std::string Describe(const Degrees& degrees);

std::string ShortText(const Degrees& degrees);  // "n16", "n4h2w2" as in a pin; "n1": not divided

// Part (i, j, m, k, l) along n, c, r, h, w is on device
// first_device + (((i * c + j) * r + m) * h + k) * w + l.
struct ParallelConfiguration {
  Degrees degrees;
  int first_device = 0;

  bool operator==(const ParallelConfiguration&) const = default;
};

// A layer that is given these degrees and no others.
struct Pin {
  std::string layer;
  Degrees degrees;
};

// "fc6=c4", "conv1=n4h2w2", "fc7=r8": axes that are not named are not divided.
Result<Pin> ParsePin(std::string_view text);

struct ConfigurationOptions {
  // Parts may differ by one element (55 rows in 4 parts); the paper divides evenly only.
  bool uneven = false;
  // All aligned groups of devices rather than the one that begins at device 0: independent branches
  // may sit on different devices.
  bool placements = false;
  // Input channels may be divided, too; where a pin says so, they are without this.
  bool reduction = false;
  std::vector<Pin> pins;
};

// The configurations of one layer on `devices` devices: the number of workers divides that of the
// devices, so that groups of devices tile the machine. Most workers first, then images before
// channels before height. Pins are not looked at.
std::vector<ParallelConfiguration> LegalConfigurations(const PlannedLayer& layer, int devices,
                                                       const ConfigurationOptions& options);

// Why a layer is divided along the images alone, in words, where the file's operator or its heads
// allow nothing else on this machine; empty elsewhere. `configurations` are the layer's.
std::string WhyImagesAlone(const PlannedLayer& layer,
                           const std::vector<ParallelConfiguration>& configurations);

// Those of every layer, pins obeyed. An error names the pin whose layer does not exist or whose
// degrees the layer cannot have.
Result<std::vector<std::vector<ParallelConfiguration>>> LegalConfigurations(
    const LayerGraph& graph, int devices, const ConfigurationOptions& options);

}  // namespace ucudnn::planner
