#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

constexpr int32_t kExtent = 24;  // extent of every map
constexpr int32_t kWindow = 7;
constexpr int32_t kClasses = 10;
constexpr int kBlockConvolutions = 256;

// Adds a sequence of residual steps u + relu(layer(u)), called step1, step2 and so on.
class ResidualSteps {
 public:
  ResidualSteps(Chain& net, int32_t channels) : net_(net), channels_(channels) {}

  void Convolve(int count) {
    for (int i = 0; i < count; ++i) {
      Begin();
      net_.Append(name_ + ".conv", Square(channels_, kWindow, 1, kWindow / 2, true));
      net_.Relu(name_ + ".relu");
      End();
    }
  }
  void Connect() {
    Begin();
    net_.Append(name_ + ".fc", FullyConnected{channels_ * kExtent * kExtent, true});
    net_.Relu(name_ + ".relu");
    net_.Append(name_ + ".map", Reshape{channels_, {1, kExtent, kExtent}, 2});
    End();
  }

 private:
  void Begin() {
    name_ = "step" + std::to_string(++steps_);
    input_ = net_.last();
  }
  void End() { net_.Join(name_ + ".add", Add{}, {net_.last(), input_}); }

  Chain& net_;
  const int32_t channels_;
  int steps_ = 0;
  std::string name_;
  NodeId input_ = 0;
};

}  // namespace

Result<Graph> Kirby(const std::string& name, const KirbySize& size) {
  Chain net(name, 1, 28);
  net.Append("opening", Square(size.channels, kWindow, 1, 1, true));
  net.Relu("opening.relu");
  ResidualSteps steps(net, size.channels);
  steps.Convolve(size.first_convolutions);
  for (int block = 0; block < size.blocks; ++block) {
    steps.Connect();
    steps.Convolve(kBlockConvolutions);
  }
  net.Append("fc", FullyConnected{kClasses, size.closing_bias});
  net.Append("prob", Softmax{});
  return net.Build();
}

}  // namespace ucudnn::planner
