#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

void Normalised(Chain& net, const std::string& block, const std::string& number,
                const Convolution& convolution) {
  net.Append(block + ".conv" + number, convolution);
  net.Append(block + ".bn" + number, BatchNormalization{});
}

// Appends a block with its shortcut, which is a 1 x 1 convolution if the shape changes
// (`projected`).
void AppendBlock(Chain& net, const std::string& name, ResidualBlock kind, int32_t filters,
                 int32_t stride, bool projected) {
  const int32_t outputs = kind == ResidualBlock::kBasic ? filters : 4 * filters;
  const NodeId input = net.last();
  NodeId shortcut = input;
  if (projected) {
    net.Append(name + ".downsample", Square(outputs, 1, stride));
    net.Append(name + ".downsample_bn", BatchNormalization{});
    shortcut = net.last();
    net.ContinueFrom(input);
  }
  std::string last = "2";
  if (kind == ResidualBlock::kBasic) {
    Normalised(net, name, "1", Square(filters, 3, stride, 1));
    net.Relu(name + ".relu1");
    Normalised(net, name, "2", Square(filters, 3, 1, 1));
  } else {
    last = "3";
    Normalised(net, name, "1", Square(filters, 1));
    net.Relu(name + ".relu1");
    Normalised(net, name, "2", Square(filters, 3, stride, 1));
    net.Relu(name + ".relu2");
    Normalised(net, name, "3", Square(outputs, 1));
  }
  net.Join(name + ".add", Add{}, {net.last(), shortcut});
  net.Relu(name + ".relu" + last);
}

}  // namespace

Result<Graph> ResNet(const std::string& name, ResidualBlock block,
                     const std::array<int, 4>& blocks) {
  Chain net(name, 3, 224);
  net.Append("conv1", Square(64, 7, 2, 3));
  net.Append("bn1", BatchNormalization{});
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2, 1);
  int32_t filters = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, filters *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const bool reduces = stage > 0 && i == 0;
      const bool widens = i == 0 && block == ResidualBlock::kBottleneck;
      AppendBlock(net, "layer" + std::to_string(stage + 1) + "." + std::to_string(i), block,
                  filters, reduces ? 2 : 1, reduces || widens);
    }
  }
  net.Append("pool5", GlobalPooling{PoolingKind::kAverage});
  net.Append("fc", FullyConnected{kImageNetClasses, true});
  net.Append("prob", Softmax{});
  return net.Build();
}

}  // namespace ucudnn::planner
