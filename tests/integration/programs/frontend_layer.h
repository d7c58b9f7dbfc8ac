// Shared parts of test programs that are written with NVIDIA's cudnn-frontend: channels-last
// tensors, graphs of operations on them, and plain loops. Values are small integers, so every sum
// is exact in any order, and is rounded once, to the type of the result.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device_numbers.h"

namespace layer {

namespace fe = cudnn_frontend;

inline constexpr int64_t kChannels = 16, kFilters = 24, kTap = 3, kPad = 1;

inline void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(2);
}
inline void Check(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuDNN: %s\n", cudnnGetErrorString(status));
  std::exit(2);
}
inline void Check(fe::error_t error) {
  if (error.is_good()) return;
  std::fprintf(stderr, "cudnn-frontend: %s\n", error.get_message().c_str());
  std::exit(2);
}

// A type of elements on the device, and its conversions from and to float.
struct Type {
  fe::DataType_t type;
  size_t bytes;
  void (*encode)(float value, void* element);
  float (*decode)(const void* element);
};

template <class T, T (*Narrow)(float), float (*Widen)(T)>
constexpr Type TypeOf(fe::DataType_t type) {
  return {type, sizeof(T),
          [](float value, void* element) {
            const T narrow = Narrow(value);
            std::memcpy(element, &narrow, sizeof narrow);
          },
          [](const void* element) {
            T narrow;
            std::memcpy(&narrow, element, sizeof narrow);
            return Widen(narrow);
          }};
}
inline float Same(float value) { return value; }
inline __half ToHalf(float value) { return __float2half_rn(value); }
inline float FromHalf(__half value) { return __half2float(value); }
inline __nv_bfloat16 ToBfloat16(float value) { return __float2bfloat16_rn(value); }
inline float FromBfloat16(__nv_bfloat16 value) { return __bfloat162float(value); }

// Returns the types by name; the programs take the names as arguments.
inline const std::map<std::string, Type>& Types() {
  static const std::map<std::string, Type> types = {
      {"fp32", TypeOf<float, Same, Same>(fe::DataType_t::FLOAT)},
      {"fp16", TypeOf<__half, ToHalf, FromHalf>(fe::DataType_t::HALF)},
      {"bf16", TypeOf<__nv_bfloat16, ToBfloat16, FromBfloat16>(fe::DataType_t::BFLOAT16)}};
  return types;
}

// The images and outputs of a layer have size^spatial positions. Process RANK of WORLD_SIZE
// processes has the rows from first_row to end_row; without these variables, a process has all
// rows.
struct Layer {
  Type type;
  int spatial;  // 2 or 3
  int64_t batch, size;
  int64_t first_row = size * Variable("RANK", 0) / Variable("WORLD_SIZE", 1);
  int64_t end_row = size * (Variable("RANK", 0) + 1) / Variable("WORLD_SIZE", 1);

  int64_t depth() const { return spatial == 3 ? size : 1; }
};

// A channels-last tensor of small integers with `extent` elements along each side. The host has the
// whole tensor. If `extent` is the layer's size, the tensor is an image, and the device has only
// the process's rows of it. Otherwise the device has the whole tensor.
struct Tensor {
  Tensor(const Layer& layer, int64_t n, int64_t c, int64_t extent)
      : type(layer.type),
        channels(c),
        side(extent),
        depth(layer.spatial == 3 ? extent : 1),
        first_row(extent == layer.size ? layer.first_row : 0),
        rows(extent == layer.size ? layer.end_row - layer.first_row : extent),
        values(n * c * depth * extent * extent) {
    dims = {n, c};
    dims.insert(dims.end(), layer.spatial, extent);
    dims[dims.size() - 2] = rows;
    strides.assign(dims.size(), 1);
    int64_t stride = c;
    for (size_t axis = dims.size() - 1; axis >= 2; --axis) {
      strides[axis] = stride;
      stride *= dims[axis];
    }
    strides[0] = stride;
    Check(cudaMalloc(&device, device_bytes()));
    Check(cudaMemset(device, 0, device_bytes()));
  }
  ~Tensor() { cudaFree(device); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  float& At(int64_t n, int64_t c, const std::array<int64_t, 3>& at) {
    return values[(((n * depth + at[0]) * side + at[1]) * side + at[2]) * channels + c];
  }
  size_t device_bytes() const { return values.size() / side * rows * type.bytes; }
  // Calls visit(value, element) for each element on the device.
  template <class Visit>
  void ForEachOnDevice(const Visit& visit) const {
    const int64_t row = side * channels;
    size_t element = 0;
    for (int64_t plane = 0; plane < static_cast<int64_t>(values.size()) / (side * row); ++plane) {
      const int64_t first = (plane * side + first_row) * row;
      for (int64_t i = first; i < first + rows * row; ++i) visit(values[i], element++);
    }
  }
  void Fill(uint32_t seed) {
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>(seed >> 24) % 3 - 1);
    }
    std::vector<char> elements(device_bytes());
    ForEachOnDevice([&](float value, size_t i) { type.encode(value, &elements[i * type.bytes]); });
    Check(cudaMemcpy(device, elements.data(), elements.size(), cudaMemcpyHostToDevice));
  }
  // Prints the checksum of the elements on the device. Returns whether they equal `values`, rounded
  // to the type.
  bool Report(const char* name, int64_t workspace_bytes) const {
    std::vector<char> elements(device_bytes());
    Check(cudaMemcpy(elements.data(), device, elements.size(), cudaMemcpyDeviceToHost));
    uint64_t sum = 1469598103934665603u;
    bool same = true;
    ForEachOnDevice([&](float wanted, size_t i) {
      const float value = type.decode(&elements[i * type.bytes]);
      char rounded[sizeof(float)];
      type.encode(wanted, rounded);
      same = same && value == type.decode(rounded);
      sum = (sum ^ static_cast<uint64_t>(static_cast<int64_t>(value))) * 1099511628211u;
    });
    std::printf("%s checksum %016llx workspace %lld %s\n", name,
                static_cast<unsigned long long>(sum), static_cast<long long>(workspace_bytes),
                same ? "exact" : "WRONG");
    return same;
  }

  const Type type;
  const int64_t channels, side, depth, first_row, rows;
  std::vector<int64_t> dims, strides;
  std::vector<float> values;
  void* device = nullptr;
};

