#include "facts_plans.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cudnn/descriptors.h"
#include "tests/support/problem.h"

namespace ucudnn::facts {
namespace {

constexpr int kMostConfigurations = 256, kMostKnobs = 64;
constexpr size_t kBoundary =
    256;  // tensors begin at multiples of this number of bytes, as memory of cudaMalloc does

struct Shape {
  const char* name;
  int n, c, k, groups;
  Spatial x, w, pad, stride;
  bool fused = false;  // whether bias and ReLU follow the forward convolution
  int dilation = 1;
};
// Each shape gives three graphs, one for each operation.
constexpr Shape kShapes[] = {
    {"alexnet conv1", 256, 3, 64, 1, {1, 224, 224}, {1, 11, 11}, {0, 2, 2}, {1, 4, 4}},
    {"alexnet conv2", 256, 64, 192, 1, {1, 27, 27}, {1, 5, 5}, {0, 2, 2}, {1, 1, 1}},
    {"alexnet conv3", 1024, 192, 384, 1, {1, 13, 13}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}},
    {"resnet50 conv1", 128, 3, 64, 1, {1, 224, 224}, {1, 7, 7}, {0, 3, 3}, {1, 2, 2}},
    {"resnet50 conv2 1x1", 128, 64, 256, 1, {1, 56, 56}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {"resnet50 conv2 3x3", 128, 64, 64, 1, {1, 56, 56}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, true},
    {"resnet50 conv3 s2", 128, 128, 128, 1, {1, 56, 56}, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}},
    {"resnet50 conv5", 32, 512, 512, 1, {1, 7, 7}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}},
    {"resnet50 conv4", 1, 256, 256, 1, {1, 14, 14}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, true},
    {"deeplab d2", 8, 256, 256, 1, {1, 65, 65}, {1, 3, 3}, {0, 2, 2}, {1, 1, 1}, false, 2},
    {"unet up4", 1, 128, 64, 1, {1, 392, 392}, {1, 3, 3}, {0, 0, 0}, {1, 1, 1}},
    {"unet up1", 8, 1024, 512, 1, {1, 64, 64}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, true},
    {"vae mid", 1, 512, 512, 1, {1, 512, 512}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}},
    {"vae up3", 1, 256, 256, 1, {1, 1024, 1024}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, true},
    {"unet-3d", 2, 32, 64, 1, {64, 64, 64}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {"video-vae", 1, 128, 128, 1, {19, 90, 160}, {3, 3, 3}, {0, 1, 1}, {1, 1, 1}},
    {"depthwise", 64, 144, 144, 144, {1, 56, 56}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}},
    {"depthwise s2", 32, 96, 96, 96, {1, 112, 112}, {1, 5, 5}, {0, 2, 2}, {1, 2, 2}},
    {"grouped conv2", 256, 96, 256, 2, {1, 27, 27}, {1, 5, 5}, {0, 2, 2}, {1, 1, 1}, true},
    {"2^31 elements", 1, 128, 128, 1, {1, 4096, 4096}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}}};
constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16};

Shape Tiny(Shape shape) {
  shape.n = std::min(shape.n, 2);
  const bool depthwise = shape.groups == shape.c;
  shape.c = std::min(shape.c, 8);
  shape.k = std::min(shape.k, 8);
  if (depthwise) shape.groups = shape.c;
  for (int& extent : shape.x) extent = std::min(extent, shape.x[0] > 1 ? 6 : 14);
  return shape;
}

