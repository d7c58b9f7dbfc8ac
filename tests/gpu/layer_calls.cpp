// Executes and times convolutions as PyTorch calls them, by the first plan in the heuristics' list
// that runs. The program knows nothing of ucudnn. Consecutive calls of a timed convolution use
// different operands, so that none finds its data in the L2 cache. The program first prints a line
// of JSON with cuDNN's version. Then it reads commands, one line of JSON each, and answers each
// with a line of JSON:
//
//   {"prepare": [KERNEL, ...], "seconds": 30}   builds each kernel and runs it once; after
//                                               30 s no kernel begins
//   {"warm_up": 0.5, "passes": 3}               calls all kernels in turn, at least 3 times and for
//                                               at least 0.5 s
//   {"time": 10}                                calls all kernels in turn, once untimed and 10
//                                               times timed; answers milliseconds for each
//   {"cost": KERNEL, "api": "legacy" or "graph", "calls": 400}
//                                               answers the host's microseconds for a call; all
//                                               calls have the same operands
//
// KERNEL is an object with name, op, the columns n to stride_w of a layers CSV, dtype and layout.
// "cache_bytes" next to "prepare" replaces the size of the device's L2 cache.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

namespace fe = cudnn_frontend;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Failure : std::runtime_error {
  using runtime_error::runtime_error;
};

void Check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw Failure(what + ": " + cudaGetErrorString(status));
}
void Check(cudnnStatus_t status, const std::string& what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Failure(what + ": " + cudnnGetErrorString(status));
}
void Check(fe::error_t error, const std::string& what) {
  if (error.is_bad()) throw Failure(what + ": " + error.get_message());
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(size_t bytes, const std::string& what) {
    if (bytes > 0) Check(cudaMalloc(&address_, bytes), "allocating " + what);
  }
  ~DeviceMemory() { cudaFree(address_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* address() const { return static_cast<char*>(address_); }

 private:
  void* address_ = nullptr;
};

// A dense tensor with four dimensions.
struct Tensor {
  std::vector<int64_t> dims;
  bool channels_last;

  size_t Count() const { return static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]); }
  std::vector<int64_t> Strides() const {
    const int64_t c = dims[1], h = dims[2], w = dims[3];
    if (channels_last) return {h * w * c, 1, w * c, c};
    return {c * h * w, h * w, w, 1};
  }
};

struct Layer {
  explicit Layer(const Json& json)
      : op(json.at("op")),
        dtype(json.at("dtype")),
        x(Of(json, "n", "c", "h", "w")),
        w(Of(json, "k", "c", "r", "s")),
        pad{json.at("pad_h"), json.at("pad_w")},
        stride{json.at("stride_h"), json.at("stride_w")} {
    y = x;
    y.dims[1] = w.dims[0];
    for (int axis = 0; axis < 2; ++axis) {
      y.dims[2 + axis] = (x.dims[2 + axis] + 2 * pad[axis] - w.dims[2 + axis]) / stride[axis] + 1;
    }
    if (op != "forward" && op != "backward_data" && op != "backward_filter") {
      throw Failure("no operation " + op);
    }
    if (dtype != "fp32" && dtype != "fp16" && dtype != "bf16") throw Failure("no type " + dtype);
  }

  // Returns the two operands that are read, and then the one that is written.
  std::vector<const Tensor*> Operands() const {
    if (op == "forward") return {&x, &w, &y};
    if (op == "backward_data") return {&y, &w, &x};
    return {&y, &x, &w};
  }
  size_t BytesOf(const Tensor& tensor) const { return tensor.Count() * (dtype == "fp32" ? 4 : 2); }
  // Returns the tensor's bytes, rounded up, so that operands begin at multiples of 256 bytes as in
  // PyTorch.
  size_t RoomFor(const Tensor& tensor) const { return (BytesOf(tensor) + 255) / 256 * 256; }

  std::string op, dtype;
  Tensor x, w, y;
  std::vector<int64_t> pad, stride;

 private:
  static Tensor Of(const Json& json, const char* a, const char* b, const char* c, const char* d) {
    return {{json.at(a), json.at(b), json.at(c), json.at(d)}, json.at("layout") == "nhwc"};
  }
};

