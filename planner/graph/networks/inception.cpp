#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

// Returns a convolution with a 1 x n or n x 1 window that keeps the image's extents.
Convolution Line(int32_t filters, int32_t height, int32_t width) {
  Convolution convolution = Square(filters, 1);
  convolution.window = {1, height, width};
  convolution.pad = {0, height / 2, width / 2};
  return convolution;
}

Pooling KeepingAverage() { return SquarePooling(PoolingKind::kAverage, 3, 1, 1); }

// One module: branches that all read one node and are joined along the channels. Nodes are called
// module.branch.position, except for poolings.
class Module {
 public:
  Module(Chain& net, std::string name) : net_(net), name_(std::move(name)), input_(net.last()) {}

  // Adds a branch: a sequence of units that begins at the module's input.
  void Branch(const std::vector<Convolution>& units) {
    Start();
    for (const Convolution& unit : units) Append(unit);
    ends_.push_back(net_.last());
  }
  // Adds a branch: a sequence of units, and two parallel units that both read the sequence's
  // output.
  void ForkedBranch(const std::vector<Convolution>& units, const Convolution& left,
                    const Convolution& right) {
    Start();
    for (const Convolution& unit : units) Append(unit);
    const NodeId fork = net_.last();
    for (const Convolution& unit : {left, right}) {
      net_.ContinueFrom(fork);
      Append(unit);
      ends_.push_back(net_.last());
    }
  }
  void PooledBranch(const Pooling& pooling, const std::vector<Convolution>& units) {
    Start();
    net_.Append(name_ + ".pool", pooling);
    for (const Convolution& unit : units) Append(unit);
    ends_.push_back(net_.last());
  }
  void Finish() { net_.Join(name_ + ".concat", Concat{}, ends_); }

 private:
  void Start() {
    net_.ContinueFrom(input_);
    ++branch_;
    position_ = 0;
  }
  void Append(const Convolution& unit) {
    net_.Unit(name_ + "." + std::to_string(branch_) + "." + std::to_string(++position_), unit);
  }

  Chain& net_;
  const std::string name_;
  const NodeId input_;
  int branch_ = 0;
  int position_ = 0;
  std::vector<NodeId> ends_;
};

void AppendA(Chain& net, const std::string& name, int32_t pooled) {
  Module module(net, name);
  module.Branch({Square(64, 1)});
  module.Branch({Square(48, 1), Square(64, 5, 1, 2)});
  module.Branch({Square(64, 1), Square(96, 3, 1, 1), Square(96, 3, 1, 1)});
  module.PooledBranch(KeepingAverage(), {Square(pooled, 1)});
  module.Finish();
}

void AppendB(Chain& net, const std::string& name) {
  Module module(net, name);
  module.Branch({Square(384, 3, 2)});
  module.Branch({Square(64, 1), Square(96, 3, 1, 1), Square(96, 3, 2)});
  module.PooledBranch(SquarePooling(PoolingKind::kMaximum, 3, 2), {});
  module.Finish();
}

void AppendC(Chain& net, const std::string& name, int32_t inner) {
  Module module(net, name);
  module.Branch({Square(192, 1)});
  module.Branch({Square(inner, 1), Line(inner, 1, 7), Line(192, 7, 1)});
  module.Branch(
      {Square(inner, 1), Line(inner, 7, 1), Line(inner, 1, 7), Line(inner, 7, 1), Line(192, 1, 7)});
  module.PooledBranch(KeepingAverage(), {Square(192, 1)});
  module.Finish();
}

void AppendD(Chain& net, const std::string& name) {
  Module module(net, name);
  module.Branch({Square(192, 1), Square(320, 3, 2)});
  module.Branch({Square(192, 1), Line(192, 1, 7), Line(192, 7, 1), Square(192, 3, 2)});
  module.PooledBranch(SquarePooling(PoolingKind::kMaximum, 3, 2), {});
  module.Finish();
}

void AppendE(Chain& net, const std::string& name) {
  Module module(net, name);
  module.Branch({Square(320, 1)});
  module.ForkedBranch({Square(384, 1)}, Line(384, 1, 3), Line(384, 3, 1));
  module.ForkedBranch({Square(448, 1), Square(384, 3, 1, 1)}, Line(384, 1, 3), Line(384, 3, 1));
  module.PooledBranch(KeepingAverage(), {Square(192, 1)});
  module.Finish();
}

}  // namespace

Result<Graph> InceptionV3(const std::string& name, int32_t classes) {
  Chain net(name, 3, 299);
  net.Unit("conv1", Square(32, 3, 2));
  net.Unit("conv2", Square(32, 3));
  net.Unit("conv3", Square(64, 3, 1, 1));
  net.MaxPool("pool1", 3, 2);
  net.Unit("conv4", Square(80, 1));
  net.Unit("conv5", Square(192, 3));
  net.MaxPool("pool2", 3, 2);
  AppendA(net, "a1", 32);
  AppendA(net, "a2", 64);
  AppendA(net, "a3", 64);
  AppendB(net, "b");
  AppendC(net, "c1", 128);
  AppendC(net, "c2", 160);
  AppendC(net, "c3", 160);
  AppendC(net, "c4", 192);
  AppendD(net, "d");
  AppendE(net, "e1");
  AppendE(net, "e2");
  net.Classify(classes, 0.5);
  return net.Build();
}

}  // namespace ucudnn::planner
