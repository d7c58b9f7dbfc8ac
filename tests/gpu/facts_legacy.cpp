#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <unordered_set>

#include "cudnn/descriptors.h"
#include "facts.h"
#include "planner/graph/layers.h"
#include "planner/graph/networks.h"

namespace ucudnn::facts {
namespace {

constexpr unsigned kMostThreads = 8;
constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};
constexpr DataType kAskedTypes[] = {DataType::kFloat, DataType::kBfloat16, DataType::kHalf};
constexpr Layout kLayouts[] = {Layout::kNchw, Layout::kNhwc};
constexpr MathType kMaths[] = {MathType::kDefault, MathType::kTensorOp, MathType::kFma,
                               MathType::kTensorOpAllowConversion};
constexpr int kBatches[] = {1, 16, 64, 256};
constexpr const char* kFirst[] = {"alexnet", "resnet50", "vgg16", "unet"};
constexpr const char* kMathNames[] = {"default", "tensor op", "tensor op with conversion", "fma"};

// A layer with a mini-batch of one image. `name` is the name of the first network that has the
// layer, followed by the layer's name.
struct Met {
  std::string name;
  ConvolutionProblem problem;
};

// Returns each distinct layer of the built-in networks, starting with the networks of kFirst.
std::vector<Met> Layers() {
  std::vector<std::string> names(std::begin(kFirst), std::end(kFirst));
  for (const std::string& name : planner::NetworkNames()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::vector<Met> met;
  std::unordered_set<uint64_t> known;
  for (const std::string& name : names) {
    const auto graph = planner::BuildNetwork(name);
    if (!graph.ok()) continue;
    const auto layers = planner::ConvolutionLayers(*graph, 1, {Operation::kForward});
    if (!layers.ok()) continue;
    for (const Layer& layer : *layers) {
      if (known.insert(layer.problem.Hash()).second) {
        met.push_back({name + " " + layer.name, layer.problem});
      }
    }
  }
  return met;
}

constexpr int kAlgorithms[] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                               CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};  // indexed by Operation

// Returns what Get…_v7 lists: the number, math type, bytes and determinism of each algorithm that
// succeeds. If the function fails, returns its status instead. Also returns what …WorkspaceSize
// reports for each algorithm: the bytes, or the negated status.
Json Asked(cudnnHandle_t handle, const ConvolutionProblem& problem) {
  cudnn::OwnedDescriptors owned(Linked());
  Check(owned.Create(problem));
  const Operation operation = problem.operation;
  std::vector<cudnn::AlgorithmPerformance> ranking;
  const cudnnStatus_t ranked =
      cudnn::RankAlgorithms(Linked(), operation, handle, owned.get(), ranking);
  Json answers = Json::array();
  for (const cudnn::AlgorithmPerformance& told : ranking) {
    if (told.status != CUDNN_STATUS_SUCCESS) continue;
    answers.push_back({told.algorithm, static_cast<int>(told.math), told.workspace_bytes,
                       static_cast<int>(told.determinism)});
  }
  if (ranked != CUDNN_STATUS_SUCCESS) answers = static_cast<int>(ranked);
  Json sizes = Json::array();
  for (int i = 0; i < kAlgorithms[static_cast<int>(operation)]; ++i) {
    size_t bytes = 0;
    const cudnnStatus_t status =
        cudnn::WorkspaceBytes(Linked(), operation, handle, owned.get(), i, &bytes);
    sizes.push_back(status == CUDNN_STATUS_SUCCESS ? static_cast<int64_t>(bytes)
                                                   : -static_cast<int64_t>(status));
  }
  return {answers, sizes};
}

// Asks about one operation of one layer in one type and layout, with all batches and math types.
Json Unit(cudnnHandle_t handle, const Met& layer, Operation operation, DataType type, Layout layout,
          bool tiny) {
  ConvolutionProblem problem = layer.problem;
  problem.operation = operation;
  problem.type = type;
  problem.layout = layout;
  Json line = {{"layer", layer.name}, {"problem", Describe(problem)}};
  for (const int n : kBatches) {
    if (tiny && n > 1) break;
    for (const MathType math : kMaths) {
      problem.n = n;
      problem.math = math;
      SetPackedStrides(problem);
      Json& to = line["n" + std::to_string(n)][kMathNames[static_cast<int>(math)]];
      try {
        to = Asked(handle, problem);
      } catch (const std::exception& failure) {
        to = failure.what();
      }
    }
  }
  return line;
}

}  // namespace

void Legacy(const Options& options) {
  std::vector<Met> layers = Layers();
  if (options.tiny) layers.resize(2);
  constexpr size_t kPerLayer =
      std::size(kOperations) * std::size(kAskedTypes) * std::size(kLayouts);
  const size_t units = layers.size() * kPerLayer;
  Cases cases(options);
  cases.Print({{"layers", layers.size()}, {"units", units}});
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    try {
      const Device device;
      while (!cases.IsLate()) {
        const size_t unit = next++;
        if (unit >= units) return;
        const size_t kind = unit % kPerLayer;
        cases.Print(Unit(device.handle(), layers[unit / kPerLayer], kOperations[kind % 3],
                         kAskedTypes[kind / 3 % 3], kLayouts[kind / 9], options.tiny));
      }
    } catch (const std::exception& failure) {
      cases.Print({{"failed", failure.what()}});
    }
  };
  std::vector<std::thread> threads;
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  const size_t asked = std::min(next.load(), units);
  if (asked < units) {
    cases.Print({{"first left out", layers[asked / kPerLayer].name}, {"left", units - asked}});
  }
}

}  // namespace ucudnn::facts
