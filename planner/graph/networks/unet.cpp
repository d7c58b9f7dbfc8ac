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

}  // namespace

Result<Graph> UNet(const std::string& name) {
  // By level: what the contracting path has more of on each side than the expanding one wants.
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

}  // namespace ucudnn::planner
