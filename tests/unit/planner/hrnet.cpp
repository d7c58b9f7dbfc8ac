#include "tests/unit/planner/hrnet.h"

#include <string>
#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

// kChannels[b] is the number of channels of branch b. The head gives branch b 4 * kHeadFilters[b]
// channels.
constexpr int32_t kChannels[] = {16, 32, 64, 128};
constexpr int32_t kHeadFilters[] = {32, 64, 128, 256};

NodeId Basic(Chain& net, const std::string& name, NodeId input, int32_t filters) {
  net.ContinueFrom(input);
  net.Unit(name + ".conv1", Square(filters, 3, 1, 1));
  net.Normalised(name + ".conv2", Square(filters, 3, 1, 1));
  net.Join(name + ".add", Add{}, {net.last(), input});
  net.Relu(name + ".relu");
  return net.last();
}

NodeId Bottleneck(Chain& net, const std::string& name, NodeId input, int32_t filters) {
  net.ContinueFrom(input);
  net.Normalised(name + ".shortcut", Square(4 * filters, 1));
  const NodeId shortcut = net.last();
  net.ContinueFrom(input);
  net.Unit(name + ".conv1", Square(filters, 1));
  net.Unit(name + ".conv2", Square(filters, 3, 1, 1));
  net.Normalised(name + ".conv3", Square(4 * filters, 1));
  net.Join(name + ".add", Add{}, {net.last(), shortcut});
  net.Relu(name + ".relu");
  return net.last();
}

// Appends layers that change `input`, the output of branch `from`, to the channels and the
// resolution of branch `to`. Returns the last of these layers.
NodeId Brought(Chain& net, const std::string& name, NodeId input, size_t from, size_t to) {
  net.ContinueFrom(input);
  if (from > to) {
    net.Normalised(name, Square(kChannels[to], 1));
    const auto factor = static_cast<int32_t>(1) << (from - to);
    net.Append(name + ".up", Upsampling{{1, factor, factor}});
  }
  for (size_t level = from; level < to; ++level) {
    const std::string step = name + "." + std::to_string(level);
    if (level + 1 < to) {
      net.Unit(step, Square(kChannels[from], 3, 2, 1));
    } else {
      net.Normalised(step, Square(kChannels[to], 3, 2, 1));
    }
  }
  return net.last();
}

// Appends two blocks to every branch. Then replaces every branch by the sum of all branches, each
// of which Brought() has changed to the replaced branch's channels and resolution.
void AppendStage(Chain& net, const std::string& name, std::vector<NodeId>& branches) {
  for (size_t branch = 0; branch < branches.size(); ++branch) {
    for (const char* block : {"0", "1"}) {
      branches[branch] = Basic(net, name + ".b" + std::to_string(branch) + "." + block,
                               branches[branch], kChannels[branch]);
    }
  }
  const std::vector<NodeId> inputs = branches;
  for (size_t to = 0; to < branches.size(); ++to) {
    const std::string fuse = name + ".fuse" + std::to_string(to);
    NodeId sum = 0;
    for (size_t from = 0; from < inputs.size(); ++from) {
      const NodeId brought =
          Brought(net, fuse + "." + std::to_string(from), inputs[from], from, to);
      if (from > 0) net.Join(fuse + ".add" + std::to_string(from), Add{}, {sum, brought});
      sum = from > 0 ? net.last() : brought;
    }
    net.Relu(fuse + ".relu");
    branches[to] = net.last();
  }
}

}  // namespace

Result<Graph> HrNetW18Small() {
  Chain net("hrnet-w18-small", 3, 224);
  net.Unit("conv1", Square(64, 3, 2, 1));
  net.Unit("conv2", Square(64, 3, 2, 1));
  const NodeId stem = Bottleneck(net, "layer1", net.last(), 32);
  std::vector<NodeId> branches;
  for (size_t branch = 0; branch < 2; ++branch) {
    net.ContinueFrom(stem);
    net.Unit("transition1." + std::to_string(branch),
             Square(kChannels[branch], 3, branch == 0 ? 1 : 2, 1));
    branches.push_back(net.last());
  }
  AppendStage(net, "stage2", branches);
  for (size_t stage = 3; stage <= 4; ++stage) {
    net.ContinueFrom(branches.back());
    net.Unit("transition" + std::to_string(stage - 1), Square(kChannels[stage - 1], 3, 2, 1));
    branches.push_back(net.last());
    AppendStage(net, "stage" + std::to_string(stage), branches);
  }
  NodeId sum = 0;
  for (size_t branch = 0; branch < branches.size(); ++branch) {
    const std::string name = "head" + std::to_string(branch);
    const NodeId widened = Bottleneck(net, name, branches[branch], kHeadFilters[branch]);
    if (branch > 0) {
      net.ContinueFrom(sum);
      net.Unit(name + ".down", Square(4 * kHeadFilters[branch], 3, 2, 1, true));
      net.Join(name + ".sum", Add{}, {widened, net.last()});
    }
    sum = net.last();
  }
  net.Unit("final", Square(2048, 1, 1, 0, true));
  net.Classify(kImageNetClasses);
  return net.Build();
}

}  // namespace ucudnn::planner
