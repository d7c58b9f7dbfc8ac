// Facts about the graph API's descriptors that cuDNN reports slowly or not at all, such as the
// operation graph of an engine, a configuration or a plan. These facts show early that a plan
// cannot be divided. Thread-safe: one lock guards the facts. The lock is taken while plans are
// made. With UCUDNN_SPATIAL, it is also taken at each call of a plan that is not split over ranks.
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

// The content of an operation graph, as far as ucudnn knows it.
enum class GraphKind : uint8_t {
  kUnknown,      // the graph was made without ucudnn, or from JSON
  kConvolution,  // one of its operations is a convolution
  kUndividable,  // its convolution has a single image
  kUnfamiliar,   // its convolution has dynamic or ragged shapes
  kOther,        // it has no convolution
};

// The configurations of one heuristics list, best first, each with its DescriptorShadow::number. If
// a configuration was destroyed since, its address has a shadow with another number, or no shadow.
using ListedConfigurations = std::vector<std::pair<cudnnBackendDescriptor_t, uint64_t>>;

// An operation, other than a convolution, that reads more than one element to compute an element of
// its result.
struct WideOperation {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
  std::optional<cudnnBackendNormMode_t> norm;  // mode of a norm, if it was set
};

struct DescriptorShadow {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  GraphKind kind = GraphKind::kUnknown;
  // True if every operation reads only one element for each element of its result.
  bool is_pointwise = false;
  // For an operation graph and objects made from it: the first wide operation in the graph; none:
  // ucudnn knows of no wide operation in it.
  std::optional<WideOperation> wide;
  std::optional<cudnnBackendNormMode_t> norm;  // for a norm operation
  // True for a pointwise mode whose result depends on an element's position, and for operations
  // with such a mode.
  bool reads_position = false;
  // True for the first configuration of a heuristics list, and for objects made from it.
  bool is_heuristics_first = false;
  std::shared_ptr<const ListedConfigurations> list;  // the heuristics list that contains this
                                                     // configuration; null: none
  cudnnHandle_t handle = nullptr;  // the handle of the descriptor or of its operation graph
  // The first extent of a tensor or of a convolution's image, and whether that tensor is ragged.
  int64_t batch = 0;
  bool ragged = false;
  std::array<int64_t, CUDNN_DIM_MAX> extents = {}, strides = {};  // of a tensor; 0 beyond its rank
  // For a convolution and objects made from it: the number of elements that an image of x spans or,
  // if that is larger, the number that an image of y spans.
  double span = 0;
  bool dynamic = false;  // the operation graph has dynamic shapes
  // For an engine: the configuration from which the program read it (null: the configuration no
  // longer exists), and whether the program was told that the engine's plans can become native CUDA
  // graphs (none: not told yet). A given answer must not change.
  cudnnBackendDescriptor_t configuration = nullptr;
  uint64_t configuration_number = 0;
  std::optional<bool> keeps_native;
  uint64_t number = 0;  // distinguishes the descriptor from later ones at the same address
};

class DescriptorShadows {
 public:
  // OnCreate, OnSet and OnGet are to be called after the real library has made, set or read a
  // descriptor. They may throw std::bad_alloc; the descriptor then stays unknown.
  void OnCreate(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
  void OnSet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // `count` is the number of values that the real library returned.
  void OnGet(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, int64_t count,
             const void* values);
  // Removes and returns the descriptor's shadow. To be called before the real library destroys the
  // descriptor.
  std::optional<DescriptorShadow> OnDestroy(cudnnBackendDescriptor_t descriptor);

  std::optional<DescriptorShadow> Find(cudnnBackendDescriptor_t descriptor);

  // Returns the configurations of `list` that still exist, as loans. A configuration is not
  // destroyed before Return was called for each of its loans.
  std::vector<cudnnBackendDescriptor_t> Lend(const ListedConfigurations& list);
  // To be called when the application destroys a configuration. Returns true if the configuration
  // is lent. The caller then must not destroy it; it is destroyed when its last loan is returned.
  bool DestroyLater(cudnnBackendDescriptor_t configuration);
  // Ends a loan. Returns true if the application has destroyed the configuration and no other loan
  // of it is left. The caller must then destroy it.
  bool Return(cudnnBackendDescriptor_t configuration);

  // Returns DescriptorShadow::keeps_native of `engine`. If this member is not set yet, first sets
  // it to `keeps`. Returns `keeps` if `engine` is unknown.
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
    bool destroyed = false;  // the application has destroyed the configuration
  };
  std::unordered_map<cudnnBackendDescriptor_t, Lending> lent_ UCUDNN_GUARDED_BY(mutex_);
};

// The configurations of a list that still exist. Even if the application destroys one of them, the
// configuration continues to exist as long as this object exists.
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