// A graph, and the device pointers of its tensors by their unique ids.
class Graph {
 public:
  using Value = std::shared_ptr<fe::graph::Tensor_attributes>;

  Graph(cudnnHandle_t handle, const Layer& layer) : layer_(layer), handle_(handle) {
    graph_.set_io_data_type(layer.type.type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Value Input(const char* name, const Tensor& tensor) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_dim(tensor.dims)
                             .set_stride(tensor.strides)
                             .set_uid(Place(tensor))
                             .set_data_type(tensor.type.type));
  }
  void Output(const Value& value, const Tensor& tensor) {
    value->set_output(true).set_uid(Place(tensor)).set_dim(tensor.dims).set_stride(tensor.strides);
  }
  Value Forward(const Value& x, const Value& w) {
    return graph_.conv_fprop(x, w, Convolution<fe::graph::Conv_fprop_attributes>());
  }
  Value BackwardData(const Value& dy, const Value& w) {
    return graph_.conv_dgrad(dy, w, Convolution<fe::graph::Conv_dgrad_attributes>());
  }
  Value BackwardFilter(const Value& dy, const Value& x) {
    return graph_.conv_wgrad(dy, x, Convolution<fe::graph::Conv_wgrad_attributes>());
  }
  Value Add(const Value& a, const Value& b) {
    return graph_.pointwise(a, b, Pointwise(fe::PointwiseMode_t::ADD));
  }
  Value Relu(const Value& a) {
    return graph_.pointwise(a, Pointwise(fe::PointwiseMode_t::RELU_FWD));
  }
  Value ReluGradient(const Value& dy, const Value& y) {
    return graph_.pointwise(dy, y, Pointwise(fe::PointwiseMode_t::RELU_BWD));
  }

  // Builds the first plan in the heuristics' list that the device supports, and runs it. Returns
  // its workspace in bytes.
  int64_t Run() {
    Check(graph_.build(handle_, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
    return Execute(graph_);
  }
  // Serializes the plan, loads it again, and runs it. Returns its workspace in bytes.
  int64_t RunLoaded() {
    std::vector<uint8_t> saved;
    Check(graph_.serialize(saved));
    fe::graph::Graph loaded;
    Check(loaded.deserialize(handle_, saved));
    return Execute(loaded);
  }

 private:
  int64_t Place(const Tensor& tensor) {
    const auto id = static_cast<int64_t>(pointers_.size()) + 1;
    pointers_[id] = tensor.device;
    return id;
  }
  template <class Attributes>
  Attributes Convolution() const {
    const auto axes = [&](int64_t value) { return std::vector<int64_t>(layer_.spatial, value); };
    return Attributes().set_padding(axes(kPad)).set_stride(axes(1)).set_dilation(axes(1));
  }
  static fe::graph::Pointwise_attributes Pointwise(fe::PointwiseMode_t mode) {
    return fe::graph::Pointwise_attributes().set_mode(mode);
  }
  int64_t Execute(fe::graph::Graph& graph) {
    int64_t bytes = 0;
    Check(graph.get_workspace_size(bytes));
    void* workspace = nullptr;
    if (bytes > 0) Check(cudaMalloc(&workspace, static_cast<size_t>(bytes)));
    Check(graph.execute(handle_, pointers_, workspace));
    Check(cudaDeviceSynchronize());
    Check(cudaFree(workspace));
    return bytes;
  }

  const Layer& layer_;

 protected:
  const cudnnHandle_t handle_;
  fe::graph::Graph graph_;
  std::unordered_map<int64_t, void*> pointers_;
};

// One product of the convolution: x[n, c, i] * w[k, c, t] is a summand of y[n, k, o].
struct Product {
  int64_t n, k, c;
  std::array<int64_t, 3> o, t, i;
};

template <class Body>
void ForEachProduct(const Layer& layer, const Body& body) {
  const int64_t extents[] = {layer.depth(), layer.size, layer.size};
  const int64_t taps[] = {layer.spatial == 3 ? kTap : 1, kTap, kTap};
  const int64_t pad[] = {layer.spatial == 3 ? kPad : 0, kPad, kPad};
  const int64_t outputs = extents[0] * extents[1] * extents[2], all_taps = taps[0] * kTap * kTap;
  for (int64_t output = 0; output < outputs; ++output) {
    for (int64_t tap = 0; tap < all_taps; ++tap) {
      Product p{};
      p.o = {output / extents[2] / extents[1], output / extents[2] % extents[1],
             output % extents[2]};
      p.t = {tap / kTap / kTap, tap / kTap % kTap, tap % kTap};
      bool inside = true;
      for (int axis = 0; axis < 3; ++axis) {
        p.i[axis] = p.o[axis] + p.t[axis] - pad[axis];
        inside = inside && p.i[axis] >= 0 && p.i[axis] < extents[axis];
      }
      if (!inside) continue;
      for (p.n = 0; p.n < layer.batch; ++p.n)
        for (p.k = 0; p.k < kFilters; ++p.k)
          for (p.c = 0; p.c < kChannels; ++p.c) body(p);
    }
  }
}

}  // namespace layer
