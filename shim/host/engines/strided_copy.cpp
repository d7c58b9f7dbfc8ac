#include "shim/host/engines/strided_copy.h"

#include <algorithm>
#include <vector>

#include "shim/host/engines/element.h"
#include "shim/host/engines/parallel.h"

namespace hostgpu {
namespace {

constexpr int64_t kTaskElements = 1 << 15;

struct CopyLoop {
  int64_t extent, user_stride, dense_stride;
};

// Returns loops over the axes, from the largest to the smallest stride in the dense copy. Axes that
// are contiguous in both tensors are merged to one loop.
std::vector<CopyLoop> CopyLoops(const TensorCopy& copy) {
  std::vector<CopyLoop> loops;
  for (int i = 0; i < 5; ++i) {
    if (copy.extents[i] == 1) continue;
    loops.push_back({copy.extents[i], copy.user_strides[i], copy.dense_strides[i]});
  }
  std::stable_sort(loops.begin(), loops.end(), [](const CopyLoop& a, const CopyLoop& b) {
    return a.dense_stride > b.dense_stride;
  });
  std::vector<CopyLoop> merged;
  for (const CopyLoop& loop : loops) {
    if (!merged.empty() && merged.back().user_stride == loop.user_stride * loop.extent &&
        merged.back().dense_stride == loop.dense_stride * loop.extent) {
      merged.back() = {merged.back().extent * loop.extent, loop.user_stride, loop.dense_stride};
    } else {
      merged.push_back(loop);
    }
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

// Calls run(user offset, user stride, dense offset, dense stride, count) for runs of elements that
// together contain the tensor.
template <class Run>
void ForEachRun(const TensorCopy& copy, const Run& run) {
  std::vector<CopyLoop> loops = CopyLoops(copy);
  const CopyLoop inner = loops.back();
  loops.pop_back();
  int64_t outer = 1;
  for (const CopyLoop& loop : loops) outer *= loop.extent;
  const int64_t chunk = std::min(inner.extent, kTaskElements);
  const int64_t chunks = (inner.extent + chunk - 1) / chunk;
  const int64_t per_task = std::max<int64_t>(1, kTaskElements / chunk);
  const int64_t pieces = outer * chunks;
  ParallelFor((pieces + per_task - 1) / per_task, [&](int64_t task) {
    const int64_t end = std::min(pieces, (task + 1) * per_task);
    for (int64_t piece = task * per_task; piece < end; ++piece) {
      const int64_t start = piece % chunks * chunk;
      int64_t user = start * inner.user_stride, dense = start * inner.dense_stride;
      int64_t rest = piece / chunks;
      for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
        user += rest % loop->extent * loop->user_stride;
        dense += rest % loop->extent * loop->dense_stride;
        rest /= loop->extent;
      }
      run(user, inner.user_stride, dense, inner.dense_stride,
          std::min(chunk, inner.extent - start));
    }
    return true;
  });
}

// Does what WithElement does, but does not call body for fp64, because engines that make fp32
// copies do not support fp64.
template <class Body>
void WithNarrowElement(DataType type, const Body& body) {
  WithElement(type, [&](auto element) {
    if constexpr (!std::is_same_v<decltype(element), double>) body(element);
  });
}

}  // namespace

void LoadTensor(const TensorCopy& copy, DataType type, const void* user, float* dense) {
  WithNarrowElement(type, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(user);
    ForEachRun(copy, [&](int64_t user_offset, int64_t user_stride, int64_t dense_offset,
                         int64_t dense_stride, int64_t count) {
      if (dense_stride == 1) {
        LoadRun(from + user_offset, user_stride, dense + dense_offset, count);
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        dense[dense_offset + i * dense_stride] = Load(from[user_offset + i * user_stride]);
      }
    });
  });
}

void BlendTensor(const TensorCopy& copy, DataType type, const float* dense, void* user, float alpha,
                 float beta) {
  WithNarrowElement(type, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(user);
    ForEachRun(copy, [&](int64_t user_offset, int64_t user_stride, int64_t dense_offset,
                         int64_t dense_stride, int64_t count) {
      BlendRun(dense + dense_offset, dense_stride, to + user_offset, user_stride, count, alpha,
               beta);
    });
  });
}

}  // namespace hostgpu
