#include "planner/graph/networks/classifier.h"

namespace ucudnn::planner {

void AppendClassifier(Chain& net, int32_t classes) {
  for (const char* layer : {"6", "7"}) {
    net.Append(std::string("fc") + layer, FullyConnected{4096, true});
    net.Relu(std::string("relu") + layer);
    net.Append(std::string("drop") + layer, Dropout{0.5});
  }
  net.Append("fc8", FullyConnected{classes, true});
  net.Append("prob", Softmax{});
}

}  // namespace ucudnn::planner
