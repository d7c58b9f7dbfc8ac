// The kernels that a rank agreed on with the others, by what all of them have in common. Bounded:
// what was agreed on first is forgotten first, on all ranks alike, since they agree at the same
// calls. Not thread-safe: a rank makes one call at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "convolution/problem.h"
#include "spatial/call_form.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

// What tells kernels apart: the rank's own problem, and what the call does beside it. How the
// tensors lie in memory is a private fact, which may change on one rank alone.
struct KernelKey {
  ConvolutionProblem problem;  // in packed tensors of no alignment
  CallForm form;

  static KernelKey Of(const ConvolutionProblem& problem, const CallForm& form);
  bool operator==(const KernelKey&) const = default;
};
struct KernelKeyHash {
  size_t operator()(const KernelKey& key) const {
    return key.problem.Hash() * 32 + key.form.Hash();
  }
};

// A kernel as all ranks agreed on it for the extents of each, made for every layout that this
// rank's own tensors have had.
class AgreedKernel {
 public:
  AgreedKernel(uint64_t number, std::unique_ptr<SplitKernel> kernel) : number_(number) {
    made_.push_back(std::move(kernel));
  }

  uint64_t number() const { return number_; }
  // As it was agreed on. What its refusal, extents and messages are, all others are, too.
  SplitKernel& first() const { return *made_.front(); }
  // Null where it was not made for tensors of these strides.
  SplitKernel* For(const ConvolutionProblem& problem) const;
  // Of several layouts the oldest but the first goes.
  SplitKernel* Add(std::unique_ptr<SplitKernel> kernel);

 private:
  static constexpr size_t kMostLayouts = 16;
  uint64_t number_;
  std::vector<std::shared_ptr<SplitKernel>> made_;
};

class KernelTable {
 public:
  // By the extents of all ranks; more than one only where ranks agree at every call.
  using Kernels = std::vector<AgreedKernel>;

  // None where nothing was agreed on yet. Valid until the next Add.
  std::span<AgreedKernel> Find(const KernelKey& key);
  // Takes the place of what was agreed on for the same extents and windows.
  AgreedKernel& Add(const KernelKey& key, std::unique_ptr<SplitKernel> kernel);
  // Forgets all gradients of parameters, which are then agreed on again.
  void ForgetGradients();
  size_t size() const { return order_.size(); }

  static constexpr size_t kMost = 4096;       // of all
  static constexpr size_t kMostExtents = 64;  // of one convolution where extents change

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
