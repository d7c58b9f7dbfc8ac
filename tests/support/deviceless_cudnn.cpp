#include "tests/support/deviceless_cudnn.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/shared_library.h"
#include "cudnn/descriptors.h"

namespace ucudnn::test {
namespace {

constexpr char kH200[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":150000000000,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
    R"("memoryBusWidth":6144,)"  // cuDNN 9.28 demands it, earlier releases ignore it
    R"("l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,)"
    R"("deviceName":"NVIDIA H200"})";

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

// Searches this program's folder and the folders above it for the library that is built from
// absent_driver.c. Returns the library's path. If the program was moved out of its build folder,
// returns the bare file name, which the caller cannot open.
std::string AbsentDriver() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error);
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    const std::filesystem::path driver = folder / "tests/support/absent_driver/libcuda.so.1";
    if (std::filesystem::exists(driver, error)) return driver;
  }
  return "libcuda.so.1";
}

cudnn::BackendDescriptor NewOf(const cudnn::Functions& functions,
                               cudnnBackendDescriptorType_t type) {
  auto created = cudnn::BackendDescriptor::Create(functions, type);
  if (!created.ok()) Die(created.message());
  return std::move(*created);
}

Status Set(cudnn::BackendDescriptor& to, cudnnBackendAttributeName_t name,
           cudnnBackendDescriptor_t part) {
  return to.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}
Status Set(cudnn::BackendDescriptor& to, cudnnBackendAttributeName_t name,
           const std::vector<int64_t>& values) {
  return to.Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

std::vector<int64_t> Axes(const ConvolutionProblem& problem, const Spatial& values) {
  return {values.begin() + (kMaxSpatial - problem.spatial_rank), values.end()};
}
std::vector<int64_t> Dims(const ConvolutionProblem& problem, int64_t n, int64_t channels,
                          const Spatial& extents) {
  std::vector<int64_t> dims = Axes(problem, extents);
  dims.insert(dims.begin(), {n, channels});
  return dims;
}
std::vector<int64_t> Narrow(const ConvolutionProblem& problem, const Strides& strides) {
  std::vector<int64_t> narrow = {strides[0], strides[1]};
  narrow.insert(narrow.end(), strides.end() - problem.spatial_rank, strides.end());
  return narrow;
}

}  // namespace

const cudnn::Functions& RealCudnn() {
  static const cudnn::Functions* const functions = [] {
    const char* named = std::getenv("UCUDNN_REAL_CUDNN");
    auto library = SharedLibrary::Open(named != nullptr ? named : REAL_CUDNN);
    if (!library.ok()) Die(library.message());
    auto* loaded = new cudnn::Functions;
    const Status status =
        cudnn::LoadFunctions([&](const char* name) { return library->Symbol(name); }, *loaded);
    if (!status.ok()) Die(status.message());
    if (loaded->cudnnGetVersion() >= 92800 && !SharedLibrary::Open("libcuda.so.1").ok()) {
      const auto driver = SharedLibrary::Open(AbsentDriver());
      if (!driver.ok()) Die(driver.message());
    }
    return loaded;
  }();
  return *functions;
}

cudnn::PlanDevice DescribedDevice() {
  static const cudnnBackendDescriptor_t properties = [] {
    auto* const descriptor =
        new cudnn::BackendDescriptor(NewOf(RealCudnn(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
    const Status set = descriptor->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                       sizeof kH200 - 1, kH200);
    if (!set.ok()) Die(set.message());
    const Status finalized = descriptor->Finalize();
    if (!finalized.ok()) Die(finalized.message());
    return descriptor->get();
  }();
  return {nullptr, properties};
}

cudnn::BackendDescriptor Graph::New(cudnnBackendDescriptorType_t type) const {
  return NewOf(functions_, type);
}

std::optional<cudnn::BackendDescriptor> Graph::Finalized(
    cudnnBackendDescriptor_t configuration) const {
  cudnn::BackendDescriptor plan = New(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Status status = Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (status.ok() && device_.properties != nullptr) {
    status = Set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_.properties);
  }
  if (status.ok() && device_.handle != nullptr) {
    status = plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device_.handle);
  }
  if (status.ok()) status = plan.Finalize();
  if (!status.ok()) return std::nullopt;
  return plan;
}

void Graph::Check(const Status& status) { ok_ = ok_ && status.ok(); }

cudnnBackendDescriptor_t Graph::Keep(cudnn::BackendDescriptor descriptor) {
  return parts_.emplace_back(std::move(descriptor)).get();
}

cudnn::BackendDescriptor Graph::Tensor(int64_t uid, DataType type, const std::vector<int64_t>& dims,
                                       const std::vector<int64_t>& strides, int64_t alignment,
                                       bool is_virtual) {
  cudnn::BackendDescriptor tensor = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const cudnnDataType_t data_type = cudnn::CudnnType(type);
  Check(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &data_type));
  Check(Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, dims));
  Check(Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, strides));
  Check(Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, std::vector<int64_t>{uid}));
  Check(Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::vector<int64_t>{alignment}));
  if (is_virtual) {
    Check(tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
  }
  Check(tensor.Finalize());
  return tensor;
}

