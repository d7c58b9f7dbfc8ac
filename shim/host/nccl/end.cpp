// The functions that end communicators.
#include <utility>

#include "shim/host/nccl/driver.h"
#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {
namespace {

// Earlier calls are already enqueued. Destroy waits for them, also when it is called in a group.
Outcome Destroy(ncclComm_t comm) {
  if (!comm) return {};
  const auto communicator = Find(comm);
  if (!communicator) return {ncclInvalidArgument, "comm argument is no communicator"};
  if (communicator->State() == ncclInProgress) return communicator->CheckUsable();
  communicator->AwaitEnd();
  communicator->AwaitNoneHeld();
  if (!Unregister(comm)) return {ncclInvalidArgument, "another thread ended the communicator"};
  communicator->SayGoodbye();
  ReleaseContext(communicator->device());
  return {};
}

// Operations that are still enqueued on streams do nothing when their turn comes.
Outcome AbortNow(ncclComm_t comm) {
  if (!comm) return {};
  const auto communicator = Unregister(comm);
  if (!communicator) return {ncclInvalidArgument, "comm argument is no communicator"};
  communicator->Abort();
  communicator->AwaitEnd();
  communicator->AwaitNoneHeld();
  ReleaseContext(communicator->device());
  return {};
}

}  // namespace
}  // namespace hostgpu::nccl

using namespace hostgpu::nccl;

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return Guarded([&] { return Destroy(comm); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return Guarded([&] { return AbortNow(comm); });
}
