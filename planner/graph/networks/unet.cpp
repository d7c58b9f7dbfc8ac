#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

void TwoConvolutions(Chain& net, const std::string& name, int32_t filters) {
  for (const char* number : {"1", "2"}) {
    net.Append(name + ".conv" + number, Square(filters, 3, 1, 0, true));
    net.Relu(name + ".relu" + number);
  }
}

void NormalisedConvolution(Chain& net, const std::string& name, int32_t filters, int32_t stride) {
  Convolution convolution;
  convolution.filters = filters;
  convolution.window = {3, 3, 3};
  convolution.stride = {stride, stride, stride};
  convolution.pad = {1, 1, 1};
  convolution.bias = false;
  net.Append(name, convolution);
  net.Append(name + ".norm", GroupNormalization{filters});
  net.Append(name + ".act", Activation{ActivationKind::kLeakyRelu});
}

void TwoNormalised(Chain& net, const std::string& block, int32_t filters, int32_t stride) {
  NormalisedConvolution(net, block + ".conv1", filters, stride);
  NormalisedConvolution(net, block + ".conv2", filters, 1);
}

}  // namespace

Result<Graph> UNet(const std::string& name) {
  // By level: the pixels that are cut off on each side of the contracting path's map, so that this
  // map gets the size of the expanding path's map: (568 - 392) / 2, (280 - 200) / 2, (136 - 104) /
  // 2 and (64 - 56) / 2.
  constexpr std::array<int32_t, 4> kMargins = {88, 40, 16, 4};
  Chain net(name, 1, 572);
  std::vector<NodeId> skips;
  int32_t filters = 64;
  for (size_t level = 0; level < kMargins.size(); ++level, filters *= 2) {
    const std::string block = "down" + std::to_string(level + 1);
    TwoConvolutions(net, block, filters);
    skips.push_back(net.last());
    net.MaxPool(block + ".pool", 2, 2);
  }
  TwoConvolutions(net, "bottom", filters);
  for (size_t level = kMargins.size(); level-- > 0;) {
    filters /= 2;
    const std::string block = "up" + std::to_string(level + 1);
    TransposedConvolution up;
    up.filters = filters;
    up.window = {1, 2, 2};
    up.stride = {1, 2, 2};
    net.Append(block + ".up", up);
    const NodeId upper = net.last();
    const int32_t margin = kMargins[level];
    net.ContinueFrom(skips[level]);
    net.Append(block + ".crop", Padding{{0, -margin, -margin}, {0, -margin, -margin}});
    net.Join(block + ".concat", Concat{}, {net.last(), upper});
    TwoConvolutions(net, block, filters);
  }
  net.Append("classes", Square(2, 1, 1, 0, true));
  net.Append("prob", Softmax{});
  return net.Build();
}

Result<Graph> UNet3d(const std::string& name) {
  constexpr int32_t kFilters[] = {32, 64, 128, 256, 320};
  Chain net(name, Input{1, {128, 128, 128}, 3});
  std::vector<NodeId> skips;
  for (size_t level = 0; level < std::size(kFilters); ++level) {
    const std::string block =
        level == 0 ? "input_block" : "downsample." + std::to_string(level - 1);
    TwoNormalised(net, block, kFilters[level], level == 0 ? 1 : 2);
    skips.push_back(net.last());
  }
  TwoNormalised(net, "bottleneck", kFilters[std::size(kFilters) - 1], 2);
  for (size_t level = std::size(kFilters); level-- > 0;) {
    const std::string block = "upsample." + std::to_string(std::size(kFilters) - 1 - level);
    TransposedConvolution up;
    up.filters = kFilters[level];
    up.window = {2, 2, 2};
    up.stride = {2, 2, 2};
    net.Append(block + ".upsample_conv", up);
    net.Join(block + ".concat", Concat{}, {net.last(), skips[level]});
    TwoNormalised(net, block, kFilters[level], 1);
  }
  Convolution classes;
  classes.filters = 3;
  net.Append("output", classes);
  return net.Build();
}

}  // namespace ucudnn::planner
