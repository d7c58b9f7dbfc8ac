#include "planner/graph/networks/classifier.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {

Result<Graph> Vgg16(const std::string& name, int32_t classes) {
  struct Block {
    int convolutions;
    int32_t filters;
  };
  constexpr std::array<Block, 5> kBlocks = {{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  Chain net(name, 3, 224);
  for (size_t block = 0; block < kBlocks.size(); ++block) {
    const std::string number = std::to_string(block + 1);
    for (int i = 1; i <= kBlocks[block].convolutions; ++i) {
      const std::string layer = number + "_" + std::to_string(i);
      net.Append("conv" + layer, Square(kBlocks[block].filters, 3, 1, 1, true));
      net.Relu("relu" + layer);
    }
    net.MaxPool("pool" + number, 2, 2);
  }
  AppendClassifier(net, classes);
  return net.Build();
}

}  // namespace ucudnn::planner
