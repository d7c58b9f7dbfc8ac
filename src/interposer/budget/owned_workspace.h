// ucudnn's own workspace for one call, from its session's WorkspaceBudget. Used by the call's
// thread.
#pragma once

#include "interposer/budget/workspace_budget.h"

namespace ucudnn::interposer {

class Session;

class OwnedWorkspace {
 public:
  // Takes the workspace that `part` asks for. data() is null if that is none, or if there is no
  // memory. While `capturing`, the memory comes from the part reserved for captures.
  OwnedWorkspace(const cuda::Driver& driver, Session& session, cudnnHandle_t handle,
                 const OwnedPart& part, bool capturing);
  // Gives a loan back. REQUIRES: the call's work has been enqueued.
  ~OwnedWorkspace();
  OwnedWorkspace(const OwnedWorkspace&) = delete;
  OwnedWorkspace& operator=(const OwnedWorkspace&) = delete;

  void* data() const { return segment_.memory.data; }

 private:
  void TakeShare(const ArenaOwner& owner, const OwnedPart& part);
  void TakeForCapture(const cuda::Driver& driver, const ArenaOwner& owner, const OwnedPart& part);

  Session& session_;
  WorkspaceBudget::Segment segment_;
};

}  // namespace ucudnn::interposer
