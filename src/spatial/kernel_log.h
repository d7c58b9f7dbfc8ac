// Counts the calls of each kernel on which a rank has agreed, for the report. A kernel keeps its
// number even if the rank forgets the kernel and agrees on it again. Thread-safe: the thread that
// makes the rank's calls and the thread of RankWatch count, while another thread reads for the
// report. Counting allocates nothing.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "spatial/group_stripes.h"
#include "spatial/kernel_figures.h"
#include "spatial/split_call.h"

namespace ucudnn::spatial {

class SplitKernel;

// Returns the report's facts about the kernel of `call`. `common` is a text of the properties that
// all ranks share. `group` has the stripes on which the ranks agreed, or the reason why there are
// none.
KernelFacts FactsOf(const SplitCall& call, const SplitKernel& kernel, std::string common,
                    const Result<GroupStripes>& group);

class KernelLog {
 public:
  static constexpr int kUnlisted = -1;

  // Returns the number of the kernel; kUnlisted if kMost other kernels have numbers.
  int Add(KernelFacts facts);
  // Counts a call of the kernel with number `number`. Returns the number of calls before this one.
  uint64_t Count(int number, bool is_paired);
  // Returns all figures except the times.
  RankFigures Read() const;

  static constexpr size_t kMost = 4096;

 private:
  mutable Mutex mutex_;
  std::vector<KernelFigures> kernels_ UCUDNN_GUARDED_BY(mutex_);
  // The numbers of the kernels, by KernelFacts::common.
  std::unordered_multimap<std::string, int> numbers_ UCUDNN_GUARDED_BY(mutex_);
  uint64_t unlisted_calls_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::spatial