// The memory that all kernels share: a part that they read, with random numbers of one type, and a
// part that they write.
class Operands {
 public:
  void Reserve(const std::string& dtype, size_t read_bytes, size_t written_bytes) {
    dtype_ = dtype;
    read_bytes_ = std::max(read_bytes_, read_bytes);
    written_bytes_ = std::max(written_bytes_, written_bytes);
  }
  void Allocate() {
    read_ = std::make_unique<DeviceMemory>(read_bytes_, "operands");
    written_ = std::make_unique<DeviceMemory>(written_bytes_, "results");
    const std::vector<char> block = RandomBlock();
    size_t filled = std::min(block.size(), read_bytes_);
    Check(cudaMemcpy(read_->address(), block.data(), filled, cudaMemcpyHostToDevice), "filling");
    while (filled < read_bytes_) {
      const size_t bytes = std::min(filled, read_bytes_ - filled);
      Check(
          cudaMemcpy(read_->address() + filled, read_->address(), bytes, cudaMemcpyDeviceToDevice),
          "filling");
      filled += bytes;
    }
    Check(cudaMemset(written_->address(), 0, written_bytes_), "clearing");
    Check(cudaDeviceSynchronize(), "filling");
  }

  char* read() const { return read_->address(); }
  char* written() const { return written_->address(); }

 private:
  // Returns random numbers that are repeated to fill memory. Their count is not a multiple of an
  // image's elements, so images differ.
  std::vector<char> RandomBlock() const {
    constexpr size_t kElements = (4 << 20) + 1237;
    const size_t bytes = dtype_ == "fp32" ? 4 : 2;
    std::vector<char> block(std::min(kElements * bytes, (read_bytes_ + 3) / 4 * 4));
    std::mt19937 random(1);
    for (size_t at = 0; at + bytes <= block.size(); at += bytes) {
      const float value = static_cast<float>(random()) * 0x1p-31f - 1;
      const __half half = __float2half_rn(value);
      const __nv_bfloat16 bfloat = __float2bfloat16_rn(value);
      const void* const source = dtype_ == "fp32"   ? static_cast<const void*>(&value)
                                 : dtype_ == "fp16" ? static_cast<const void*>(&half)
                                                    : static_cast<const void*>(&bfloat);
      std::memcpy(&block[at], source, bytes);
    }
    return block;
  }

  std::string dtype_;
  size_t read_bytes_ = 0, written_bytes_ = 0;
  std::unique_ptr<DeviceMemory> read_, written_;
};

// One convolution of the graph API.
class Kernel {
 public:
  Kernel(const Layer& layer, int64_t cache_bytes) : layer_(layer) {
    const auto operands = layer_.Operands();
    read_room_ = layer_.RoomFor(*operands[0]) + layer_.RoomFor(*operands[1]);
    written_room_ = layer_.RoomFor(*operands[2]);
    constexpr size_t kMostCopies = 1024;
    copies_ = std::min(2 * static_cast<size_t>(cache_bytes) / (read_room_ + written_room_) + 1,
                       kMostCopies);
  }

  void Reserve(Operands& operands) const {
    operands.Reserve(layer_.dtype, copies_ * read_room_, copies_ * written_room_);
  }

