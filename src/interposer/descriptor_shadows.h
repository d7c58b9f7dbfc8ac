// What is remembered of the graph API's descriptors, because cuDNN does not tell it again or only
// slowly: of which operation graph an engine, a configuration or a plan is. Enough to leave a plan
// alone at once that cannot be divided. Thread-safe; one lock, taken while plans are made, never
// while they run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cudnn/functions.h"

namespace ucudnn::interposer {

// What an operation graph holds.
enum class GraphKind : uint8_t {
  kUnknown,      // made in a way that was not seen, or from JSON
  kConvolution,  // a convolution among its operations
  kUndividable,  // one of a single image
  kUnfamiliar,   // one of dynamic or ragged shapes
  kOther,        // no convolution
};

// Configurations of the heuristics as they were listed, best first, each with its number: one that
// was destroyed since has another, or none.
using ListedConfigurations = std::vector<std::pair<cudnnBackendDescriptor_t, uint64_t>>;

struct DescriptorShadow {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  GraphKind kind = GraphKind::kUnknown;
  bool first = false;  // the first of a list of the heuristics, or made from it
  std::shared_ptr<const ListedConfigurations> list;  // that it is of; null: of none
  cudnnHandle_t handle = nullptr;  // that it, or its operation graph, was made with
  // Of a tensor, and of a convolution's image.
  int64_t batch = 0;
  bool ragged = false;
  bool dynamic = false;  // of an operation graph
  // Of an engine: the configuration it was read from, null where there is none any more; and what
  // was answered about its plans as CUDA graphs, which stays.
  cudnnBackendDescriptor_t configuration = nullptr;
  uint64_t configuration_number = 0;
  std::optional<bool> keeps_native;
  uint64_t number = 0;  // tells it from a later one at its address
};

class DescriptorShadows {
 public:
  // The genuine library made, set, read or destroyed a descriptor. May throw std::bad_alloc: then
  // it stays unknown.
  void OnCreate(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
  void OnSet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // `count` values were given.
  void OnGet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // What was known of it.
  std::optional<DescriptorShadow> OnDestroy(cudnnBackendDescriptor_t descriptor);

  std::optional<DescriptorShadow> Find(cudnnBackendDescriptor_t descriptor);

  // Those of a list that are still there.
  std::vector<cudnnBackendDescriptor_t> Alive(const ListedConfigurations& list);

  // DescriptorShadow::keeps_native of a descriptor that is known: the first answer given.
  bool AnswerNative(cudnnBackendDescriptor_t engine, bool keeps);

 private:
  // Under the mutex; null when it is unknown.
  DescriptorShadow* At(cudnnBackendDescriptor_t descriptor);
  void Inherit(DescriptorShadow& to, cudnnBackendDescriptor_t from);
  void TakeOperations(DescriptorShadow& graph, int64_t count, const cudnnBackendDescriptor_t* ops);

  std::mutex mutex_;
  std::unordered_map<cudnnBackendDescriptor_t, DescriptorShadow> shadows_;
  uint64_t created_ = 0;
};

}  // namespace ucudnn::interposer
