// ucudnn's own workspace for one call, from the WorkspaceBudget of the call's session. Used by the
// call's thread.
#pragma once

#include "interposer/budget/workspace_budget.h"

namespace ucudnn::interposer {

class Session;

class OwnedWorkspace {
 public:
  // Takes the workspace that `part` asks for. data() is null if `part` asks for no workspace, or if
  // there is no memory. If `capturing` is true, takes the memory from the segments that are set
  // aside for captures.
  OwnedWorkspace(Session& session, cudnnHandle_t handle, const OwnedPart& part, bool capturing);
  // Gives a loan back. REQUIRES: the call's work was enqueued.
  ~OwnedWorkspace();
  OwnedWorkspace(const OwnedWorkspace&) = delete;
  OwnedWorkspace& operator=(const OwnedWorkspace&) = delete;

  void* data() const { return segment_.memory.data; }

 private:
  void TakeShare(const ArenaOwner& owner, const OwnedPart& part);
  void TakeForCapture(const ArenaOwner& owner, const OwnedPart& part);

  Session& session_;
  WorkspaceBudget::Segment segment_;
};

}  // namespace ucudnn::interposer