  // Builds the first plan that can be built and run. Plans of heuristics mode A are tried first,
  // then plans of the fallback mode.
  void Build(cudnnHandle_t handle, const Operands& operands) {
    handle_ = handle;
    for (size_t copy = 0; copy < copies_; ++copy) {
      char* const read = operands.read() + copy * read_room_;
      pointers_.push_back({{1, read},
                           {2, read + layer_.RoomFor(*layer_.Operands()[0])},
                           {3, operands.written() + copy * written_room_}});
    }
    Describe();
    Check(graph_.validate(), "describing");
    Check(graph_.build_operation_graph(handle), "describing");
    Check(graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}),
          "asking the heuristics");
    std::string why = "the heuristics list nothing";
    for (plan_ = 0; plan_ < graph_.get_execution_plan_count(); ++plan_) {
      try {
        Check(graph_.build_plan_at_index(plan_), "building a plan");
        Check(graph_.get_workspace_size_plan_at_index(plan_, workspace_bytes_), "asking a plan");
        workspace_ = std::make_unique<DeviceMemory>(workspace_bytes_, "workspace");
        Execute();
        Check(cudaDeviceSynchronize(), "running a plan");
        return;
      } catch (const Failure& failure) {
        why = failure.what();
        (void)cudaGetLastError();
      }
    }
    throw Failure("no plan runs: " + why);
  }

  void Execute() {
    Check(graph_.execute_plan_at_index(handle_, pointers_[call_++ % copies_], workspace_->address(),
                                       plan_),
          "running a plan");
  }

  Json Described() {
    std::string engine;
    (void)graph_.get_plan_name_at_index(plan_, engine);
    return {{"workspace_bytes", workspace_bytes_}, {"engine", engine}, {"copies", copies_}};
  }

 private:
  using Value = std::shared_ptr<fe::graph::Tensor_attributes>;

  Value Input(int64_t uid, const Tensor& tensor) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_dim(tensor.dims)
                             .set_stride(tensor.Strides())
                             .set_data_type(Type()));
  }
  fe::DataType_t Type() const {
    if (layer_.dtype == "fp32") return fe::DataType_t::FLOAT;
    return layer_.dtype == "fp16" ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
  }
  template <class Attributes>
  Attributes With() const {
    return Attributes()
        .set_padding(layer_.pad)
        .set_stride(layer_.stride)
        .set_dilation({int64_t{1}, int64_t{1}});
  }
  void Describe() {
    graph_.set_io_data_type(Type())
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const auto operands = layer_.Operands();
    const Value first = Input(1, *operands[0]), second = Input(2, *operands[1]);
    Value result;
    if (layer_.op == "forward") {
      result = graph_.conv_fprop(first, second, With<fe::graph::Conv_fprop_attributes>());
    } else if (layer_.op == "backward_data") {
      result = graph_.conv_dgrad(first, second, With<fe::graph::Conv_dgrad_attributes>());
    } else {
      result = graph_.conv_wgrad(first, second, With<fe::graph::Conv_wgrad_attributes>());
    }
    result->set_output(true)
        .set_uid(3)
        .set_dim(operands[2]->dims)
        .set_stride(operands[2]->Strides());
  }

  const Layer layer_;
  size_t read_room_, written_room_, copies_;
  cudnnHandle_t handle_ = nullptr;
  fe::graph::Graph graph_;
  int64_t plan_ = 0, workspace_bytes_ = 0;
  std::unique_ptr<DeviceMemory> workspace_;
  std::vector<std::unordered_map<int64_t, void*>> pointers_;
  size_t call_ = 0;
};

