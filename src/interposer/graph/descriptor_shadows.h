// What is remembered of the graph API's descriptors because cuDNN does not give it back, or only
// slowly: to which operation graph an engine, a configuration or a plan belongs. It is enough to
// leave a plan alone at once that cannot be divided. Thread-safe. The one lock is taken while plans
// are made, never while they run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cudnn/functions.h"

namespace ucudnn::interposer {

// What is known of an operation graph.
enum class GraphKind : uint8_t {
  kUnknown,      // it was made without our seeing it, or from JSON
  kConvolution,  // one of its operations is a convolution
  kUndividable,  // its convolution has a single image
  kUnfamiliar,   // its convolution has dynamic or ragged shapes
  kOther,        // it has no convolution
};

// The configurations of one heuristics' list, best first, each with its shadow's number. A
// configuration that was destroyed since has another number, or none.
using ListedConfigurations = std::vector<std::pair<cudnnBackendDescriptor_t, uint64_t>>;

// An operation that visits more than one element for one of its result, and is no convolution.
struct WideOperation {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
  std::optional<cudnnBackendNormMode_t> norm;  // of a norm that said its mode
};

struct DescriptorShadow {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  GraphKind kind = GraphKind::kUnknown;
  bool is_pointwise = false;  // every operation visits each element by itself
  // Of an operation graph, and what is made of it: the first such operation; none: it has none that
  // is known.
  std::optional<WideOperation> wide;
  std::optional<cudnnBackendNormMode_t> norm;  // of a norm's operation
  // Set for pointwise modes and their operations whose result depends on where an element lies.
  bool reads_position = false;
  bool is_heuristics_first = false;  // the first of a list of the heuristics, or made from it
  std::shared_ptr<const ListedConfigurations> list;  // the list it belongs to; null: none
  cudnnHandle_t handle = nullptr;  // that it, or its operation graph, was made with
  // Tensors have these two members, and convolutions have those of their image.
  int64_t batch = 0;
  bool ragged = false;
  std::array<int64_t, CUDNN_DIM_MAX> extents = {}, strides = {};  // of tensors; 0 behind the last
  // Elements from the first to the last of one image: of a convolution, and of what is made of it,
  // those of x or of y, whichever has more.
  double span = 0;
  bool dynamic = false;  // the operation graph was made with dynamic shapes
  // Engines have the configuration that they were read from (null: that exists no more), and what
  // was answered about native CUDA graphs of their plans, which must not change.
  cudnnBackendDescriptor_t configuration = nullptr;
  uint64_t configuration_number = 0;
  std::optional<bool> keeps_native;
  uint64_t number = 0;  // tells it from a later descriptor at the same address
};

class DescriptorShadows {
 public:
  // Call after the real library made, set, read or destroyed a descriptor. They may throw
  // std::bad_alloc; the descriptor then stays unknown.
  void OnCreate(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
  void OnSet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // `count` is the number of values that the library returned.
  void OnGet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // Returns what was known of the descriptor. Call before the real library destroys it.
  std::optional<DescriptorShadow> OnDestroy(cudnnBackendDescriptor_t descriptor);

  std::optional<DescriptorShadow> Find(cudnnBackendDescriptor_t descriptor);

  // The configurations of `list` that still exist, and do so until as many calls of Return.
  std::vector<cudnnBackendDescriptor_t> Lend(const ListedConfigurations& list);
  // Whether a configuration that the application destroys is lent: then it goes with the last loan.
  bool DestroyLater(cudnnBackendDescriptor_t configuration);
  // Whether the application has destroyed the configuration, and nobody else has it any more: then
  // the caller destroys it.
  bool Return(cudnnBackendDescriptor_t configuration);

  // Sets DescriptorShadow::keeps_native where it is not set, and returns it; returns `keeps` of an
  // unknown descriptor.
  bool AnswerNative(cudnnBackendDescriptor_t engine, bool keeps);

 private:
  // Null when it is unknown.
  DescriptorShadow* At(cudnnBackendDescriptor_t descriptor) UCUDNN_REQUIRES(mutex_);
  void Inherit(DescriptorShadow& to, cudnnBackendDescriptor_t from) UCUDNN_REQUIRES(mutex_);
  void TakeOperations(DescriptorShadow& graph, int64_t count, const cudnnBackendDescriptor_t* ops)
      UCUDNN_REQUIRES(mutex_);

  Mutex mutex_;
  std::unordered_map<cudnnBackendDescriptor_t, DescriptorShadow> shadows_ UCUDNN_GUARDED_BY(mutex_);
  uint64_t created_ UCUDNN_GUARDED_BY(mutex_) = 0;
  struct Lending {
    int times = 0;
    bool destroyed = false;  // by the application
  };
  std::unordered_map<cudnnBackendDescriptor_t, Lending> lent_ UCUDNN_GUARDED_BY(mutex_);
};

// Configurations of a list, which are not destroyed before this is, whatever other threads do.
class LentConfigurations {
 public:
  LentConfigurations(DescriptorShadows& shadows, const cudnn::Functions& functions,
                     const ListedConfigurations& list)
      : shadows_(shadows), functions_(functions), all_(shadows.Lend(list)) {}
  ~LentConfigurations();
  LentConfigurations(const LentConfigurations&) = delete;
  LentConfigurations& operator=(const LentConfigurations&) = delete;

  const std::vector<cudnnBackendDescriptor_t>& all() const { return all_; }

 private:
  DescriptorShadows& shadows_;
  const cudnn::Functions& functions_;
  const std::vector<cudnnBackendDescriptor_t> all_;
};

}  // namespace ucudnn::interposer
