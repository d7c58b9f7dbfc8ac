// A training step of one convolution layer as a user of NVIDIA's cudnn-frontend writes it: forward
// convolution with bias and ReLU fused, ReLU's gradient, backward_data and backward_filter, in fp16
// NHWC; then the forward plan once more, rebuilt from its serialized form. Knows nothing of ucudnn.
//   frontend_step [BATCH]
// The data are small integers, so every result is exact whatever the order of its sums. Prints a
// checksum of every result and the workspace its plan asked for; exits 1 where a result differs
// from plain loops.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

namespace fe = cudnn_frontend;

namespace {

constexpr int64_t kChannels = 16, kFilters = 24, kSize = 12, kTap = 3, kPad = 1;

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "frontend_step: CUDA: %s\n", cudaGetErrorString(status));
  std::exit(2);
}
void Check(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "frontend_step: cuDNN: %s\n", cudnnGetErrorString(status));
  std::exit(2);
}
void Check(fe::error_t error) {
  if (error.is_good()) return;
  std::fprintf(stderr, "frontend_step: cudnn-frontend: %s\n", error.get_message().c_str());
  std::exit(2);
}

// A channels-last tensor of small integers, on the host and on the device.
struct Tensor {
  Tensor(int64_t n, int64_t c, int64_t h, int64_t w)
      : dims{n, c, h, w}, strides{h * w * c, 1, w * c, c}, values(n * c * h * w) {
    Check(cudaMalloc(&device, values.size() * sizeof(__half)));
    Check(cudaMemset(device, 0, values.size() * sizeof(__half)));
  }
  ~Tensor() { cudaFree(device); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  float& At(int64_t n, int64_t c, int64_t h, int64_t w) {
    return values[n * strides[0] + c + h * strides[2] + w * strides[3]];
  }
  void Fill(uint32_t seed) {
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>(seed >> 24) % 3 - 1);
    }
    std::vector<__half> halves;
    for (float value : values) halves.push_back(__float2half(value));
    Check(
        cudaMemcpy(device, halves.data(), halves.size() * sizeof(__half), cudaMemcpyHostToDevice));
  }
  // Whether the device holds exactly what `values` says; prints the checksum of what it holds.
  bool Report(const char* name, int64_t workspace_bytes) const {
    std::vector<__half> halves(values.size());
    Check(
        cudaMemcpy(halves.data(), device, halves.size() * sizeof(__half), cudaMemcpyDeviceToHost));
    uint64_t sum = 1469598103934665603u;
    bool same = true;
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = __half2float(halves[i]);
      same = same && value == values[i];
      sum = (sum ^ static_cast<uint64_t>(static_cast<int64_t>(value))) * 1099511628211u;
    }
    std::printf("%s checksum %016llx workspace %lld %s\n", name,
                static_cast<unsigned long long>(sum), static_cast<long long>(workspace_bytes),
                same ? "exact" : "WRONG");
    return same;
  }

  const std::vector<int64_t> dims, strides;
  std::vector<float> values;
  void* device = nullptr;
};

fe::graph::Tensor_attributes Describe(const char* name, const Tensor& tensor, int64_t id) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_dim(tensor.dims)
      .set_stride(tensor.strides)
      .set_uid(id)
      .set_data_type(fe::DataType_t::HALF);
}

