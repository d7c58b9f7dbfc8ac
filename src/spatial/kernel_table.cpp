#include "spatial/kernel_table.h"

#include <algorithm>

namespace ucudnn::spatial {

KernelKey KernelKey::Of(const ConvolutionProblem& problem, const CallProperties& form) {
  KernelKey key = {problem, form};
  key.problem.alignment = 1;
  SetPackedStrides(key.problem);
  return key;
}

SplitKernel* AgreedKernel::For(const ConvolutionProblem& problem) const {
  // A refusal holds for tensors of all strides.
  if (!first().refusal().empty()) return &first();
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const auto& kernel) {
    return kernel->problem().x_strides == problem.x_strides &&
           kernel->problem().y_strides == problem.y_strides;
  });
  return found == made_.end() ? nullptr : found->get();
}

SplitKernel* AgreedKernel::Add(std::unique_ptr<SplitKernel> kernel) {
  if (made_.size() == kMostLayouts) made_.erase(made_.begin() + 1);
  return made_.emplace_back(std::move(kernel)).get();
}

std::span<AgreedKernel> KernelTable::Find(const KernelKey& key) {
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) return {};
  return found->second;
}

AgreedKernel& KernelTable::Add(const KernelKey& key, std::unique_ptr<SplitKernel> kernel) {
  const uint64_t number = ++count_;
  for (const AgreedKernel& other : Find(key)) {
    if (other.first().extents() != kernel->extents() ||
        other.first().windows() != kernel->windows()) {
      continue;
    }
    Forget(key, other.number());
    break;
  }
  if (const auto same = Find(key); same.size() == kMostExtents) Forget(key, same[0].number());
  while (order_.size() >= kMost) {
    const Entry oldest = order_.front();
    Forget(oldest.key, oldest.number);
  }
  order_.push_back({key, number});
  return kernels_[key].emplace_back(number, std::move(kernel));
}

void KernelTable::ForgetGradients() {
  const auto is_gradient = [](const KernelKey& key) {
    return HasParameterGradient(key.problem.operation, key.form.work);
  };
  std::erase_if(order_, [&](const Entry& entry) { return is_gradient(entry.key); });
  std::erase_if(kernels_, [&](const auto& kernel) { return is_gradient(kernel.first); });
}

void KernelTable::Forget(const KernelKey& key, uint64_t number) {
  std::erase_if(order_, [&](const Entry& entry) { return entry.number == number; });
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) return;
  std::erase_if(found->second, [&](const AgreedKernel& one) { return one.number() == number; });
  if (found->second.empty()) kernels_.erase(found);
}

}  // namespace ucudnn::spatial