// Makes a device descriptor from the profile in a file. cuDNN accepts it in place of a real device.
cudnn::BackendDescriptor Described(const std::string& path) {
  std::ifstream file(path);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  if (json.empty()) throw Failure(path + ": cannot be read");
  auto profile =
      Take(cudnn::BackendDescriptor::Create(Linked(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  Check(profile.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    static_cast<int64_t>(json.size()), json.data()));
  Check(profile.Finalize());
  return profile;
}

// Returns the descriptors in attribute `name` of `from`, at most `most`, as new descriptors of
// `type`.
std::vector<cudnn::BackendDescriptor> Parts(cudnnBackendDescriptor_t from,
                                            cudnnBackendAttributeName_t name,
                                            cudnnBackendDescriptorType_t type, int most) {
  std::vector<cudnn::BackendDescriptor> parts;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (int i = 0; i < most; ++i) {
    parts.push_back(Take(cudnn::BackendDescriptor::Create(Linked(), type)));
    pointers.push_back(parts.back().get());
  }
  int64_t count = 0;
  Check(cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                 pointers.data()),
        "cudnnBackendGetAttribute");
  while (static_cast<int64_t>(parts.size()) > count) parts.pop_back();
  return parts;
}

template <typename T>
T Value(const cudnn::BackendDescriptor& from, cudnnBackendAttributeName_t name,
        cudnnBackendAttributeType_t type) {
  T value = {};
  int64_t count = 0;
  Check(cudnnBackendGetAttribute(from.get(), name, type, 1, &count, &value),
        "cudnnBackendGetAttribute");
  return value;
}

void ReadChoices(Configuration& configuration) {
  const auto engine = Parts(configuration.descriptor.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                            CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engine.empty()) throw Failure("a configuration has no engine");
  configuration.engine =
      Value<int64_t>(engine[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  for (const auto& choice : Parts(configuration.descriptor.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                  CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, kMostKnobs)) {
    const auto type = Value<cudnnBackendKnobType_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                                    CUDNN_TYPE_KNOB_TYPE);
    configuration.knobs.emplace_back(
        static_cast<int>(type),
        Value<int64_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64));
  }
  std::sort(configuration.knobs.begin(), configuration.knobs.end());
}

// Returns a row of the output: the configuration, its notes, and its workspace, or the reason why
// the configuration has no plan. If *json is empty, sets it to the plan's JSON.
Json Row(const cudnn::PlanDevice& device, const Configuration& configuration, std::string* json) {
  Json row = configuration.Described();
  const cudnn::EngineNotes notes =
      Take(cudnn::ConfigurationNotes(Linked(), configuration.descriptor.get()));
  row["numerical"] = notes.numerical;
  row["behavior"] = notes.behavior;
  try {
    const Plan plan = Finalized(device, configuration);
    row["workspace_bytes"] = plan.workspace_bytes;
    if (json->empty()) *json = Take(cudnn::PlanJson(Linked(), plan.descriptor.get()));
  } catch (const Failure& failure) {
    row["refused"] = std::string(failure.what()).substr(0, 160);
  }
  return row;
}

std::vector<size_t> Sizes(const NamedGraph& graph) {
  std::vector<size_t> sizes = {cudnn::ImageBytes(graph.problem), cudnn::FilterBytes(graph.problem),
                               cudnn::OutputBytes(graph.problem)};
  for (const auto& tensor : test::FusedTensors(graph.problem, graph.options)) {
    sizes.push_back(tensor.Elements() * ElementBytes(tensor.type));
  }
  for (size_t& size : sizes) size = (size + kBoundary - 1) / kBoundary * kBoundary;
  return sizes;
}

}  // namespace

Target::Target(const Options& options) {
  if (options.profile.empty()) {
    present = std::make_unique<const Device>();
    device.handle = present->handle();
  } else {
    profile = Described(options.profile);
    device.properties = profile.get();
  }
}

test::Graph NamedGraph::Build(const cudnn::PlanDevice& device) const {
  test::Graph graph(problem, options, Linked(), device);
  if (!graph.ok()) throw Failure("the library refuses the graph");
  return graph;
}

size_t NamedGraph::TensorBytes() const {
  size_t bytes = 0;
  for (const size_t size : Sizes(*this)) bytes += size;
  return bytes;
}

std::vector<NamedGraph> NamedGraphs(bool tiny) {
  std::vector<NamedGraph> graphs;
  int row = 0;
  for (const Shape& whole : kShapes) {
    const Shape shape = tiny ? Tiny(whole) : whole;
    for (const Operation operation : test::kOperations) {
      const int turn = row + static_cast<int>(operation);
      NamedGraph graph;
      graph.problem =
          test::ProblemWith({.operation = operation,
                             .spatial_rank = shape.w[0] > 1 ? 3 : 2,
                             .n = shape.n,
                             .c = shape.c,
                             .k = shape.k,
                             .groups = shape.groups,
                             .x = shape.x,
                             .w = shape.w,
                             .pad = shape.pad,
                             .stride = shape.stride,
                             .dilation = {1, shape.dilation, shape.dilation},
                             .type = kTypes[turn % 3],
                             .layout = turn / 3 % 2 == 0 ? Layout::kNchw : Layout::kNhwc});
      const bool fused = shape.fused && operation == Operation::kForward;
      graph.options.bias = graph.options.relu = fused;
      graph.name = std::string(shape.name) + " n" + std::to_string(whole.n) + " " +
                   OperationName(operation) + (fused ? " bias relu " : " ") +
                   DataTypeName(graph.problem.type) +
                   (graph.problem.layout == Layout::kNchw ? " nchw" : " nhwc");
      graphs.push_back(std::move(graph));
    }
    ++row;
  }
  return graphs;
}

