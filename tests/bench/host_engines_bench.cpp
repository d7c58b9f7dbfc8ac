// Compares the engines of the CPU stand-in with oneDNN's own primitives on AlexNet's conv2 … conv5.
// Algorithms 0 and 2 compute in the caller's layout, so they are compared with oneDNN in nchw. The
// other algorithms are compared with oneDNN in the layouts that it prefers. oneDNN always computes
// in fp32. Prints one row for each layer, operation and engine with the minimum and the median of
// the repetitions. Engine and primitive take turns, so that a busy machine slows both. The times
// are wall times on this machine's CPU and say nothing about a GPU.
//   host_engines_bench [BATCH=32] [REPETITIONS=9]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "shim/host/engines/engine.h"
#include "shim/host/engines/onednn_version.h"
#include "tests/bench/statistics.h"

namespace {

using dnnl::memory;
using hostgpu::ConvolutionShape;
using hostgpu::Operation;
using ucudnn::bench::Median;
using ucudnn::bench::Minimum;

struct Layer {
  const char* name;
  int64_t c, k, size, filter;
};
constexpr Layer kLayers[] = {{"conv2", 64, 192, 27, 5},
                             {"conv3", 192, 384, 13, 3},
                             {"conv4", 384, 256, 13, 3},
                             {"conv5", 256, 256, 13, 3}};
constexpr const char* kOperations[] = {"forward", "backward_data", "backward_filter"};
constexpr int kWinograd[] = {6, 4, 5};

ConvolutionShape ShapeOf(const Layer& layer, int64_t n, Operation operation,
                         hostgpu::DataType type) {
  ConvolutionShape s{};
  s.operation = operation;
  s.type = type;
  s.n = n, s.c = layer.c, s.k = layer.k, s.groups = 1;
  s.x = s.y = {1, layer.size, layer.size};
  s.w = {1, layer.filter, layer.filter};
  s.pad = s.upper_pad = {0, layer.filter / 2, layer.filter / 2};
  s.stride = s.dilation = {1, 1, 1};
  const int64_t image = layer.size * layer.size;
  s.x_strides = {s.c * image, image, image, layer.size, 1};
  s.y_strides = {s.k * image, image, image, layer.size, 1};
  return s;
}

// Runs the convolution with oneDNN, as a user of oneDNN would write it. If `any` is false, all
// tensors are in nchw. Otherwise they are in the layouts that oneDNN prefers, and each run reorders
// every tensor from or to nchw.
class Rival {
 public:
  Rival(const ConvolutionShape& s, bool any, float* x, float* w, float* y)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const auto type = memory::data_type::f32;
    const std::vector<memory::dims> dims{
        {s.n, s.c, s.x[1], s.x[2]}, {s.k, s.c, s.w[1], s.w[2]}, {s.n, s.k, s.y[1], s.y[2]}};
    std::vector<memory::desc> plain, wish;
    for (const auto& d : dims) {
      plain.emplace_back(d, type, memory::format_tag::abcd);
      wish.emplace_back(d, type, any ? memory::format_tag::any : memory::format_tag::abcd);
    }
    const hostgpu::ConvolutionGeometry geometry{
        {1, 1}, {0, 0}, {s.pad[1], s.pad[2]}, {s.upper_pad[1], s.upper_pad[2]}};
    const dnnl::primitive_attr attr;
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto forward =
        hostgpu::DescribeForward(dnnl::prop_kind::forward_training, direct, wish[0], wish[1],
                                 wish[2], geometry, attr, engine_);
    std::vector<memory::desc> layouts;
    int output = 2;
    std::vector<int> roles{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (s.operation == Operation::kForward) {
      layouts = {forward.src_desc(), forward.weights_desc(), forward.dst_desc()};
      convolution_ = dnnl::convolution_forward(forward);
    } else if (s.operation == Operation::kBackwardData) {
      const auto pd = hostgpu::DescribeBackward<dnnl::convolution_backward_data>(
          direct, wish[0], wish[1], wish[2], geometry, attr, engine_, forward);
      layouts = {pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc()};
      convolution_ = dnnl::convolution_backward_data(pd);
      output = 0;
      roles = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    } else {
      const auto pd = hostgpu::DescribeBackward<dnnl::convolution_backward_weights>(
          direct, wish[0], wish[1], wish[2], geometry, attr, engine_, forward);
      layouts = {pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc()};
      convolution_ = dnnl::convolution_backward_weights(pd);
      output = 1;
      roles = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
    }
    float* const data[] = {x, w, y};
    for (int i = 0; i < 3; ++i) {
      memory user(plain[i], engine_, data[i]);
      memory used = layouts[i] == plain[i] ? user : memory(layouts[i], engine_);
      arguments_[roles[i]] = used;
      if (layouts[i] == plain[i]) continue;
      if (i == output) {
        after_.push_back({dnnl::reorder(used, user), used, user});
      } else {
        before_.push_back({dnnl::reorder(user, used), user, used});
      }
    }
  }