// A forward convolution of the legacy API. kAlgorithm supports pieces of any size.
class LegacyKernel {
 public:
  LegacyKernel(cudnnHandle_t handle, const Layer& layer) : handle_(handle) {
    const auto type = layer.dtype == "fp32"   ? CUDNN_DATA_FLOAT
                      : layer.dtype == "fp16" ? CUDNN_DATA_HALF
                                              : CUDNN_DATA_BFLOAT16;
    const auto format = layer.x.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const auto tensor = [&](cudnnTensorDescriptor_t* made, const Tensor& of) {
      Check(cudnnCreateTensorDescriptor(made), "describing");
      Check(cudnnSetTensor4dDescriptor(*made, format, type, Dim(of, 0), Dim(of, 1), Dim(of, 2),
                                       Dim(of, 3)),
            "describing");
    };
    tensor(&x_, layer.x);
    tensor(&y_, layer.y);
    Check(cudnnCreateFilterDescriptor(&w_), "describing");
    Check(cudnnSetFilter4dDescriptor(w_, type, format, Dim(layer.w, 0), Dim(layer.w, 1),
                                     Dim(layer.w, 2), Dim(layer.w, 3)),
          "describing");
    Check(cudnnCreateConvolutionDescriptor(&convolution_), "describing");
    Check(cudnnSetConvolution2dDescriptor(
              convolution_, static_cast<int>(layer.pad[0]), static_cast<int>(layer.pad[1]),
              static_cast<int>(layer.stride[0]), static_cast<int>(layer.stride[1]), 1, 1,
              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "describing");
    Check(cudnnGetConvolutionForwardWorkspaceSize(handle, x_, w_, convolution_, y_, kAlgorithm,
                                                  &workspace_bytes_),
          "asking for the workspace");
    // A piece may need more workspace than the undivided batch, because its kernel may tile
    // differently.
    workspace_bytes_ = std::max(workspace_bytes_, kLeastWorkspaceBytes);
    operands_.Reserve(layer.dtype, layer.RoomFor(layer.x) + layer.RoomFor(layer.w),
                      layer.RoomFor(layer.y));
    operands_.Allocate();
    filter_ = operands_.read() + layer.RoomFor(layer.x);
    workspace_ = std::make_unique<DeviceMemory>(workspace_bytes_, "workspace");
  }
  ~LegacyKernel() {
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyTensorDescriptor(x_);
  }
  LegacyKernel(const LegacyKernel&) = delete;
  LegacyKernel& operator=(const LegacyKernel&) = delete;

  void Execute() {
    const float one = 1, zero = 0;
    Check(cudnnConvolutionForward(handle_, &one, x_, operands_.read(), w_, filter_, convolution_,
                                  kAlgorithm, workspace_->address(), workspace_bytes_, &zero, y_,
                                  operands_.written()),
          "running a convolution");
  }
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  static constexpr auto kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  static constexpr size_t kLeastWorkspaceBytes = size_t{1} << 20;
  static int Dim(const Tensor& tensor, int axis) { return static_cast<int>(tensor.dims[axis]); }

  const cudnnHandle_t handle_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  size_t workspace_bytes_ = 0;
  Operands operands_;
  const void* filter_ = nullptr;
  std::unique_ptr<DeviceMemory> workspace_;
};

// Returns the host's microseconds for a call: the median and the least over groups of kGroup calls.
// A group is so small that its calls fit the device's queue.
template <class AnyKernel>
Json Cost(AnyKernel& kernel, int calls) {
  constexpr int kGroup = 20;
  constexpr double kMostSeconds = 10;
  const auto group = [&](int size) {
    const auto begin = Clock::now();
    for (int call = 0; call < size; ++call) kernel.Execute();
    const double us = SecondsSince(begin) * 1e6 / size;
    Check(cudaDeviceSynchronize(), "running a convolution");
    return us;
  };
  group(kGroup);
  std::vector<double> groups_us;
  const auto begin = Clock::now();
  while (static_cast<int>(groups_us.size()) * kGroup < calls &&
         SecondsSince(begin) < kMostSeconds) {
    groups_us.push_back(group(kGroup));
  }
  if (groups_us.empty()) throw Failure("no call asked for");
  std::sort(groups_us.begin(), groups_us.end());
  return {{"median_us", groups_us[groups_us.size() / 2]},
          {"min_us", groups_us.front()},
          {"calls", groups_us.size() * kGroup}};
}

class Program {
 public:
  Program() {
    Check(cudaFree(nullptr), "making a context");
    Check(cudnnCreate(&handle_), "cudnnCreate");
  }
  ~Program() {
    kernels_.clear();
    graph_.reset();
    legacy_.reset();
    cudnnDestroy(handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Json Answer(const Json& command) {
    if (command.contains("prepare")) return Prepare(command);
    if (command.contains("warm_up")) return WarmUp(command);
    if (command.contains("time")) return Time(command.at("time"));
    if (command.contains("cost")) return CostOf(command);
    throw Failure("no such command");
  }

 private:
  struct Named {
    std::string name, dtype;
    std::shared_ptr<Kernel> kernel;
  };

  static int64_t CacheBytes(const Json& command) {
    int device = 0, bytes = 0;
    if (command.contains("cache_bytes")) return command.at("cache_bytes");
    Check(cudaGetDevice(&device), "asking for the device");
    Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "asking for the cache");
    return bytes;
  }

  Json Prepare(const Json& command) {
    const auto begin = Clock::now();
    const double limit_s = command.at("seconds");
    const int64_t cache_bytes = CacheBytes(command);
    for (const Json& json : command.at("prepare")) {
      const Layer layer(json);
      const auto kernel = std::make_shared<Kernel>(layer, cache_bytes);
      kernel->Reserve(operands_[layer.dtype]);
      kernels_.push_back({json.at("name"), layer.dtype, kernel});
    }
    for (auto& [dtype, operands] : operands_) operands.Allocate();
    Json told = Json::object();
    std::vector<Named> ready;
    for (Named& each : kernels_) {
      const auto building = Clock::now();
      if (SecondsSince(begin) > limit_s) {
        told[each.name] = {{"error", "no time left to build it"}};
        continue;
      }
      try {
        each.kernel->Build(handle_, operands_[each.dtype]);
        told[each.name] = each.kernel->Described();
        told[each.name]["build_ms"] = SecondsSince(building) * 1000;
        ready.push_back(each);
      } catch (const std::exception& failure) {
        told[each.name] = {{"error", failure.what()}};
      }
    }
    kernels_ = ready;
    Check(cudaDeviceSynchronize(), "preparing");
    return {{"kernels", told}, {"seconds", SecondsSince(begin)}, {"cache_bytes", cache_bytes}};
  }

  void Pass() {
    for (Named& each : kernels_) Run(each);
  }
  static void Run(Named& each) {
    try {
      each.kernel->Execute();
    } catch (const Failure& failure) {
      throw Failure(each.name + ": " + failure.what());
    }
  }

  Json WarmUp(const Json& command) {
    const auto begin = Clock::now();
    int passes = 0;
    double pass_ms = 0;
    while (passes < command.at("passes") || SecondsSince(begin) < command.at("warm_up")) {
      const auto pass = Clock::now();
      Pass();
      Check(cudaDeviceSynchronize(), "warming up");
      pass_ms = SecondsSince(pass) * 1000;
      ++passes;
    }
    return {{"passes", passes}, {"pass_ms", pass_ms}, {"seconds", SecondsSince(begin)}};
  }

  // Times `passes` passes over all kernels. The host enqueues one pass before the first mark, so
  // that the device has work while the host enqueues the timed passes.
  Json Time(int passes) {
    const size_t wanted = static_cast<size_t>(passes) * kernels_.size() + 1;
    while (marks_.size() < wanted) {
      marks_.emplace_back();
      Check(cudaEventCreate(&marks_.back()), "cudaEventCreate");
    }
    Pass();
    size_t mark = 0;
    Check(cudaEventRecord(marks_[mark], nullptr), "cudaEventRecord");
    for (int pass = 0; pass < passes; ++pass) {
      for (Named& each : kernels_) {
        Run(each);
        Check(cudaEventRecord(marks_[++mark], nullptr), "cudaEventRecord");
      }
    }
    Check(cudaDeviceSynchronize(), "running");
    Json told = Json::object();
    for (size_t kernel = 0; kernel < kernels_.size(); ++kernel) {
      double sum_ms = 0;
      for (int pass = 0; pass < passes; ++pass) {
        const size_t at = pass * kernels_.size() + kernel;
        float ms = 0;
        Check(cudaEventElapsedTime(&ms, marks_[at], marks_[at + 1]), "cudaEventElapsedTime");
        sum_ms += ms;
      }
      told[kernels_[kernel].name] = sum_ms / passes;
    }
    return {{"ms", told}};
  }

  Json CostOf(const Json& command) {
    const Layer layer(command.at("cost"));
    if (command.at("api") == "legacy") {
      if (!legacy_) legacy_ = std::make_unique<LegacyKernel>(handle_, layer);
      Json cost = Cost(*legacy_, command.at("calls"));
      cost["workspace_bytes"] = legacy_->workspace_bytes();
      return cost;
    }
    if (!graph_) {
      graph_ = std::make_unique<Kernel>(layer, 0);
      graph_->Reserve(operands_[layer.dtype]);
      operands_[layer.dtype].Allocate();
      graph_->Build(handle_, operands_[layer.dtype]);
    }
    Json cost = Cost(*graph_, command.at("calls"));
    cost.update(graph_->Described());
    return cost;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<std::string, Operands> operands_;
  std::vector<Named> kernels_;
  std::vector<cudaEvent_t> marks_;
  std::unique_ptr<LegacyKernel> legacy_;
  std::unique_ptr<Kernel> graph_;
};

}  // namespace

int main() {
  try {
    Program program;
    std::cout << Json({{"cudnn", cudnnGetVersion()}}).dump() << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      Json answer;
      try {
        answer = program.Answer(Json::parse(line));
      } catch (const std::exception& failure) {
        answer = {{"error", failure.what()}};
      }
      std::cout << answer.dump() << std::endl;
    }
  } catch (const std::exception& failure) {
    std::cout << Json({{"error", failure.what()}}).dump() << std::endl;
    return 1;
  }
  return 0;
}
