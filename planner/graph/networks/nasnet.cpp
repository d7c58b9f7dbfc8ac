#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

void AppendPointwise(Chain& net, const std::string& name, int32_t filters) {
  net.Relu(name + ".relu");
  net.Normalised(name, Square(filters, 1));
}

// Adds the cells of figure 4. A cell reads the outputs of two earlier cells: `h`, of the last cell,
// and `p`, of the cell before it.
class NasnetCell {
 public:
  NasnetCell(Chain& net, std::string name, int32_t filters)
      : net_(net), name_(std::move(name)), filters_(filters) {}

  // Appends a pointwise convolution that maps `from` to the cell's number of channels.
  NodeId Squeeze(const std::string& name, NodeId from) {
    net_.ContinueFrom(from);
    AppendPointwise(net_, name_ + "." + name, filters_);
    return net_.last();
  }
  // Maps `from`, which has twice the cell's extents, to the cell's shape. Each half of the channels
  // is computed from every second pixel; the second half begins one pixel later (section A.1's
  // factorised reduction).
  NodeId SqueezeAndHalve(const std::string& name, NodeId from) {
    const std::string path = name_ + "." + name;
    net_.ContinueFrom(from);
    net_.Relu(path + ".relu");
    const NodeId relu = net_.last();
    net_.AveragePool(path + ".1.pool", 1, 2);
    net_.Append(path + ".1", Square(filters_ / 2, 1));
    const NodeId even = net_.last();
    net_.ContinueFrom(relu);
    net_.Append(path + ".2.shift", Padding{{0, -1, -1}, {0, 1, 1}});
    net_.AveragePool(path + ".2.pool", 1, 2);
    net_.Append(path + ".2", Square(filters_ / 2, 1));
    net_.Join(path + ".concat", Concat{}, {even, net_.last()});
    net_.Append(path + ".bn", BatchNormalization{});
    return net_.last();
  }
  // Appends twice: relu, a depthwise and a pointwise convolution, and a normalisation.
  NodeId Separable(int32_t channels, int32_t window, int32_t stride, NodeId from) {
    net_.ContinueFrom(from);
    for (const char* half : {".1", ".2"}) {
      const bool first = half[1] == '1';
      const std::string name = Name("sep") + half;
      net_.Relu(name + ".relu");
      net_.Append(name + ".depthwise",
                  Depthwise(first ? channels : filters_, window, first ? stride : 1, window / 2));
      net_.Normalised(name + ".pointwise", Square(filters_, 1));
    }
    ++counter_;
    return net_.last();
  }
  NodeId Separable(int32_t window, int32_t stride, NodeId from) {
    return Separable(filters_, window, stride, from);
  }
  NodeId Pool(PoolingKind kind, int32_t stride, NodeId from) {
    net_.ContinueFrom(from);
    net_.Append(Name(kind == PoolingKind::kMaximum ? "max" : "avg"),
                SquarePooling(kind, 3, stride, 1));
    ++counter_;
    return net_.last();
  }
  NodeId Sum(const std::vector<NodeId>& inputs) {
    net_.Join(Name("add"), Add{}, inputs);
    ++counter_;
    return net_.last();
  }
  NodeId Joined(const std::vector<NodeId>& inputs) {
    net_.Join(name_ + ".concat", Concat{}, inputs);
    return net_.last();
  }
  NodeId Normal(NodeId h, NodeId p) {
    constexpr PoolingKind kAverage = PoolingKind::kAverage;
    const NodeId b0 = Sum({Separable(5, 1, h), Separable(3, 1, p)});
    const NodeId b1 = Sum({Separable(5, 1, p), Separable(3, 1, p)});
    const NodeId b2 = Sum({Pool(kAverage, 1, h), p});
    const NodeId b3 = Sum({Pool(kAverage, 1, p), Pool(kAverage, 1, p)});
    const NodeId b4 = Sum({Separable(3, 1, h), h});
    return Joined({p, b0, b1, b2, b3, b4});
  }
  // `p` has `p_channels` channels.
  NodeId Reduction(NodeId h, NodeId p, int32_t p_channels) {
    const NodeId b0 = Sum({Separable(5, 2, h), Separable(p_channels, 7, 2, p)});
    const NodeId b1 = Sum({Pool(PoolingKind::kMaximum, 2, h), Separable(p_channels, 7, 2, p)});
    const NodeId b2 = Sum({Pool(PoolingKind::kAverage, 2, h), Separable(p_channels, 5, 2, p)});
    const NodeId b3 = Sum({Pool(PoolingKind::kAverage, 1, b0), b1});
    const NodeId b4 = Sum({Separable(3, 1, b0), Pool(PoolingKind::kMaximum, 2, h)});
    return Joined({b1, b2, b3, b4});
  }

 private:
  std::string Name(const std::string& what) const {
    return name_ + "." + what + std::to_string(counter_);
  }

  Chain& net_;
  const std::string name_;
  const int32_t filters_;
  int counter_ = 1;
};

}  // namespace

Result<Graph> NasNetA(const std::string& name, const NasNetSize& size) {
  Chain net(name, 3, size.extent);
  net.Normalised("conv0", Square(size.stem_filters, 3, 2));
  const NodeId stem = net.last();

  // The stem has two reduction cells. The first reads the stem's convolution as both of its inputs.
  NasnetCell stem0(net, "stem0", size.filters / 4);
  NodeId p = stem0.Reduction(stem0.Squeeze("h", stem), stem, size.stem_filters);
  NasnetCell stem1(net, "stem1", size.filters / 2);
  NodeId h = stem1.Squeeze("h", p);
  h = stem1.Reduction(h, stem1.SqueezeAndHalve("p", stem), size.filters / 2);

  int32_t filters = size.filters;
  int number = 0;
  for (int stage = 0; stage < 3; ++stage) {
    for (int i = 0; i < size.repeats; ++i) {
      NasnetCell cell(net, "cell" + std::to_string(number++), filters);
      const NodeId squeezed = i == 0 ? cell.SqueezeAndHalve("p", p) : cell.Squeeze("p", p);
      const NodeId out = cell.Normal(cell.Squeeze("h", h), squeezed);
      p = h;
      h = out;
    }
    if (stage == 2) break;
    filters *= 2;
    NasnetCell cell(net, "reduction" + std::to_string(stage), filters);
    const NodeId squeezed = cell.Squeeze("p", p);
    const NodeId out = cell.Reduction(cell.Squeeze("h", h), squeezed, filters);
    if (!size.prior_skips) p = h;
    h = out;
  }
  net.ContinueFrom(h);
  net.Relu("relu");
  net.Classify(kImageNetClasses, 0.5);
  return net.Build();
}

}  // namespace ucudnn::planner
