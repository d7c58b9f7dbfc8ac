#include "spatial/kernel_log.h"

#include <utility>

namespace ucudnn::spatial {

int KernelLog::Add(KernelFacts facts) {
  MutexLock lock(mutex_);
  const auto [first, last] = numbers_.equal_range(facts.common);
  for (auto known = first; known != last; ++known) {
    KernelFacts& before = kernels_[static_cast<size_t>(known->second)].facts;
    if (before.extents != facts.extents) continue;
    before = std::move(facts);
    return known->second;
  }
  if (kernels_.size() == kMost) return kUnlisted;
  const int number = static_cast<int>(kernels_.size());
  numbers_.emplace(facts.common, number);
  kernels_.emplace_back().facts = std::move(facts);
  return number;
}

uint64_t KernelLog::Count(int number, bool is_paired) {
  MutexLock lock(mutex_);
  if (number == kUnlisted) return unlisted_calls_++;
  KernelFigures& kernel = kernels_[static_cast<size_t>(number)];
  if (is_paired) ++kernel.paired_calls;
  return kernel.calls++;
}

RankFigures KernelLog::Read() const {
  MutexLock lock(mutex_);
  RankFigures figures;
  figures.kernels = kernels_;
  figures.unlisted_calls = unlisted_calls_;
  return figures;
}

}  // namespace ucudnn::spatial
