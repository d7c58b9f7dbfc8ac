#include "planner/graph/networks/classifier.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {

Result<Graph> AlexNet(const std::string& name, const std::array<int32_t, 5>& filters,
                      int32_t classes) {
  Chain net(name, 3, 224);
  net.Append("conv1", Square(filters[0], 11, 4, 2, true));
  net.Relu("relu1");
  net.MaxPool("pool1", 3, 2);
  net.Append("conv2", Square(filters[1], 5, 1, 2, true));
  net.Relu("relu2");
  net.MaxPool("pool2", 3, 2);
  net.Append("conv3", Square(filters[2], 3, 1, 1, true));
  net.Relu("relu3");
  net.Append("conv4", Square(filters[3], 3, 1, 1, true));
  net.Relu("relu4");
  net.Append("conv5", Square(filters[4], 3, 1, 1, true));
  net.Relu("relu5");
  net.MaxPool("pool5", 3, 2);
  AppendClassifier(net, classes);
  return net.Build();
}

Result<Graph> AlexNetCaffe(const std::string& name) {
  const auto two_groups = [](int32_t filters, int32_t window, int32_t pad) {
    Convolution convolution = Square(filters, window, 1, pad, true);
    convolution.groups = 2;
    return convolution;
  };
  Chain net(name, 3, 227);
  net.Append("conv1", Square(96, 11, 4, 0, true));
  net.Relu("relu1");
  net.Append("norm1", LocalResponseNormalization{});
  net.MaxPool("pool1", 3, 2, 0, true);
  net.Append("conv2", two_groups(256, 5, 2));
  net.Relu("relu2");
  net.Append("norm2", LocalResponseNormalization{});
  net.MaxPool("pool2", 3, 2, 0, true);
  net.Append("conv3", Square(384, 3, 1, 1, true));
  net.Relu("relu3");
  net.Append("conv4", two_groups(384, 3, 1));
  net.Relu("relu4");
  net.Append("conv5", two_groups(256, 3, 1));
  net.Relu("relu5");
  net.MaxPool("pool5", 3, 2, 0, true);
  AppendClassifier(net, kImageNetClasses);
  return net.Build();
}

}  // namespace ucudnn::planner
