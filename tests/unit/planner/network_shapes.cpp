#include "tests/unit/planner/network_shapes.h"

#include <random>
#include <utility>

namespace ucudnn::planner {

int NetworkShape::Add(const std::vector<int>& inputs) {
  for (const int input : inputs) edges.emplace_back(input, layers);
  return layers++;
}

int NetworkShape::AddChain(int from, int count) {
  for (int i = 0; i < count; ++i) from = Add({from});
  return from;
}

NetworkShape AlexNetShape() {
  NetworkShape net{"alexnet"};
  net.AddChain(net.Add({}), 11);
  return net;
}

NetworkShape Vgg16Shape() {
  NetworkShape net{"vgg16"};
  net.AddChain(net.Add({}), 21);
  return net;
}

NetworkShape InceptionV3Shape() {
  NetworkShape net{"inception-v3"};
  int last = net.AddChain(net.Add({}), 6);
  // A module has branches of convolutions, and one branch with a pooling. A convolution follows the
  // pooling unless the module reduces its input.
  const auto module = [&](const std::vector<int>& branches, bool reduces) {
    std::vector<int> ends;
    for (const int length : branches) ends.push_back(net.AddChain(last, length));
    ends.push_back(net.AddChain(last, reduces ? 1 : 2));
    last = net.Add(ends);
  };
  for (int i = 0; i < 3; ++i) module({1, 2, 3}, false);
  module({1, 3}, true);
  for (int i = 0; i < 4; ++i) module({1, 3, 5}, false);
  module({2, 4}, true);
  for (int i = 0; i < 2; ++i) {
    const int one = net.Add({last});
    const int three = net.Add({last});
    const int deep = net.AddChain(last, 2);
    const int pool = net.AddChain(last, 2);
    last =
        net.Add({one, net.Add({three}), net.Add({three}), net.Add({deep}), net.Add({deep}), pool});
  }
  net.AddChain(last, 2);
  return net;
}

NetworkShape ResNetShape(const std::vector<int>& blocks, bool bottleneck) {
  NetworkShape net{"resnet"};
  int last = net.AddChain(net.Add({}), 1);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const int end = net.AddChain(last, bottleneck ? 3 : 2);
      const bool projected = block == 0 && (bottleneck || stage > 0);
      last = net.Add({end, projected ? net.Add({last}) : last});
    }
  }
  net.AddChain(last, 2);
  return net;
}

NetworkShape DenseNetShape(const std::vector<int>& blocks, bool chained, bool bottleneck) {
  NetworkShape net{chained ? "densenet, chained" : "densenet"};
  int last = net.Add({});
  for (size_t block = 0; block < blocks.size(); ++block) {
    std::vector<int> features = {last};
    for (int layer = 0; layer < blocks[block]; ++layer) {
      const int input = chained ? last : features.size() > 1 ? net.Add(features) : last;
      features.push_back(net.AddChain(input, bottleneck ? 2 : 1));
      if (chained) last = net.Add({last, features.back()});
    }
    if (!chained) last = net.Add(features);
    if (block + 1 < blocks.size()) last = net.AddChain(last, 2);
  }
  net.AddChain(last, 2);
  return net;
}

NetworkShape NasNetShape(int cells) {
  NetworkShape net{"nasnet-a"};
  int before = net.Add({});
  int last = before;
  const auto add = [&](int a, int b) { return net.Add({a, b}); };
  const auto apply = [&](int input) { return net.Add({input}); };
  const auto normal = [&] {
    const int h = apply(last);
    const int p = apply(before);
    const int b1 = add(apply(h), h);
    const int b2 = add(apply(p), apply(h));
    const int b3 = add(apply(h), p);
    const int b4 = add(apply(p), apply(p));
    const int b5 = add(apply(p), apply(p));
    before = std::exchange(last, net.Add({p, b1, b2, b3, b4, b5}));
  };
  const auto reduction = [&] {
    const int h = apply(last);
    const int p = apply(before);
    const int x1 = add(apply(h), apply(p));
    const int x2 = add(apply(h), apply(p));
    const int x3 = add(apply(h), apply(p));
    const int x4 = add(x2, apply(x1));
    const int x5 = add(apply(x1), apply(h));
    before = std::exchange(last, net.Add({x2, x3, x4, x5}));
  };
  for (int stage = 0; stage < 3; ++stage) {
    for (int cell = 0; cell < cells; ++cell) normal();
    if (stage < 2) reduction();
  }
  net.AddChain(last, 2);
  return net;
}

NetworkShape EfficientNetB0Shape() {
  NetworkShape net{"efficientnet-b0"};
  int last = net.Add({});
  for (const int repeats : {1, 2, 2, 3, 3, 4, 1}) {
    for (int i = 0; i < repeats; ++i) {
      const int input = last;
      const int wide = net.AddChain(last, 2);
      last = net.AddChain(net.Add({wide, net.AddChain(wide, 3)}), 1);
      if (i > 0) last = net.Add({last, input});
    }
  }
  net.AddChain(last, 3);
  return net;
}

NetworkShape UNetShape() {
  NetworkShape net{"unet"};
  int last = net.AddChain(net.Add({}), 1);
  std::vector<int> skipped;
  for (int level = 0; level < 4; ++level) {
    skipped.push_back(last);
    last = net.AddChain(last, 3);
  }
  for (int level = 0; level < 4; ++level) {
    last = net.AddChain(net.Add({net.Add({last}), skipped.back()}), 2);
    skipped.pop_back();
  }
  return net;
}

SearchProblem WithRandomCosts(const NetworkShape& shape, int configurations, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> cost(0, 1);
  const auto draw = [&](int count) {
    std::vector<double> costs(static_cast<size_t>(count));
    for (double& value : costs) value = cost(random);
    return costs;
  };
  SearchProblem problem;
  for (int layer = 0; layer < shape.layers; ++layer) {
    problem.layers.push_back({"layer" + std::to_string(layer), draw(configurations), {}});
  }
  for (const auto& [from, to] : shape.edges) {
    problem.edges.push_back({from, to, draw(configurations * configurations), {}});
  }
  return problem;
}

}  // namespace ucudnn::planner
