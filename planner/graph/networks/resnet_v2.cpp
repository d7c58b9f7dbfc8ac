#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

// The place of a block, which determines the nodes before its convolutions.
enum class Place {
  kFirst,     // after the stem, whose output is already activated
  kReducing,  // the projection reads the activated input, too
  kInside     // the shortcut reads the input before its activation
};

void Activated(Chain& net, const std::string& block, const std::string& number) {
  net.Append(block + ".bn" + number, BatchNormalization{});
  net.Relu(block + ".relu" + number);
}

void AppendBlock(Chain& net, const std::string& name, ResidualBlock kind, int32_t filters,
                 Place place) {
  const bool is_basic = kind == ResidualBlock::kBasic;
  const int32_t outputs = is_basic ? filters : 4 * filters;
  const int32_t stride = place == Place::kReducing ? 2 : 1;
  NodeId shortcut = net.last();
  if (place != Place::kFirst) Activated(net, name, "1");
  if (place == Place::kReducing || (place == Place::kFirst && !is_basic)) {
    const NodeId activated = net.last();
    net.Append(name + ".downsample", Square(outputs, 1, stride));
    shortcut = net.last();
    net.ContinueFrom(activated);
  }
  net.Append(name + ".conv1", is_basic ? Square(filters, 3, stride, 1) : Square(filters, 1));
  Activated(net, name, "2");
  net.Append(name + ".conv2", Square(filters, 3, is_basic ? 1 : stride, 1));
  if (!is_basic) {
    Activated(net, name, "3");
    net.Append(name + ".conv3", Square(outputs, 1));
  }
  net.Join(name + ".add", Add{}, {net.last(), shortcut});
}

}  // namespace

Result<Graph> ResNetV2(const std::string& name, ResidualBlock block,
                       const std::array<int, 4>& blocks) {
  Chain net(name, 3, 224);
  net.Append("conv1", Square(64, 7, 2, 3));
  net.Append("bn1", BatchNormalization{});
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2, 1);
  int32_t filters = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, filters *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const Place place = i > 0 ? Place::kInside : stage > 0 ? Place::kReducing : Place::kFirst;
      AppendBlock(net, "layer" + std::to_string(stage + 1) + "." + std::to_string(i), block,
                  filters, place);
    }
  }
  net.Append("bn5", BatchNormalization{});
  net.Relu("relu5");
  net.Append("pool5", GlobalPooling{PoolingKind::kAverage});
  net.Append("fc", FullyConnected{kImageNetClasses, true});
  net.Append("prob", Softmax{});
  return net.Build();
}

}  // namespace ucudnn::planner