std::shared_ptr<fe::graph::Graph> NewGraph() {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

void MarkOutput(const std::shared_ptr<fe::graph::Tensor_attributes>& output, const Tensor& tensor,
                int64_t id) {
  output->set_output(true).set_uid(id).set_dim(tensor.dims).set_stride(tensor.strides);
}

using Pointers = std::unordered_map<int64_t, void*>;

// Builds the plan that the heuristics like best, runs it and returns the workspace it needed.
int64_t Run(cudnnHandle_t handle, fe::graph::Graph& graph, Pointers pointers) {
  int64_t bytes = 0;
  Check(graph.get_workspace_size(bytes));
  void* workspace = nullptr;
  if (bytes > 0) Check(cudaMalloc(&workspace, static_cast<size_t>(bytes)));
  Check(graph.execute(handle, pointers, workspace));
  Check(cudaDeviceSynchronize());
  Check(cudaFree(workspace));
  return bytes;
}
int64_t BuildAndRun(cudnnHandle_t handle, fe::graph::Graph& graph, const Pointers& pointers) {
  Check(graph.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  return Run(handle, graph, pointers);
}

// Calls body(n, k, c, oh, ow, r, s, ih, iw) for every product of the convolution.
template <class Body>
void ForEachProduct(int64_t batch, const Body& body) {
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t k = 0; k < kFilters; ++k)
      for (int64_t c = 0; c < kChannels; ++c)
        for (int64_t oh = 0; oh < kSize; ++oh)
          for (int64_t ow = 0; ow < kSize; ++ow)
            for (int64_t r = 0; r < kTap; ++r)
              for (int64_t s = 0; s < kTap; ++s) {
                const int64_t ih = oh + r - kPad, iw = ow + s - kPad;
                if (ih < 0 || ih >= kSize || iw < 0 || iw >= kSize) continue;
                body(n, k, c, oh, ow, r, s, ih, iw);
              }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 8;
  if (argc > 2 || batch < 1) {
    std::fprintf(stderr, "usage: frontend_step [BATCH]\n");
    return 2;
  }
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle));
  enum Id : int64_t { kX = 1, kW, kBias, kY, kDy, kDz, kDx, kDw };
  bool exact = true;
  {
    Tensor x(batch, kChannels, kSize, kSize), w(kFilters, kChannels, kTap, kTap);
    Tensor bias(1, kFilters, 1, 1), y(batch, kFilters, kSize, kSize);
    Tensor dy(batch, kFilters, kSize, kSize), dz(batch, kFilters, kSize, kSize);
    Tensor dx(batch, kChannels, kSize, kSize), dw(kFilters, kChannels, kTap, kTap);
    x.Fill(1);
    w.Fill(2);
    bias.Fill(3);
    dy.Fill(4);

    const auto forward = NewGraph();
    {
      const auto convolution = forward->conv_fprop(forward->tensor(Describe("x", x, kX)),
                                                   forward->tensor(Describe("w", w, kW)),
                                                   fe::graph::Conv_fprop_attributes()
                                                       .set_padding({kPad, kPad})
                                                       .set_stride({1, 1})
                                                       .set_dilation({1, 1}));
      const auto biased =
          forward->pointwise(convolution, forward->tensor(Describe("bias", bias, kBias)),
                             fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
      MarkOutput(forward->pointwise(biased, fe::graph::Pointwise_attributes().set_mode(
                                                fe::PointwiseMode_t::RELU_FWD)),
                 y, kY);
    }
    const Pointers forward_pointers = {
        {kX, x.device}, {kW, w.device}, {kBias, bias.device}, {kY, y.device}};
    const int64_t forward_bytes = BuildAndRun(handle, *forward, forward_pointers);

    // The gradient of ReLU, then of the convolution.
    const auto relu = NewGraph();
    MarkOutput(
        relu->pointwise(relu->tensor(Describe("dy", dy, kDy)), relu->tensor(Describe("y", y, kY)),
                        fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_BWD)),
        dz, kDz);
    const int64_t relu_bytes =
        BuildAndRun(handle, *relu, {{kDy, dy.device}, {kY, y.device}, {kDz, dz.device}});

    const auto backward_data = NewGraph();
    MarkOutput(backward_data->conv_dgrad(backward_data->tensor(Describe("dz", dz, kDz)),
                                         backward_data->tensor(Describe("w", w, kW)),
                                         fe::graph::Conv_dgrad_attributes()
                                             .set_padding({kPad, kPad})
                                             .set_stride({1, 1})
                                             .set_dilation({1, 1})),
               dx, kDx);
    const int64_t data_bytes =
        BuildAndRun(handle, *backward_data, {{kDz, dz.device}, {kW, w.device}, {kDx, dx.device}});

    const auto backward_filter = NewGraph();
    MarkOutput(backward_filter->conv_wgrad(backward_filter->tensor(Describe("dz", dz, kDz)),
                                           backward_filter->tensor(Describe("x", x, kX)),
                                           fe::graph::Conv_wgrad_attributes()
                                               .set_padding({kPad, kPad})
                                               .set_stride({1, 1})
                                               .set_dilation({1, 1})),
               dw, kDw);
    const int64_t filter_bytes =
        BuildAndRun(handle, *backward_filter, {{kDz, dz.device}, {kX, x.device}, {kDw, dw.device}});

    // What plain loops make of it.
    ForEachProduct(batch,
                   [&](auto n, auto k, auto c, auto oh, auto ow, auto r, auto s, auto ih, auto iw) {
                     y.At(n, k, oh, ow) += x.At(n, c, ih, iw) * w.At(k, c, r, s);
                   });
    for (size_t i = 0; i < y.values.size(); ++i) {
      const float value = y.values[i] + bias.values[i % kFilters];
      y.values[i] = value > 0 ? value : 0;
      dz.values[i] = value > 0 ? dy.values[i] : 0;
    }
    ForEachProduct(batch,
                   [&](auto n, auto k, auto c, auto oh, auto ow, auto r, auto s, auto ih, auto iw) {
                     dx.At(n, c, ih, iw) += dz.At(n, k, oh, ow) * w.At(k, c, r, s);
                     dw.At(k, c, r, s) += dz.At(n, k, oh, ow) * x.At(n, c, ih, iw);
                   });
    exact = y.Report("forward", forward_bytes) && exact;
    exact = dz.Report("relu_gradient", relu_bytes) && exact;
    exact = dx.Report("backward_data", data_bytes) && exact;
    exact = dw.Report("backward_filter", filter_bytes) && exact;

    std::vector<uint8_t> saved;
    Check(forward->serialize(saved));
    fe::graph::Graph loaded;
    Check(loaded.deserialize(handle, saved));
    Check(cudaMemset(y.device, 0, y.values.size() * sizeof(__half)));
    exact = y.Report("forward_again", Run(handle, loaded, forward_pointers)) && exact;
  }
  Check(cudnnDestroy(handle));
  return exact ? 0 : 1;
}
