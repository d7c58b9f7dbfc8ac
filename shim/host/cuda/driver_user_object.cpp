// Driver functions for user objects and for the references that graphs hold to them.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"
#include "shim/host/cuda/user_object.h"
#include "shim/host/leaked.h"

using namespace hostgpu;

namespace {

// The references that the program itself holds, by handle.
struct Objects {
  std::mutex mutex;
  std::unordered_map<UserObject*, std::vector<HeldObject>> held;
};

// Never destroyed: graphs may be destroyed while the process exits.
Objects& TheObjects() { return Leaked<Objects>(); }

UserObject* Of(CUuserObject handle) { return reinterpret_cast<UserObject*>(handle); }

// Moves `count` of the program's references to `taken`. Returns false, and moves none, if the
// program has fewer than `count`.
bool TakeHeld(CUuserObject handle, size_t count, std::vector<HeldObject>& taken) {
  Objects& objects = TheObjects();
  std::lock_guard lock(objects.mutex);
  const auto found = objects.held.find(Of(handle));
  if (found == objects.held.end() || found->second.size() < count) return false;
  taken.assign(found->second.end() - static_cast<long>(count), found->second.end());
  found->second.resize(found->second.size() - count);
  if (found->second.empty()) objects.held.erase(found);
  return true;
}

std::shared_ptr<Graph> GraphOf(CUgraph handle) {
  std::shared_ptr<Graph> graph = FindGraph(handle);
  return graph ? graph : GraphOfCapture(handle);
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned count,
                            unsigned flags) {
  return Call([&]() -> CUresult {
    if (!out || !destroy || count == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto made = std::make_shared<UserObject>(data, destroy);
    Objects& objects = TheObjects();
    std::lock_guard lock(objects.mutex);
    objects.held[made.get()].assign(count, made);
    *out = reinterpret_cast<CUuserObject>(made.get());
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  std::vector<HeldObject> taken;  // destroyed without the lock
  return Call([&] {
    const bool had = count > 0 && TakeHeld(handle, count, taken);
    return had ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// The graph may also be the graph of an ongoing capture.
CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned count,
                                 unsigned flags) {
  std::vector<HeldObject> taken;
  return Call([&]() -> CUresult {
    const bool moves = flags == CU_GRAPH_USER_OBJECT_MOVE;
    const std::shared_ptr<Graph> graph = GraphOf(graph_handle);
    if (!graph || count == 0 || (flags != 0 && !moves)) return CUDA_ERROR_INVALID_VALUE;
    if (moves) {
      if (!TakeHeld(handle, count, taken)) return CUDA_ERROR_INVALID_VALUE;
    } else {
      Objects& objects = TheObjects();
      std::lock_guard lock(objects.mutex);
      const auto found = objects.held.find(Of(handle));
      if (found == objects.held.end()) return CUDA_ERROR_INVALID_VALUE;
      taken.assign(count, found->second.front());
    }
    graph->objects.insert(graph->objects.end(), taken.begin(), taken.end());
    return CUDA_SUCCESS;
  });
}