cudnn::BackendDescriptor Graph::PointwiseOf(cudnnPointwiseMode_t mode, double upper_clip) {
  cudnn::BackendDescriptor pointwise = New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  Check(pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
  Check(pointwise.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision));
  if (upper_clip > 0) {
    Check(pointwise.Set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &upper_clip));
  }
  Check(pointwise.Finalize());
  return pointwise;
}

cudnn::BackendDescriptor Graph::Pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y,
                                          double alpha2, double upper_clip) {
  cudnn::BackendDescriptor pointwise = PointwiseOf(mode, upper_clip);
  cudnn::BackendDescriptor operation = New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise.get()));
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x));
  if (b != nullptr) Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b));
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y));
  if (alpha2 != 1) {
    const auto scale = static_cast<float>(alpha2);
    Check(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &scale));
  }
  Check(operation.Finalize());
  Keep(std::move(pointwise));
  return operation;
}

cudnn::BackendDescriptor Graph::Backward(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                         cudnnBackendDescriptor_t dy, cudnnBackendDescriptor_t dx) {
  cudnn::BackendDescriptor pointwise = PointwiseOf(mode, 0);
  cudnn::BackendDescriptor operation = New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise.get()));
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x));
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy));
  Check(Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx));
  Check(operation.Finalize());
  Keep(std::move(pointwise));
  return operation;
}

size_t FusedTensor::Elements() const {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return static_cast<size_t>(last + 1);
}

std::vector<FusedTensor> FusedTensors(const ConvolutionProblem& problem,
                                      const GraphOptions& options) {
  using Reads = FusedStep::Reads;
  const bool forward = problem.operation == Operation::kForward;
  const int64_t channels = forward ? problem.k : problem.c;
  const Spatial extents = forward ? OutputExtents(problem) : problem.x;
  const Layout other = problem.layout == Layout::kNchw ? Layout::kNhwc : Layout::kNchw;
  const auto packed = [&](Layout layout, int64_t c, const Spatial& of) {
    return Narrow(problem, PackedStrides(layout, c, of));
  };
  std::vector<FusedTensor> tensors;
  const auto add = [&](int64_t uid, const FusedStep& step) {
    if (step.reads == Reads::kNothing) return;
    FusedTensor tensor{uid, step.type.value_or(problem.type), {}, {}, step.alignment};
    const Spatial one = {1, 1, 1}, row = {1, 1, extents[2]};
    const bool whole = step.reads == Reads::kWhole || step.reads == Reads::kOtherLayout;
    const bool by_channel = step.reads == Reads::kChannel || step.reads == Reads::kPerImage;
    const Spatial& own = whole ? extents : step.reads == Reads::kRow ? row : one;
    const int64_t own_channels = whole || by_channel ? channels : 1;
    const bool batched = whole || step.reads == Reads::kPerImage;
    tensor.dims = Dims(problem, batched ? problem.n : 1, own_channels, own);
    tensor.strides =
        step.reads == Reads::kWhole
            ? Narrow(problem, forward ? problem.y_strides : problem.x_strides)
            : packed(step.reads == Reads::kOtherLayout ? other : problem.layout, own_channels, own);
    tensors.push_back(std::move(tensor));
  };
  if (options.residual) add(kUidResidual, {CUDNN_POINTWISE_ADD, Reads::kWhole, {}});
  if (options.bias) add(kUidBias, {CUDNN_POINTWISE_ADD, Reads::kChannel, {}});
  for (size_t i = 0; i < options.steps.size(); ++i) {
    add(kUidStep + static_cast<int64_t>(i), options.steps[i]);
  }
  return tensors;
}

