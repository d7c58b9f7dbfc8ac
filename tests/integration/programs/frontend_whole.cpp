// Runs three graphs that ucudnn does not divide, written with NVIDIA's cudnn-frontend. In the
// first, a convolution follows a ReLU and precedes statistics. In the second, a convolution
// precedes a concatenation. The third is a convolution of 8-bit integers. The program knows nothing
// of ucudnn.
//
//   frontend_whole BATCH
//
// It prints a checksum of every result, and exits with 1 if a result differs from plain loops.
#include <algorithm>

#include "frontend_layer.h"

namespace {

using namespace layer;

template <class To, class From>
To Cast(From value) {
  return static_cast<To>(value);
}
template <class T>
constexpr Type IntegerType(fe::DataType_t type) {
  return TypeOf<T, Cast<T, float>, Cast<float, T>>(type);
}

class WholeGraph : public Graph {
 public:
  using Graph::Graph;

  void SumIntegers() {
    graph_.set_intermediate_data_type(fe::DataType_t::INT32)
        .set_compute_data_type(fe::DataType_t::INT32);
  }
  void Statistics(const Value& y, const Tensor& sum, const Tensor& squares) {
    const auto values = graph_.genstats(y, fe::graph::Genstats_attributes());
    Output(values[0], sum);
    Output(values[1], squares);
    for (const Value& value : values) value->set_data_type(fe::DataType_t::FLOAT);
  }
  // Concatenates y and the second half of the channels of `all` into `all`. The second half is
  // already there, so it is not copied.
  void PutBefore(const Value& y, const Tensor& like, const Tensor& all) {
    const int64_t id = 100;
    pointers_[id] = static_cast<char*>(all.device) + like.channels * all.type.bytes;
    const Value there = graph_.tensor(fe::graph::Tensor_attributes()
                                          .set_name("there")
                                          .set_dim(like.dims)
                                          .set_stride(all.strides)
                                          .set_uid(id)
                                          .set_data_type(all.type.type));
    y->set_data_type(all.type.type);
    const auto options = fe::graph::Concatenate_attributes().set_axis(1).set_in_place_index(1);
    Output(graph_.concatenate({y, there}, options), all);
  }
};

bool StatisticsOfRelu(cudnnHandle_t handle, const Layer& layer) {
  const Layer sums{Types().at("fp32"), 2, layer.batch, layer.size};
  Tensor x(layer, layer.batch, kChannels, layer.size), w(layer, kFilters, kChannels, kTap);
  Tensor y(layer, layer.batch, kFilters, layer.size);
  Tensor sum(sums, 1, kFilters, 1), squares(sums, 1, kFilters, 1);
  x.Fill(1);
  w.Fill(2);
  WholeGraph graph(handle, layer);
  const auto output = graph.Forward(graph.Relu(graph.Input("x", x)), graph.Input("w", w));
  graph.Output(output, y);
  graph.Statistics(output, sum, squares);
  const int64_t bytes = graph.Run();
  ForEachProduct(layer, [&](const Product& p) {
    y.At(p.n, p.k, p.o) += std::max(x.At(p.n, p.c, p.i), 0.0f) * w.At(p.k, p.c, p.t);
  });
  for (size_t i = 0; i < y.values.size(); ++i) {
    sum.values[i % kFilters] += y.values[i];
    squares.values[i % kFilters] += y.values[i] * y.values[i];
  }
  bool exact = y.Report("statistics_y", bytes);
  exact = sum.Report("sum", bytes) && exact;
  return squares.Report("squares", bytes) && exact;
}

bool Concatenation(cudnnHandle_t handle, const Layer& layer) {
  Tensor x(layer, layer.batch, kChannels, layer.size), w(layer, kFilters, kChannels, kTap);
  Tensor y(layer, layer.batch, kFilters, layer.size);
  Tensor all(layer, layer.batch, 2 * kFilters, layer.size);
  x.Fill(1);
  w.Fill(2);
  all.Fill(3);
  WholeGraph graph(handle, layer);
  graph.PutBefore(graph.Forward(graph.Input("x", x), graph.Input("w", w)), y, all);
  const int64_t bytes = graph.Run();
  for (size_t i = 0; i < all.values.size(); ++i) {
    if (i % (2 * kFilters) < kFilters) all.values[i] = 0;
  }
  ForEachProduct(layer, [&](const Product& p) {
    all.At(p.n, p.k, p.o) += x.At(p.n, p.c, p.i) * w.At(p.k, p.c, p.t);
  });
  return all.Report("concatenation", bytes);
}

bool Integers(cudnnHandle_t handle, const Layer& layer) {
  const Layer small{IntegerType<int8_t>(fe::DataType_t::INT8), 2, layer.batch, layer.size};
  const Layer large{IntegerType<int32_t>(fe::DataType_t::INT32), 2, layer.batch, layer.size};
  Tensor x(small, layer.batch, kChannels, layer.size), w(small, kFilters, kChannels, kTap);
  Tensor y(large, layer.batch, kFilters, layer.size);
  x.Fill(1);
  w.Fill(2);
  WholeGraph graph(handle, small);
  graph.SumIntegers();
  const auto output = graph.Forward(graph.Input("x", x), graph.Input("w", w));
  graph.Output(output, y);
  output->set_data_type(fe::DataType_t::INT32);
  const int64_t bytes = graph.Run();
  ForEachProduct(layer, [&](const Product& p) {
    y.At(p.n, p.k, p.o) += x.At(p.n, p.c, p.i) * w.At(p.k, p.c, p.t);
  });
  return y.Report("int8", bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc == 2 ? std::atoll(argv[1]) : 0;
  if (batch < 1) {
    std::fprintf(stderr, "usage: frontend_whole BATCH\n");
    return 2;
  }
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle));
  const Layer layer{Types().at("fp16"), 2, batch, 12};
  bool exact = StatisticsOfRelu(handle, layer);
  exact = Concatenation(handle, layer) && exact;
  exact = Integers(handle, layer) && exact;
  Check(cudnnDestroy(handle));
  return exact ? 0 : 1;
}
