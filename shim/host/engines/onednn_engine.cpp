#include "shim/host/engines/onednn_engine.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/host/engines/onednn_plan.h"
#include "shim/host/leaked.h"

namespace hostgpu {
namespace {

using Key = std::vector<int64_t>;
using SharedPlan = std::shared_ptr<const OnednnPlan>;

constexpr size_t kPlans = 512;

Key KeyOf(const ConvolutionShape& s, OnednnVariant variant) {
  Key key{static_cast<int64_t>(variant),
          static_cast<int64_t>(s.operation),
          static_cast<int64_t>(s.type),
          s.n,
          s.c,
          s.k,
          s.groups,
          s.filter_nhwc,
          s.flip};
  const auto append = [&](const auto& values) {
    key.insert(key.end(), values.begin(), values.end());
  };
  for (const auto* axes : {&s.x, &s.w, &s.y, &s.pad, &s.upper_pad, &s.stride, &s.dilation})
    append(*axes);
  append(s.x_strides);
  append(s.y_strides);
  return key;
}

// Caches the most recently used plans. A null plan means that oneDNN has no primitive for the shape
// and variant.
class PlanCache {
 public:
  SharedPlan Find(const ConvolutionShape& shape, OnednnVariant variant) {
    const Key key = KeyOf(shape, variant);
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = index_.find(key); found != index_.end()) {
        plans_.splice(plans_.begin(), plans_, found->second);
        return found->second->second;
      }
    }
    // The plan is created without the lock, so that other threads' convolutions do not wait while
    // oneDNN generates code.
    SharedPlan plan = OnednnPlan::Create(shape, variant);
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) return found->second->second;
    plans_.emplace_front(key, plan);
    index_[key] = plans_.begin();
    if (plans_.size() > kPlans) {
      index_.erase(plans_.back().first);
      plans_.pop_back();
    }
    return plan;
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<Key, SharedPlan>> plans_;  // the most recently used plan is first
  std::map<Key, std::list<std::pair<Key, SharedPlan>>::iterator> index_;
};

// Never destroyed: threads may use it while static objects are destroyed.
PlanCache& Plans() { return Leaked<PlanCache>(); }

}  // namespace

std::optional<size_t> OnednnWorkspaceBytes(const ConvolutionShape& shape, OnednnVariant variant) {
  const SharedPlan plan = Plans().Find(shape, variant);
  if (!plan) return std::nullopt;
  return plan->workspace_bytes();
}

bool RunOnednn(const ConvolutionShape& shape, OnednnVariant variant, double alpha, void* x, void* w,
               void* y, double beta, void* workspace) {
  const SharedPlan plan = Plans().Find(shape, variant);
  return plan && plan->Run(static_cast<float>(alpha), x, w, y, static_cast<float>(beta), workspace);
}

}  // namespace hostgpu