Graph::Graph(const ConvolutionProblem& problem, const GraphOptions& options,
             const cudnn::Functions& functions, const cudnn::PlanDevice& device)
    : functions_(functions), device_(device) {
  const bool forward = problem.operation == Operation::kForward;
  const bool fused = options.residual || options.bias || options.relu || !options.steps.empty();
  const Spatial output = OutputExtents(problem);
  const std::vector<int64_t> y_dims = Dims(problem, problem.n, problem.k, output);
  const std::vector<int64_t> y_strides = Narrow(problem, problem.y_strides);
  const std::vector<int64_t> x_dims = Dims(problem, problem.n, problem.c, problem.x);
  const std::vector<int64_t> x_strides = Narrow(problem, problem.x_strides);
  const cudnnBackendDescriptor_t x =
      Keep(Tensor(kUidX, problem.type, x_dims, x_strides, options.x_alignment));
  const int64_t filter_channels = problem.c / problem.groups;
  const cudnnBackendDescriptor_t w =
      Keep(Tensor(kUidW, problem.type, Dims(problem, problem.k, filter_channels, problem.w),
                  Narrow(problem, PackedStrides(problem.layout, filter_channels, problem.w)),
                  options.w_alignment));
  const cudnnBackendDescriptor_t y =
      Keep(Tensor(kUidY, problem.type, y_dims, y_strides, options.y_alignment));
  int64_t next_uid = 200;
  const auto intermediate = [&] {
    return Keep(Tensor(next_uid++, problem.compute, forward ? y_dims : x_dims,
                       forward ? y_strides : x_strides, 16, true));
  };

  cudnn::BackendDescriptor convolution = New(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = cudnn::CudnnType(problem.compute);
  const cudnnConvolutionMode_t mode =
      problem.mode == ConvolutionMode::kConvolution ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
  const std::vector<int64_t> pad = Axes(problem, problem.pad);
  Check(Set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
            std::vector<int64_t>{problem.spatial_rank}));
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  Check(Set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad));
  std::vector<int64_t> post_pad = Axes(problem, problem.extra_pad);
  for (size_t axis = 0; axis < pad.size(); ++axis) post_pad[axis] += pad[axis];
  Check(Set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, post_pad));
  Check(Set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, Axes(problem, problem.dilation)));
  Check(Set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Axes(problem, problem.stride)));
  Check(convolution.Finalize());

  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
  };
  constexpr Names kNames[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const Names& names = kNames[static_cast<int>(problem.operation)];
  const cudnnBackendDescriptor_t result = forward ? y : x;
  cudnnBackendDescriptor_t current = fused ? intermediate() : result;
  cudnn::BackendDescriptor operation = New(names.type);
  Check(Set(operation, names.x, fused && !forward ? current : x));
  Check(Set(operation, names.w, w));
  Check(Set(operation, names.y, fused && forward ? current : y));
  Check(Set(operation, names.convolution, convolution.get()));
  const bool wide = problem.compute == DataType::kDouble;
  const auto alpha = static_cast<float>(options.alpha), beta = static_cast<float>(options.beta);
  const auto scale_type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  Check(operation.Set(names.alpha, scale_type, 1,
                      wide ? static_cast<const void*>(&options.alpha) : &alpha));
  Check(operation.Set(names.beta, scale_type, 1,
                      wide ? static_cast<const void*>(&options.beta) : &beta));
  Check(operation.Finalize());
  Keep(std::move(convolution));
  std::vector<cudnnBackendDescriptor_t> operations = {Keep(std::move(operation))};
  std::vector<FusedStep> steps;
  if (options.residual) steps.push_back({CUDNN_POINTWISE_ADD, FusedStep::Reads::kWhole, {}});
  if (options.bias) steps.push_back({CUDNN_POINTWISE_ADD, FusedStep::Reads::kChannel, {}});
  if (options.relu) steps.push_back({CUDNN_POINTWISE_RELU_FWD, FusedStep::Reads::kNothing, {}});
  steps.insert(steps.end(), options.steps.begin(), options.steps.end());
  const std::vector<FusedTensor> tensors = FusedTensors(problem, options);
  auto next = tensors.begin();
  for (size_t i = 0; i < steps.size(); ++i) {
    const FusedStep& step = steps[i];
    const cudnnBackendDescriptor_t to = i + 1 == steps.size() ? result : intermediate();
    cudnnBackendDescriptor_t operand = nullptr;
    double scale = 1;
    if (step.reads != FusedStep::Reads::kNothing) {
      const FusedTensor& read = *next++;
      operand = Keep(Tensor(read.uid, read.type, read.dims, read.strides, read.alignment));
      if (read.uid == kUidResidual) scale = options.residual_scale;
    }
    const double clip = step.mode == CUDNN_POINTWISE_RELU_FWD ? options.upper_clip : 0;
    const bool backward =
        step.mode >= CUDNN_POINTWISE_RELU_BWD && step.mode <= CUDNN_POINTWISE_GELU_APPROX_TANH_BWD;
    operations.push_back(Keep(backward ? Backward(step.mode, operand, current, to)
                              : step.reads_first
                                  ? Pointwise(step.mode, operand, current, to, scale, clip)
                                  : Pointwise(step.mode, current, operand, to, scale, clip)));
    current = to;
  }
  graph_ = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Check(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   static_cast<int64_t>(operations.size()), operations.data()));
  if (options.dynamic) {
    Check(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, CUDNN_TYPE_BOOLEAN, 1,
                     &options.dynamic));
  }
  if (device_.handle != nullptr) {
    Check(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device_.handle));
  }
  Check(graph_.Finalize());
}

