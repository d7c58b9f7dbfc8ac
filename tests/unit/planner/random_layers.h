// Draws small networks whose last layer is of a random kind, such as a convolution, a pooling or a
// concatenation.
#pragma once

#include <random>
#include <string>

#include "planner/cost/layer_graph.h"

namespace ucudnn::planner {

class RandomLayers {
 public:
  explicit RandomLayers(unsigned seed) : random_(seed) {}

  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  // Returns a network whose last layer reads the outputs of the layers before it.
  LayerGraph Next() {
    for (;;) {
      GraphBuilder builder("random");
      const bool deep = Draw(0, 4) == 0;
      const Spatial extents = {deep ? Draw(1, 3) : 1, Draw(1, 7), Draw(1, 7)};
      const auto data = [&](const std::string& name) {
        const NodeId node = builder.Add(name, Input{Draw(1, 6), extents, deep ? 3 : 2}, {});
        if (Draw(0, 1) == 0) return builder.Add(name + "_copy", Convolution{Draw(1, 6)}, {node});
        return builder.Add(name + "_copy", LocalResponseNormalization{1}, {node});
      };
      const NodeId first = data("a");
      const Spatial depth_only = {deep ? Draw(1, 2) : 1, Draw(1, 4), Draw(1, 4)};
      const Spatial stride = {1, Draw(1, 3), Draw(1, 3)};
      const Spatial pad = {0, Draw(0, 3), Draw(0, 3)};
      switch (Draw(0, 12)) {
        case 0:
        case 1:
        case 2: {
          Convolution layer;
          layer.groups = Draw(1, 3);
          layer.filters = layer.groups * Draw(1, 3);
          layer.window = depth_only;
          layer.stride = stride;
          layer.pad = pad;
          layer.dilation = {1, Draw(1, 2), Draw(1, 2)};
          builder.Add("layer", layer, {first});
          break;
        }
        case 3: {
          Pooling layer;
          layer.window = depth_only;
          layer.stride = stride;
          layer.pad = {0, std::min(pad[1], depth_only[1] - 1), std::min(pad[2], depth_only[2] - 1)};
          layer.round_up = Draw(0, 1) == 1;
          builder.Add("layer", layer, {first});
          break;
        }
        case 8: {
          TransposedConvolution layer;
          layer.groups = Draw(1, 2);
          layer.filters = layer.groups * Draw(1, 3);
          layer.window = {1, Draw(1, 4), Draw(1, 4)};
          layer.stride = stride;
          layer.pad = {0, Draw(0, 1), Draw(0, 1)};
          layer.dilation = {1, Draw(1, 2), Draw(1, 2)};
          builder.Add("layer", layer, {first});
          break;
        }
        case 9:
          builder.Add("layer", Upsampling{{1, Draw(1, 3), Draw(1, 3)}}, {first});
          break;
        case 10:
          builder.Add("layer",
                      Padding{{0, Draw(-1, 2), Draw(-1, 2)}, {0, Draw(-1, 2), Draw(-1, 2)}},
                      {first});
          break;
        case 11:
          builder.Add("layer", Multiply{}, {first, builder.Add("gate", GlobalPooling{}, {first})});
          break;
        case 12: {
          const Reshape image = {Draw(1, 6), {1, Draw(1, 4), Draw(1, 4)}, 2};
          const int32_t features = image.channels * image.extents[1] * image.extents[2];
          NodeId flat = builder.Add("flat", FullyConnected{features, true}, {first});
          if (Draw(0, 1) == 0) {  // then the last layer reshapes what this one has reshaped
            flat = builder.Add("other",
                               Reshape{image.extents[1], {1, image.extents[2], image.channels}, 2},
                               {flat});
          }
          builder.Add("layer", image, {flat});
          break;
        }
        case 4:
          builder.Add("layer", GlobalPooling{}, {first});
          break;
        case 5:
          if (Draw(0, 1) == 0) {
            builder.Add("layer", FullyConnected{Draw(1, 6), true}, {first});
          } else {
            builder.Add("layer", Flatten{}, {first});
          }
          break;
        case 6:
          builder.Add("layer", LocalResponseNormalization{Draw(1, 2) * 2 + 1}, {first});
          break;
        default:
          builder.Add("layer", Concat{}, {first, data("b"), data("c")});
          break;
      }
      const auto graph = builder.Build();
      if (!graph.ok()) continue;
      const auto layers = BuildLayerGraph(*graph, Draw(1, 4));
      if (layers.ok()) return *layers;
    }
  }

 private:
  std::mt19937 random_;
};

}  // namespace ucudnn::planner
