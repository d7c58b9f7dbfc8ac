#include "interposer/budget/library_workspace.h"

#include "cuda/resources.h"
#include "interposer/budget/budgets.h"
#include "interposer/session/session.h"

namespace ucudnn::interposer {

LibraryWorkspace::LibraryWorkspace(const cuda::Driver& driver, Session& session,
                                   cudnnHandle_t handle, const LibraryPart& part, bool capturing)
    : session_(session) {
  Network* const network = session.network();
  if (network == nullptr || part.bytes == 0) return;
  const cuda::ContextScope scope(driver, session.context());
  const CUstream stream = session.stream();
  auto owner = OwnerOf(driver, session, handle);
  if (!owner) return;
  if (capturing) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t capture = 0;
    const bool known = driver.cuStreamGetCaptureInfo(stream, &status, &capture, nullptr, nullptr,
                                                     nullptr) == CUDA_SUCCESS;
    if (known) segment_.memory = network->TakeForCapture(capture, *owner, part.bytes);
    return;
  }
  owner = network->SlotOwner(*owner, part.kernel);
  segment_.memory = session.FindWorkspace(*owner, part.bytes, network->generation());
  if (segment_.memory.data != nullptr) return;
  try {
    segment_ = network->Take(*owner, part, stream);
    const bool stays = segment_.memory.data != nullptr && !segment_.lent;
    if (stays) session.KeepWorkspace(*owner, segment_.memory);
  } catch (...) {
    // Host memory is out. A segment that was taken for good stays its owner's; only a loan is to be
    // given back.
    if (!segment_.lent) segment_ = {};
  }
}

LibraryWorkspace::~LibraryWorkspace() {
  if (!segment_.lent || segment_.memory.data == nullptr) return;
  session_.network()->GiveBack(segment_.memory, session_.stream());
}

}  // namespace ucudnn::interposer