  void Run() {
    for (Copy& copy : before_) copy.reorder.execute(stream_, copy.from, copy.to);
    convolution_.execute(stream_, arguments_);
    for (Copy& copy : after_) copy.reorder.execute(stream_, copy.from, copy.to);
    stream_.wait();
  }

 private:
  struct Copy {
    dnnl::reorder reorder;
    memory from, to;
  };
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive convolution_;
  std::vector<Copy> before_, after_;
  std::unordered_map<int, memory> arguments_;
};

double TimeMs(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// An engine, and the kind of Rival with which it is compared.
struct Entry {
  const char* name;
  hostgpu::DataType type;
  int algorithm;
  bool any;  // for the constructor of Rival
};

std::vector<Entry> Entries(Operation operation) {
  using hostgpu::DataType;
  std::vector<Entry> entries{{"0", DataType::kFloat, 0, false}, {"1", DataType::kFloat, 1, true}};
  if (operation == Operation::kForward) entries.push_back({"2", DataType::kFloat, 2, false});
  entries.push_back({"Winograd", DataType::kFloat, kWinograd[static_cast<int>(operation)], true});
  entries.push_back({"0 fp16", DataType::kHalf, 0, false});
  entries.push_back({"1 fp16", DataType::kHalf, 1, true});
  return entries;
}

void Measure(const Layer& layer, int64_t n, Operation operation, int repetitions) {
  const auto shape = ShapeOf(layer, n, operation, hostgpu::DataType::kFloat);
  std::vector<float> x(shape.n * shape.x_strides[0], 0.5f), y(shape.n * shape.y_strides[0]),
      w(shape.k * shape.c * layer.filter * layer.filter, 0.25f);
  Rival plain(shape, false, x.data(), w.data(), y.data());
  Rival any(shape, true, x.data(), w.data(), y.data());
  for (const Entry& entry : Entries(operation)) {
    const auto typed = ShapeOf(layer, n, operation, entry.type);
    const auto bytes = hostgpu::WorkspaceBytes(typed, entry.algorithm);
    if (!bytes) continue;
    std::vector<char> workspace(*bytes);
    Rival& rival = entry.any ? any : plain;
    const auto engine = [&] {
      if (!hostgpu::Run(typed, entry.algorithm, 1, x.data(), w.data(), y.data(), 0,
                        workspace.data())) {
        std::fprintf(stderr, "%s %s: algorithm %s cannot run\n", layer.name,
                     kOperations[static_cast<int>(operation)], entry.name);
        std::exit(1);
      }
    };
    const auto onednn = [&] { rival.Run(); };
    engine(), onednn();
    std::vector<double> ours, theirs;
    for (int i = 0; i < repetitions; ++i) {
      ours.push_back(TimeMs(engine));
      theirs.push_back(TimeMs(onednn));
    }
    std::printf("%-6s %-16s %-9s | %8.2f %8.2f | %-5s %8.2f %8.2f | %6.2f %6.2f | %8.1f\n",
                layer.name, kOperations[static_cast<int>(operation)], entry.name, Minimum(ours),
                Median(ours), entry.any ? "best" : "nchw", Minimum(theirs), Median(theirs),
                Minimum(theirs) / Minimum(ours), Median(theirs) / Median(ours),
                static_cast<double>(*bytes) / (1 << 20));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? std::atoll(argv[1]) : 32;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 9;
  if (n < 1 || repetitions < 1) {
    std::fprintf(stderr, "usage: host_engines_bench [BATCH=32] [REPETITIONS=9], both at least 1\n");
    return 2;
  }
  std::printf(
      "n=%lld, nchw; ms over %d repetitions; of min, of med: their ratio oneDNN / engine (1 is as "
      "fast)\n",
      static_cast<long long>(n), repetitions);
  std::printf("%-6s %-16s %-9s | %8s %8s | %-5s %8s %8s | %6s %6s | %8s\n", "layer", "operation",
              "algorithm", "min", "median", "dnnl", "min", "median", "of min", "of med", "ws MiB");
  for (const Layer& layer : kLayers) {
    for (int o = 0; o < 3; ++o) Measure(layer, n, static_cast<Operation>(o), repetitions);
  }
}
