#include "planner/graph/networks.h"

#include <array>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

// A chain of two-dimensional layers: every call adds a node behind the last one.
class Chain {
 public:
  Chain(const std::string& network, int32_t channels, int32_t extent) : builder_(network) {
    last_ = builder_.Add("data", Input{channels, {1, extent, extent}, 2}, {});
  }

  NodeId last() const { return last_; }
  void ContinueFrom(NodeId node) { last_ = node; }

  void Convolve(const std::string& name, int32_t filters, int32_t window, int32_t stride,
                int32_t pad, int32_t groups = 1, bool bias = true) {
    Convolution convolution;
    convolution.filters = filters;
    convolution.window = {1, window, window};
    convolution.stride = {1, stride, stride};
    convolution.pad = {0, pad, pad};
    convolution.groups = groups;
    convolution.bias = bias;
    Append(name, convolution);
  }
  void MaxPool(const std::string& name, int32_t window, int32_t stride, int32_t pad = 0,
               bool round_up = false) {
    Append(name, Pooling{PoolingKind::kMaximum,
                         {1, window, window},
                         {1, stride, stride},
                         {0, pad, pad},
                         round_up});
  }
  void Relu(const std::string& name) { Append(name, Activation{ActivationKind::kRelu}); }
  void Append(const std::string& name, const Operator& op) {
    last_ = builder_.Add(name, op, {last_});
  }
  void AddTo(const std::string& name, NodeId other) {
    last_ = builder_.Add(name, Add{}, {last_, other});
  }
  Result<Graph> Build() const { return builder_.Build(); }

 private:
  GraphBuilder builder_;
  NodeId last_ = 0;
};

// fc6, fc7 and fc8 of AlexNet and VGG.
void AppendClassifier(Chain& net) {
  for (const char* layer : {"6", "7"}) {
    net.Append(std::string("fc") + layer, FullyConnected{4096, true});
    net.Relu(std::string("relu") + layer);
    net.Append(std::string("drop") + layer, Dropout{0.5});
  }
  net.Append("fc8", FullyConnected{1000, true});
  net.Append("prob", Softmax{});
}

// "One weird trick", section 3: one tower on 224 x 224 images, no normalisation. The filter counts
// are the ones whose parameters agree with that paper's comparison to the two-tower network; those
// in its footnote (64, 192, 384, 384, 256) do not.
Result<Graph> AlexNet() {
  Chain net("alexnet", 3, 224);
  net.Convolve("conv1", 64, 11, 4, 2);
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2);
  net.Convolve("conv2", 192, 5, 1, 2);
  net.Relu("relu2");
  net.MaxPool("pool2", 3, 2);
  net.Convolve("conv3", 384, 3, 1, 1);
  net.Relu("relu3");
  net.Convolve("conv4", 256, 3, 1, 1);
  net.Relu("relu4");
  net.Convolve("conv5", 256, 3, 1, 1);
  net.Relu("relu5");
  net.MaxPool("pool5", 3, 2);
  AppendClassifier(net);
  return net.Build();
}

// Caffe's bvlc_alexnet.
Result<Graph> AlexNetCaffe() {
  Chain net("alexnet-caffe", 3, 227);
  net.Convolve("conv1", 96, 11, 4, 0);
  net.Relu("relu1");
  net.Append("norm1", LocalResponseNormalization{});
  net.MaxPool("pool1", 3, 2, 0, true);
  net.Convolve("conv2", 256, 5, 1, 2, 2);
  net.Relu("relu2");
  net.Append("norm2", LocalResponseNormalization{});
  net.MaxPool("pool2", 3, 2, 0, true);
  net.Convolve("conv3", 384, 3, 1, 1);
  net.Relu("relu3");
  net.Convolve("conv4", 384, 3, 1, 1, 2);
  net.Relu("relu4");
  net.Convolve("conv5", 256, 3, 1, 1, 2);
  net.Relu("relu5");
  net.MaxPool("pool5", 3, 2, 0, true);
  AppendClassifier(net);
  return net.Build();
}

Result<Graph> Vgg16() {
  struct Block {
    int convolutions;
    int32_t filters;
  };
  constexpr std::array<Block, 5> kBlocks = {{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  Chain net("vgg16", 3, 224);
  for (size_t block = 0; block < kBlocks.size(); ++block) {
    const std::string number = std::to_string(block + 1);
    for (int i = 1; i <= kBlocks[block].convolutions; ++i) {
      const std::string layer = number + "_" + std::to_string(i);
      net.Convolve("conv" + layer, kBlocks[block].filters, 3, 1, 1);
      net.Relu("relu" + layer);
    }
    net.MaxPool("pool" + number, 2, 2);
  }
  AppendClassifier(net);
  return net.Build();
}

void NormalisedConvolution(Chain& net, const std::string& name, const std::string& normalisation,
                           int32_t filters, int32_t window, int32_t stride, int32_t pad) {
  net.Convolve(name, filters, window, stride, pad, 1, false);
  net.Append(normalisation, BatchNormalization{});
}

// Two 3 x 3 convolutions around a shortcut, which is a 1 x 1 convolution where the shape changes.
void BasicBlock(Chain& net, const std::string& name, int32_t filters, int32_t stride,
                bool projected) {
  const NodeId input = net.last();
  NodeId shortcut = input;
  if (projected) {
    NormalisedConvolution(net, name + ".downsample", name + ".downsample_bn", filters, 1, stride,
                          0);
    shortcut = net.last();
    net.ContinueFrom(input);
  }
  NormalisedConvolution(net, name + ".conv1", name + ".bn1", filters, 3, stride, 1);
  net.Relu(name + ".relu1");
  NormalisedConvolution(net, name + ".conv2", name + ".bn2", filters, 3, 1, 1);
  net.AddTo(name + ".add", shortcut);
  net.Relu(name + ".relu2");
}

Result<Graph> ResNet18() {
  Chain net("resnet18", 3, 224);
  NormalisedConvolution(net, "conv1", "bn1", 64, 7, 2, 3);
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2, 1);
  constexpr std::array<int32_t, 4> kFilters = {64, 128, 256, 512};
  for (size_t stage = 0; stage < kFilters.size(); ++stage) {
    const std::string name = "layer" + std::to_string(stage + 1);
    const bool changes = stage > 0;
    BasicBlock(net, name + ".0", kFilters[stage], changes ? 2 : 1, changes);
    BasicBlock(net, name + ".1", kFilters[stage], 1, false);
  }
  net.Append("pool5", GlobalPooling{PoolingKind::kAverage});
  net.Append("fc", FullyConnected{1000, true});
  net.Append("prob", Softmax{});
  return net.Build();
}

struct Network {
  const char* name;
  Result<Graph> (*build)();
};

constexpr Network kNetworks[] = {{"alexnet", AlexNet},
                                 {"alexnet-caffe", AlexNetCaffe},
                                 {"vgg16", Vgg16},
                                 {"resnet18", ResNet18}};

}  // namespace

const std::vector<std::string>& NetworkNames() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const Network& network : kNetworks) all->push_back(network.name);
    return all;
  }();
  return *names;
}

Result<Graph> BuildNetwork(const std::string& name) {
  for (const Network& network : kNetworks) {
    if (name == network.name) return network.build();
  }
  return Status::Error(Quoted(name) + " is no network; expected one of " +
                       Join(NetworkNames(), ", "));
}

}  // namespace ucudnn::planner
