// Facts about descriptors of the graph API that cuDNN does not tell, or only slowly: the operation
// graph that an engine, a configuration or a plan belongs to. They suffice to leave a plan alone at
// once that cannot be divided. Thread-safe. The one lock is taken while plans are made, never while
// they run.
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

// The kind of an operation graph.
enum class GraphKind : uint8_t {
  kUnknown,      // it was made without ucudnn's knowledge, or from JSON
  kConvolution,  // one of its operations is a convolution
  kUndividable,  // its convolution has a single image
  kUnfamiliar,   // its convolution has dynamic or ragged shapes
  kOther,        // it has no convolution
};

// The configurations of one heuristics' list, best first, each with its shadow's number. A
// configuration that was destroyed since has another number, or none.
using ListedConfigurations = std::vector<std::pair<cudnnBackendDescriptor_t, uint64_t>>;

// An operation other than a convolution that reads more than one element for an element of its
// result.
struct WideOperation {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
  std::optional<cudnnBackendNormMode_t> norm;  // the mode of a norm, if it was set
};

struct DescriptorShadow {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  GraphKind kind = GraphKind::kUnknown;
  // Every operation reads only one element for each element of its result.
  bool is_pointwise = false;
  // For an operation graph, and objects made from it: the first wide operation; none if no wide
  // operation is known in it.
  std::optional<WideOperation> wide;
  std::optional<cudnnBackendNormMode_t> norm;  // for a norm operation
  // True for pointwise modes whose result depends on an element's position, and for operations with
  // such a mode.
  bool reads_position = false;
  // The first of a list of the heuristics, or made from the first.
  bool is_heuristics_first = false;
  std::shared_ptr<const ListedConfigurations> list;  // the list it belongs to; null: none
  cudnnHandle_t handle = nullptr;  // the handle that it, or its operation graph, was made with
  // For a tensor: its own values. For a convolution: the values of its image.
  int64_t batch = 0;
  bool ragged = false;
  std::array<int64_t, CUDNN_DIM_MAX> extents = {}, strides = {};  // for tensors; 0 behind the last
  // For a convolution, and objects made from it: the number of elements from the first to the last
  // of one image of x or of y, whichever spans more.
  double span = 0;
  bool dynamic = false;  // the operation graph was made with dynamic shapes
  // For engines: the configuration from which they were read (null: it no longer exists), and the
  // answer that was given about native CUDA graphs of their plans, which must not change.
  cudnnBackendDescriptor_t configuration = nullptr;
  uint64_t configuration_number = 0;
  std::optional<bool> keeps_native;
  uint64_t number = 0;  // distinguishes it from a later descriptor at the same address
};

class DescriptorShadows {
 public:
  // To be called after the real library made, set, read or destroyed a descriptor. They may throw
  // std::bad_alloc; the descriptor then stays unknown.
  void OnCreate(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
  void OnSet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // `count` is the number of values that the library returned.
  void OnGet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // Returns the shadow of the descriptor. To be called before the real library destroys it.
  std::optional<DescriptorShadow> OnDestroy(cudnnBackendDescriptor_t descriptor);

  std::optional<DescriptorShadow> Find(cudnnBackendDescriptor_t descriptor);

  // Returns the configurations of `list` that still exist. They continue to exist until Return was
  // called for each of them.
  std::vector<cudnnBackendDescriptor_t> Lend(const ListedConfigurations& list);
  // Returns whether a configuration that the application destroys is lent: it is then destroyed
  // when the last loan is returned.
  bool DestroyLater(cudnnBackendDescriptor_t configuration);
  // Gives a loan back. Returns true if the application has destroyed the configuration, and no
  // other loan of it is left; the caller then destroys it.
  bool Return(cudnnBackendDescriptor_t configuration);

  // Sets DescriptorShadow::keeps_native if it is not set, and returns it; returns `keeps` for an
  // unknown descriptor.
  bool AnswerNative(cudnnBackendDescriptor_t engine, bool keeps);

 private:
  // Returns null if `descriptor` is unknown.
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

// Configurations of a list. They are not destroyed during this object's lifetime, whatever other
// threads do.
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
