#include "planner/graph/networks.h"

#include "base/text.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

struct Network {
  const char* name;
  Result<Graph> (*build)(const std::string& name);
  int usual_batch = 0;  // 0: the network has no usual batch
};

// The paper "One weird trick" compares the number of its network's parameters with that of the
// two-tower network. kAlexNetFilters agree with this comparison. kAlexNetFootnoteFilters, which the
// paper's footnote lists, do not.
constexpr std::array<int32_t, 5> kAlexNetFilters = {64, 192, 384, 256, 256};
constexpr std::array<int32_t, 5> kAlexNetFootnoteFilters = {64, 192, 384, 384, 256};

using Name = const std::string&;
constexpr Network kNetworks[] = {
    {"alexnet", [](Name name) { return AlexNet(name, kAlexNetFilters, kImageNetClasses); }},
    {"alexnet-footnote",
     [](Name name) { return AlexNet(name, kAlexNetFootnoteFilters, kImageNetClasses); }},
    {"alexnet-caffe", AlexNetCaffe},
    {"alexnet-22k", [](Name name) { return AlexNet(name, kAlexNetFilters, kImageNet22KClasses); }},
    {"vgg16", [](Name name) { return Vgg16(name, kImageNetClasses); }},
    {"vgg16-22k", [](Name name) { return Vgg16(name, kImageNet22KClasses); }},
    {"resnet18",
     [](Name name) {
       return ResNet(name, ResidualBlock::kBasic, {2, 2, 2, 2});
     }},
    {"resnet50",
     [](Name name) {
       return ResNet(name, ResidualBlock::kBottleneck, {3, 4, 6, 3});
     }},
    {"resnet152",
     [](Name name) {
       return ResNet(name, ResidualBlock::kBottleneck, {3, 8, 36, 3});
     }},
    {"resnet18-v2",
     [](Name name) {
       return ResNetV2(name, ResidualBlock::kBasic, {2, 2, 2, 2});
     }},
    {"resnet34-v2",
     [](Name name) {
       return ResNetV2(name, ResidualBlock::kBasic, {3, 4, 6, 3});
     }},
    {"resnet50-v2",
     [](Name name) {
       return ResNetV2(name, ResidualBlock::kBottleneck, {3, 4, 6, 3});
     }},
    {"resnet101-v2",
     [](Name name) {
       return ResNetV2(name, ResidualBlock::kBottleneck, {3, 4, 23, 3});
     }},
    {"resnet152-v2",
     [](Name name) {
       return ResNetV2(name, ResidualBlock::kBottleneck, {3, 8, 36, 3});
     }},
    {"inception-v3", [](Name name) { return InceptionV3(name, kImageNetClasses); }},
    {"inception-v3-22k", [](Name name) { return InceptionV3(name, kImageNet22KClasses); }},
    {"densenet40", [](Name name) { return DenseNet40(name, 40, DenseJoin::kChain); }},
    {"densenet40-nary", [](Name name) { return DenseNet40(name, 40, DenseJoin::kNary); }},
    {"densenet121", [](Name name) { return DenseNet121(name, DenseJoin::kChain); }},
    {"densenet121-nary", [](Name name) { return DenseNet121(name, DenseJoin::kNary); }},
    {"nasnet-a",
     [](Name name) {
       return NasNetA(name, {224, 32, 44, 4, false});
     }},
    {"nasnet-a-large",
     [](Name name) {
       return NasNetA(name, {331, 96, 168, 6, true});
     }},
    {"efficientnet-b0", EfficientNetB0},
    {"kirby-3m",
     [](Name name) {
       return Kirby(name, {4, 4093, 0, true});
     }},
    {"kirby-3m-nobias",
     [](Name name) {
       return Kirby(name, {4, 4093, 0, false});
     }},
    {"kirby-2b",
     [](Name name) {
       return Kirby(name, {20, 257, 15, true});
     }},
    {"unet", UNet},
    {"unet-3d", UNet3d, 1},
    {"vae-decoder", VaeDecoder, 1},
    {"video-vae", VideoVae, 1},
};

}  // namespace

const std::vector<std::string>& NetworkNames() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>;
    for (const Network& network : kNetworks) all->push_back(network.name);
    return all;
  }();
  return *names;
}

std::optional<int> UsualBatch(const std::string& name) {
  for (const Network& network : kNetworks) {
    if (name == network.name && network.usual_batch > 0) return network.usual_batch;
  }
  return std::nullopt;
}

Result<Graph> BuildNetwork(const std::string& name) {
  for (const Network& network : kNetworks) {
    if (name == network.name) return network.build(name);
  }
  return Status::Error(Quoted(name) + " is no network; expected one of " +
                       Join(NetworkNames(), ", ") +
                       ", or a file that ends in .onnx, .prototxt or .json");
}

}  // namespace ucudnn::planner