Json Configuration::Described() const {
  Json named = Json::object();
  for (const auto& [number, value] : knobs) named[std::to_string(number)] = value;
  return {{"engine", engine}, {"knobs", named}};
}

std::vector<Configuration> Configurations(cudnnBackendDescriptor_t graph,
                                          const cudnn::PlanDevice& device,
                                          cudnnBackendHeurMode_t mode) {
  auto heuristics =
      Take(cudnn::BackendDescriptor::Create(Linked(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  Check(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                       &graph));
  Check(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
  if (device.properties != nullptr) {
    Check(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &device.properties));
  }
  Check(heuristics.Finalize());
  std::vector<Configuration> configurations;
  for (auto& part : Parts(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                          CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostConfigurations)) {
    configurations.push_back({std::move(part), -1, {}});
    ReadChoices(configurations.back());
  }
  return configurations;
}

Plan Finalized(const cudnn::PlanDevice& device, const Configuration& configuration) {
  Plan plan;
  plan.descriptor =
      Take(cudnn::BackendDescriptor::Create(Linked(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  const cudnnBackendDescriptor_t from = configuration.descriptor.get();
  Check(plan.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            1, &from));
  if (device.properties != nullptr) {
    Check(plan.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                              1, &device.properties));
  } else {
    Check(plan.descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                              &device.handle));
  }
  Check(plan.descriptor.Finalize());
  plan.workspace_bytes = Take(cudnn::PlanWorkspace(Linked(), plan.descriptor.get()));
  plan.engine = configuration.engine;
  plan.knobs = configuration.knobs;
  plan.described = configuration.Described();
  plan.described["workspace_bytes"] = plan.workspace_bytes;
  return plan;
}

Plan FirstPlan(cudnnBackendDescriptor_t graph, const cudnn::PlanDevice& device, int64_t engine) {
  std::string last = "the heuristics find nothing";
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Configuration& configuration : Configurations(graph, device, mode)) {
      if (engine != kAnyEngine && configuration.engine != engine) continue;
      try {
        return Finalized(device, configuration);
      } catch (const Failure& failure) {
        last = failure.what();
      }
    }
  }
  throw Failure("no configuration can be built: " + last);
}

Operands Placed(const NamedGraph& graph, char* begin) {
  Operands operands{{test::kUidX, test::kUidW, test::kUidY}, {}};
  for (const auto& tensor : test::FusedTensors(graph.problem, graph.options)) {
    operands.uids.push_back(tensor.uid);
  }
  for (const size_t size : Sizes(graph)) {
    operands.pointers.push_back(begin);
    begin += size;
  }
  return operands;
}

cudnn::BackendDescriptor Pack(const Operands& operands, void* workspace) {
  auto pack =
      Take(cudnn::BackendDescriptor::Create(Linked(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const auto count = static_cast<int64_t>(operands.uids.size());
  Check(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                 operands.pointers.data()));
  Check(
      pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, operands.uids.data()));
  Check(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  Check(pack.Finalize());
  return pack;
}

void Execute(const Device& device, const Plan& plan, const cudnn::BackendDescriptor& pack) {
  Check(cudnnBackendExecute(device.handle(), plan.descriptor.get(), pack.get()),
        "cudnnBackendExecute");
}

void Plans(const Options& options) {
  const Target target(options);
  const cudnn::PlanDevice& device = target.device;
  Cases cases(options);
  for (const NamedGraph& named : NamedGraphs(options.tiny)) {
    cases.Run(named.name, [&] {
      const test::Graph graph = named.Build(device);
      Json told = {{"engines", graph.EngineCount()}};
      for (const auto& [name, mode] :
           {std::pair("A", CUDNN_HEUR_MODE_A), std::pair("B", CUDNN_HEUR_MODE_B),
            std::pair("fallback", CUDNN_HEUR_MODE_FALLBACK)}) {
        try {
          Json rows = Json::array();
          std::string json;
          for (const Configuration& configuration : Configurations(graph.get(), device, mode)) {
            rows.push_back(Row(device, configuration, &json));
          }
          told[name] = {{"configurations", rows}, {"plan", json}};
        } catch (const Failure& failure) {
          told[name] = {{"failed", failure.what()}};
        }
      }
      return told;
    });
  }
}

}  // namespace ucudnn::facts