int Graph::EngineCount() const {
  int64_t engines = 0, count = 0;
  const cudnnStatus_t status = functions_.cudnnBackendGetAttribute(
      graph_.get(), CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count,
      &engines);
  return status == CUDNN_STATUS_SUCCESS ? static_cast<int>(engines) : 0;
}

std::optional<cudnn::BackendDescriptor> Graph::Plan(int index, const Knobs& knobs) const {
  cudnn::BackendDescriptor engine = New(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnn::BackendDescriptor configuration = New(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  Status status = Set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_.get());
  if (status.ok()) {
    status = Set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, std::vector<int64_t>{index});
  }
  if (status.ok() && device_.properties != nullptr) {
    status = Set(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, device_.properties);
  }
  if (status.ok()) status = engine.Finalize();
  if (status.ok()) status = Set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine.get());
  std::vector<cudnn::BackendDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (const auto& [number, value] : knobs) {
    cudnn::BackendDescriptor choice = New(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const auto type = static_cast<cudnnBackendKnobType_t>(number);
    if (status.ok()) {
      status = choice.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    }
    if (status.ok()) {
      status = Set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, std::vector<int64_t>{value});
    }
    if (status.ok()) status = choice.Finalize();
    pointers.push_back(choice.get());
    choices.push_back(std::move(choice));
  }
  if (status.ok() && !pointers.empty()) {
    status = configuration.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               static_cast<int64_t>(pointers.size()), pointers.data());
  }
  if (status.ok()) status = configuration.Finalize();
  return status.ok() ? Finalized(configuration.get()) : std::nullopt;
}

std::vector<cudnn::BackendDescriptor> Graph::HeuristicPlans(cudnnBackendHeurMode_t mode,
                                                            int most) const {
  std::vector<cudnn::BackendDescriptor> plans;
  cudnn::BackendDescriptor heuristic = New(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Status status = Set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.get());
  if (status.ok()) {
    status = heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  }
  if (status.ok() && device_.properties != nullptr) {
    status = Set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_.properties);
  }
  if (status.ok()) status = heuristic.Finalize();
  if (!status.ok()) return plans;
  std::vector<cudnn::BackendDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (int i = 0; i < most; ++i) {
    configurations.push_back(New(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    pointers.push_back(configurations.back().get());
  }
  int64_t count = 0;
  if (functions_.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                          pointers.data()) != CUDNN_STATUS_SUCCESS) {
    return plans;
  }
  for (int64_t i = 0; i < std::min<int64_t>(count, most); ++i) {
    if (auto plan = Finalized(pointers[i])) plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace ucudnn::test
