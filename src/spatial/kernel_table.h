// The kernels on which a rank has agreed with the other ranks. A kernel is found by its KernelKey.
// The table is bounded: the oldest agreement is forgotten first. All ranks forget the same
// agreements, because they agree at the same calls. Not thread-safe: a rank makes one call at a
// time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "convolution/problem.h"
#include "spatial/split_call.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

// The key of a kernel: the rank's own problem and the form of the call. The layout of the tensors
// is not part of the key, because the layout may change on one rank alone.
struct KernelKey {
  ConvolutionProblem problem;  // with packed strides and no alignment
  CallProperties form;

  static KernelKey Of(const ConvolutionProblem& problem, const CallProperties& form);
  bool operator==(const KernelKey&) const = default;
};
struct KernelKeyHash {
  size_t operator()(const KernelKey& key) const {
    return key.problem.Hash() * 32 + key.form.Hash();
  }
};

// A kernel on which all ranks agreed for given extents of each rank. Has one version for each
// layout that this rank's tensors have had.
class AgreedKernel {
 public:
  AgreedKernel(uint64_t number, std::unique_ptr<SplitKernel> kernel) : number_(number) {
    made_.push_back(std::move(kernel));
  }

  uint64_t number() const { return number_; }
  // Returns the version that was made at the agreement. All versions have the same refusal, extents
  // and messages.
  SplitKernel& first() const { return *made_.front(); }
  // Returns the version for tensors with the strides of `problem`; null if there is none.
  SplitKernel* For(const ConvolutionProblem& problem) const;
  // Adds a version. If there are too many, removes the oldest of them, but never first().
  SplitKernel* Add(std::unique_ptr<SplitKernel> kernel);

 private:
  static constexpr size_t kMostLayouts = 16;
  uint64_t number_;
  std::vector<std::shared_ptr<SplitKernel>> made_;
};

class KernelTable {
 public:
  // One kernel for each combination of extents that the ranks have had. There are several kernels
  // only if ranks agree at every call (SplitSettings::agrees_each_time).
  using Kernels = std::vector<AgreedKernel>;

  // Returns the kernels with this key; empty if ranks have not agreed on any. Valid until the next
  // Add.
  std::span<AgreedKernel> Find(const KernelKey& key);
  // Adds a kernel. Replaces the kernel with the same extents and windows, if there is one.
  AgreedKernel& Add(const KernelKey& key, std::unique_ptr<SplitKernel> kernel);
  // Forgets all kernels that compute gradients of parameters, so that ranks agree on them again.
  void ForgetGradients();
  size_t size() const { return order_.size(); }

  static constexpr size_t kMost = 4096;       // the most kernels in the table
  static constexpr size_t kMostExtents = 64;  // the most kernels for one key

 private:
  void Forget(const KernelKey& key, uint64_t number);

  std::unordered_map<KernelKey, Kernels, KernelKeyHash> kernels_;
  struct Entry {
    KernelKey key;
    uint64_t number;
  };
  std::deque<Entry> order_;
  uint64_t count_ = 0;
};

}  // namespace ucudnn::spatial
