#include "interposer/budget/owned_workspace.h"

#include "cuda/resources.h"
#include "interposer/budget/budgets.h"
#include "interposer/session/session.h"

namespace ucudnn::interposer {

OwnedWorkspace::OwnedWorkspace(Session& session, cudnnHandle_t handle, const OwnedPart& part,
                               bool capturing)
    : session_(session) {
  if (session.budget() == nullptr || part.bytes == 0) return;
  const cuda::ContextScope scope(session.driver(), session.context());
  const auto owner = OwnerOf(session, handle);
  if (!owner) return;
  try {
    capturing ? TakeForCapture(*owner, part) : TakeShare(*owner, part);
  } catch (...) {
    // Out of host memory. If a segment was lent, it stays in segment_: this call uses it, and the
    // destructor gives it back. A segment that the owner may keep is not used.
    if (!segment_.lent) segment_ = {};
  }
  if (capturing || !part.assured || segment_.memory.data != nullptr) return;
  try {
    segment_ = session.budget()->TakeAssured(*owner, part.bytes, session.stream());
  } catch (...) {
    // Out of host memory, and all assured workspace is in use: the call gets none.
  }
}

void OwnedWorkspace::TakeShare(const ArenaOwner& owner, const OwnedPart& part) {
  WorkspaceBudget& budget = *session_.budget();
  if (part.assured) budget.Assure(part.bytes);
  const ArenaOwner slot = budget.SlotOwner(owner, part.kernel);
  segment_.memory = session_.FindWorkspace(slot, part.bytes, budget.generation());
  if (segment_.memory.data != nullptr) return;
  segment_ = budget.Take(slot, part, session_.stream());
  const bool stays = segment_.memory.data != nullptr && !segment_.lent;
  if (stays) session_.KeepWorkspace(slot, segment_.memory);
}

void OwnedWorkspace::TakeForCapture(const ArenaOwner& owner, const OwnedPart& part) {
  const std::optional<cuda::Capture> capture =
      cuda::CaptureOf(session_.driver(), session_.stream());
  if (capture) segment_.memory = session_.budget()->TakeForCapture(*capture, owner, part);
}

OwnedWorkspace::~OwnedWorkspace() {
  if (!segment_.lent || segment_.memory.data == nullptr) return;
  session_.budget()->GiveBack(segment_.memory, session_.stream());
}

}  // namespace ucudnn::interposer
