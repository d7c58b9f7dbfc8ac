// The built-in networks, each described once. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Returns the names: alexnet, alexnet-footnote (the filters of its paper's footnote),
// alexnet-caffe, vgg16, resnet18, resnet50, resnet152, pre-activated resnet18-v2, resnet34-v2,
// resnet50-v2, resnet101-v2 and resnet152-v2, inception-v3, densenet40 (k = 40), densenet121,
// nasnet-a (4 @ 1056), nasnet-a-large (6 @ 4032), efficientnet-b0, kirby-3m and kirby-2b (4,096 and
// 4,115 layers), unet, and three networks that are run on one image, volume or video at a time:
// unet-3d, vae-decoder, video-vae. A suffix marks variants: -22k has the 21,841 classes of
// ImageNet-22K, -nary joins all earlier outputs of a dense block at once, and -nobias has no bias
// in the last layer. Sources: networks/families.h.
const std::vector<std::string>& NetworkNames();

// Returns the mini-batch of a network that is usually run on a fixed number of images; none for any
// other name.
std::optional<int> UsualBatch(const std::string& name);

// The error for an unknown name lists the known names.
Result<Graph> BuildNetwork(const std::string& name);

}  // namespace ucudnn::planner
