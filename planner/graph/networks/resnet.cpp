#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

// The place of a block, which determines its shortcut.
enum class Place {
  kFirst,     // after the stem, whose output is already activated
  kReducing,  // the first block of a later stage, which halves the image
  kInside
};

int32_t Outputs(ResidualBlock kind, int32_t filters) {
  return kind == ResidualBlock::kBasic ? filters : 4 * filters;
}
// Returns whether the shortcut is a 1 x 1 convolution, because the shape changes.
bool Projects(ResidualBlock kind, Place place) {
  return place == Place::kReducing || (place == Place::kFirst && kind != ResidualBlock::kBasic);
}

void Normalised(Chain& net, const std::string& block, const std::string& number,
                const Convolution& convolution) {
  net.Append(block + ".conv" + number, convolution);
  net.Append(block + ".bn" + number, BatchNormalization{});
}

void AppendBlockV1(Chain& net, const std::string& name, ResidualBlock kind, int32_t filters,
                   Place place) {
  const int32_t outputs = Outputs(kind, filters);
  const int32_t stride = place == Place::kReducing ? 2 : 1;
  const NodeId input = net.last();
  NodeId shortcut = input;
  if (Projects(kind, place)) {
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

void Activated(Chain& net, const std::string& block, const std::string& number) {
  net.Append(block + ".bn" + number, BatchNormalization{});
  net.Relu(block + ".relu" + number);
}

// A projection reads the activated input; any other shortcut reads the input before its activation.
void AppendBlockV2(Chain& net, const std::string& name, ResidualBlock kind, int32_t filters,
                   Place place) {
  const bool is_basic = kind == ResidualBlock::kBasic;
  const int32_t outputs = Outputs(kind, filters);
  const int32_t stride = place == Place::kReducing ? 2 : 1;
  NodeId shortcut = net.last();
  if (place != Place::kFirst) Activated(net, name, "1");
  if (Projects(kind, place)) {
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

Result<Graph> Residual(const std::string& name, ResidualBlock kind,
                       const std::array<int, 4>& blocks, bool is_v2) {
  Chain net(name, 3, 224);
  net.Append("conv1", Square(64, 7, 2, 3));
  net.Append("bn1", BatchNormalization{});
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2, 1);
  int32_t filters = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, filters *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const Place place = i > 0 ? Place::kInside : stage > 0 ? Place::kReducing : Place::kFirst;
      (is_v2 ? AppendBlockV2 : AppendBlockV1)(
          net, "layer" + std::to_string(stage + 1) + "." + std::to_string(i), kind, filters, place);
    }
  }
  if (is_v2) {
    net.Append("bn5", BatchNormalization{});
    net.Relu("relu5");
  }
  net.Append("pool5", GlobalPooling{PoolingKind::kAverage});
  net.Append("fc", FullyConnected{kImageNetClasses, true});
  net.Append("prob", Softmax{});
  return net.Build();
}

}  // namespace

Result<Graph> ResNet(const std::string& name, ResidualBlock block,
                     const std::array<int, 4>& blocks) {
  return Residual(name, block, blocks, false);
}

Result<Graph> ResNetV2(const std::string& name, ResidualBlock block,
                       const std::array<int, 4>& blocks) {
  return Residual(name, block, blocks, true);
}

}  // namespace ucudnn::planner
