// How near the stand-in's engines come to oneDNN itself: each engine on AlexNet's conv2 … conv5,
// beside oneDNN's own primitive in the layout the engine is measured against. Prints one row a
// kernel; every figure is the median of repetitions that alternate, so that a busy machine slows
// both. Times are CPU times of this machine and say nothing about a GPU.
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

namespace {

using dnnl::memory;
using hostgpu::ConvolutionShape;
using hostgpu::Operation;

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
  s.pad = {0, layer.filter / 2, layer.filter / 2};
  s.stride = s.dilation = {1, 1, 1};
  const int64_t image = layer.size * layer.size;
  s.x_strides = {s.c * image, image, image, layer.size, 1};
  s.y_strides = {s.k * image, image, image, layer.size, 1};
  return s;
}

// The convolution as oneDNN's user would write it: in nchw throughout (`any` false), or in the
// layouts it likes best with a reorder of each tensor from and to nchw on every run.
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
    const memory::dims one{1, 1}, zero{0, 0}, pad{s.pad[1], s.pad[2]};
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, wish[0], wish[1], wish[2], one, zero, pad, pad},
        engine_);
    std::vector<memory::desc> layouts;
    int output = 2;
    std::vector<int> roles{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (s.operation == Operation::kForward) {
      layouts = {forward.src_desc(), forward.weights_desc(), forward.dst_desc()};
      convolution_ = dnnl::convolution_forward(forward);
    } else if (s.operation == Operation::kBackwardData) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {direct, wish[0], wish[1], wish[2], one, zero, pad, pad}, engine_, forward);
      layouts = {pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc()};
      convolution_ = dnnl::convolution_backward_data(pd);
      output = 0;
      roles = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {direct, wish[0], wish[1], wish[2], one, zero, pad, pad}, engine_, forward);
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

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? std::atoll(argv[1]) : 32;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 9;
  std::printf("n=%lld, fp32 nchw; ms, median of %d; ratio = oneDNN / engine (1 is as fast)\n",
              static_cast<long long>(n), repetitions);
  std::printf("%-6s %-16s | %8s %8s %6s | %8s %8s %6s %8s | %8s %8s | %8s\n", "layer", "operation",
              "algo 0", "dnnl", "ratio", "algo 1", "dnnl any", "ratio", "ws MiB", "algo 2",
              "Winograd", "fp16 0/1");
  for (const Layer& layer : kLayers) {
    for (int o = 0; o < 3; ++o) {
      const auto shape = ShapeOf(layer, n, static_cast<Operation>(o), hostgpu::DataType::kFloat);
      const auto half = ShapeOf(layer, n, static_cast<Operation>(o), hostgpu::DataType::kHalf);
      std::vector<float> x(shape.n * shape.x_strides[0], 0.5f), y(shape.n * shape.y_strides[0]),
          w(shape.k * shape.c * layer.filter * layer.filter, 0.25f);
      Rival plain(shape, false, x.data(), w.data(), y.data());
      Rival any(shape, true, x.data(), w.data(), y.data());
      size_t bytes = 0;
      for (int algorithm = 0; algorithm < hostgpu::kAlgorithmCount; ++algorithm) {
        bytes = std::max(bytes, hostgpu::WorkspaceBytes(shape, algorithm).value_or(0));
        bytes = std::max(bytes, hostgpu::WorkspaceBytes(half, algorithm).value_or(0));
      }
      std::vector<char> workspace(bytes);
      const auto engine = [&](const ConvolutionShape& s, int algorithm) {
        return std::function<void()>([&, algorithm] {
          if (!hostgpu::Run(s, algorithm, 1, x.data(), w.data(), y.data(), 0, workspace.data())) {
            std::exit(1);
          }
        });
      };
      std::vector<std::function<void()>> runs{engine(shape, 0), [&] { plain.Run(); },
                                              engine(shape, 1), [&] { any.Run(); },
                                              engine(half, 0),  engine(half, 1)};
      const bool has_gemm = o == 0 && hostgpu::WorkspaceBytes(shape, 2);
      const bool has_winograd = hostgpu::WorkspaceBytes(shape, kWinograd[o]).has_value();
      runs.push_back(has_gemm ? engine(shape, 2) : [] {});
      runs.push_back(has_winograd ? engine(shape, kWinograd[o]) : [] {});
      std::vector<std::vector<double>> times(runs.size());
      for (const auto& run : runs) run();
      for (int i = 0; i < repetitions; ++i) {
        for (size_t r = 0; r < runs.size(); ++r) times[r].push_back(TimeMs(runs[r]));
      }
      std::vector<double> ms;
      for (const auto& t : times) ms.push_back(Median(t));
      std::printf(
          "%-6s %-16s | %8.2f %8.2f %6.2f | %8.2f %8.2f %6.2f %8.1f | %8.2f %8.2f | %.1f/%.1f\n",
          layer.name, kOperations[o], ms[0], ms[1], ms[1] / ms[0], ms[2], ms[3], ms[3] / ms[2],
          static_cast<double>(*hostgpu::WorkspaceBytes(shape, 1)) / (1 << 20), ms[6], ms[7], ms[4],
          ms[5]);
      std::fflush(stdout);
    }
  }
}
