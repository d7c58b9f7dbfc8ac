#include <functional>
#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

// Appends one layer, whose nodes have names that begin with `name`. The block joins the output of
// the layer's last node to earlier outputs.
using AppendLayer = std::function<void(const std::string& name)>;

void AppendBlock(Chain& net, const std::string& name, int layers, DenseJoin join,
                 const AppendLayer& append_layer) {
  std::vector<NodeId> features = {net.last()};
  for (int i = 1; i <= layers; ++i) {
    const std::string layer = name + "." + std::to_string(i);
    const NodeId before = net.last();
    append_layer(layer);
    features.push_back(net.last());
    const bool joins_all = join == DenseJoin::kNary;
    net.Join(layer + ".concat", Concat{},
             joins_all ? features : std::vector<NodeId>{before, net.last()});
  }
}

// Appends the layers between two blocks.
void AppendTransition(Chain& net, const std::string& name, int32_t channels) {
  net.PreActivated(name + ".conv", Square(channels, 1));
  net.AveragePool(name + ".pool", 2, 2);
}

void AppendEnd(Chain& net, int32_t classes) {
  net.Append("bn", BatchNormalization{});
  net.Relu("relu");
  net.Classify(classes);
}

}  // namespace

Result<Graph> DenseNet40(const std::string& name, int32_t growth, DenseJoin join) {
  constexpr int kBlocks = 3;
  constexpr int kLayers = 12;
  Chain net(name, 3, 32);
  int32_t channels = 16;
  net.Append("conv1", Square(channels, 3, 1, 1));
  for (int block = 1; block <= kBlocks; ++block) {
    AppendBlock(net, "block" + std::to_string(block), kLayers, join, [&](const std::string& layer) {
      net.PreActivated(layer + ".conv", Square(growth, 3, 1, 1));
    });
    channels += kLayers * growth;
    if (block < kBlocks) AppendTransition(net, "transition" + std::to_string(block), channels);
  }
  AppendEnd(net, 10);
  return net.Build();
}

Result<Graph> DenseNet121(const std::string& name, DenseJoin join) {
  constexpr std::array<int, 4> kLayers = {6, 12, 24, 16};
  constexpr int32_t kGrowth = 32;
  Chain net(name, 3, 224);
  int32_t channels = 2 * kGrowth;
  net.Unit("conv1", Square(channels, 7, 2, 3));
  net.MaxPool("pool1", 3, 2, 1);
  for (size_t block = 0; block < kLayers.size(); ++block) {
    const std::string number = std::to_string(block + 1);
    AppendBlock(net, "block" + number, kLayers[block], join, [&](const std::string& layer) {
      net.PreActivated(layer + ".conv1", Square(4 * kGrowth, 1));
      net.PreActivated(layer + ".conv2", Square(kGrowth, 3, 1, 1));
    });
    channels += kLayers[block] * kGrowth;
    if (block + 1 == kLayers.size()) break;
    channels /= 2;
    AppendTransition(net, "transition" + number, channels);
  }
  AppendEnd(net, kImageNetClasses);
  return net.Build();
}

}  // namespace ucudnn::planner
