#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

constexpr ActivationKind kSwish = ActivationKind::kSwish;

// Scales every channel by a gate that is computed from the means of all channels (Hu 2017).
void SqueezeAndExcite(Chain& net, const std::string& name, int32_t channels, int32_t squeezed) {
  const NodeId input = net.last();
  net.Append(name + ".pool", GlobalPooling{PoolingKind::kAverage});
  net.Append(name + ".reduce", Square(squeezed, 1, 1, 0, true));
  net.Append(name + ".act", Activation{kSwish});
  net.Append(name + ".expand", Square(channels, 1, 1, 0, true));
  net.Append(name + ".gate", Activation{ActivationKind::kSigmoid});
  net.Join(name + ".mul", Multiply{}, {input, net.last()});
}

struct Stage {
  int32_t expansion;
  int32_t filters;
  int repeats;
  int32_t stride;
  int32_t window;
};

}  // namespace

Result<Graph> EfficientNetB0(const std::string& name) {
  constexpr std::array<Stage, 7> kStages = {{{1, 16, 1, 1, 3},
                                             {6, 24, 2, 2, 3},
                                             {6, 40, 2, 2, 5},
                                             {6, 80, 3, 2, 3},
                                             {6, 112, 3, 1, 5},
                                             {6, 192, 4, 2, 5},
                                             {6, 320, 1, 1, 3}}};
  Chain net(name, 3, 224);
  int32_t channels = 32;
  net.Unit("stem", Square(channels, 3, 2, 1), kSwish);
  for (size_t stage = 0; stage < kStages.size(); ++stage) {
    const auto [expansion, filters, repeats, stage_stride, window] = kStages[stage];
    for (int i = 0; i < repeats; ++i) {
      const std::string block = "stage" + std::to_string(stage + 1) + "." + std::to_string(i);
      const int32_t stride = i == 0 ? stage_stride : 1;
      const int32_t expanded = expansion * channels;
      const NodeId input = net.last();
      if (expansion > 1) net.Unit(block + ".expand", Square(expanded, 1), kSwish);
      net.Unit(block + ".depthwise", Depthwise(expanded, window, stride, window / 2), kSwish);
      SqueezeAndExcite(net, block + ".se", expanded, channels / 4);
      net.Normalised(block + ".project", Square(filters, 1));
      if (stride == 1 && filters == channels) {
        net.Join(block + ".add", Add{}, {net.last(), input});
      }
      channels = filters;
    }
  }
  net.Unit("head", Square(1280, 1), kSwish);
  net.Classify(kImageNetClasses, 0.2);
  return net.Build();
}

}  // namespace ucudnn::planner
