// NCCL's functions that return information about the library and its communicators.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "shim/host/leaked.h"
#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/group.h"
#include "shim/host/nccl/settings.h"

namespace hostgpu::nccl {
namespace {

constexpr size_t kLongestReason = 1024;

struct LastError {
  std::mutex mutex;
  char text[kLongestReason] = "";
};

// Never destroyed: work on streams may still fail while the process exits.
LastError& TheLastError() { return Leaked<LastError>(); }

// Returns the status of body(communicator), or an error if `comm` is no communicator or `to` is
// null.
template <class Body>
ncclResult_t Tell(ncclComm_t comm, const void* to, const Body& body) {
  return Guarded([&]() -> Outcome {
    const auto communicator = Find(comm);
    if (!communicator) return {ncclInvalidArgument, "comm argument is no communicator"};
    if (!to) return {ncclInvalidArgument, "the pointer for the answer is NULL"};
    return body(*communicator);
  });
}

}  // namespace

ncclResult_t Recorded(const Outcome& outcome) {
  if (!outcome.ok() && outcome.result != ncclInProgress) {
    LastError& last = TheLastError();
    std::lock_guard lock(last.mutex);
    const size_t bytes = std::min(outcome.reason.size(), kLongestReason - 1);
    std::memcpy(last.text, outcome.reason.data(), bytes);
    last.text[bytes] = '\0';
  }
  return outcome.result;
}

}  // namespace hostgpu::nccl

using namespace hostgpu::nccl;

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return Recorded({ncclInvalidArgument, "version argument is NULL"});
  *version = TheSettings().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (static_cast<int>(result)) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

// Returns the process's last error for any communicator, as the real library does. The text is
// valid until the thread calls this function again.
const char* ncclGetLastError(ncclComm_t) {
  thread_local char text[kLongestReason];
  auto& last = TheLastError();
  std::lock_guard lock(last.mutex);
  std::memcpy(text, last.text, sizeof text);
  return text;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return Tell(comm, error, [&](const auto& communicator) -> Outcome {
    *error = communicator.State();
    return {};
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return Tell(comm, rank, [&](const auto& communicator) -> Outcome {
    if (communicator.State() == ncclInProgress) return communicator.CheckUsable();
    *rank = communicator.rank();
    return {};
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return Tell(comm, count, [&](const auto& communicator) -> Outcome {
    if (communicator.State() == ncclInProgress) return communicator.CheckUsable();
    *count = communicator.ranks();
    return {};
  });
}
