// The functions of NCCL that the channel over NCCL uses (nccl.h), found at run time. They are
// declared here as in NCCL 2.18, whose structures later releases accept, so NCCL's header is not
// needed. Copies are cheap. Thread-safe.
#pragma once

#include <cuda.h>

#include <climits>
#include <cstddef>
#include <string>

#include "base/status.h"

namespace ucudnn::transport::nccl {

struct Communicator;

struct UniqueId {
  char bytes[128];
};

inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;
inline constexpr int kInt8 = 0, kFloat32 = 7, kFloat64 = 8;  // ncclDataType_t
inline constexpr int kSum = 0;                               // ncclRedOp_t

inline constexpr int kUndefined = INT_MIN;
inline constexpr int kOldestVersion = 21800;

struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  // The version of this structure. A later release of NCCL gives default values to members that the
  // structure lacks.
  unsigned version = kOldestVersion;
  int blocking = 1;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  // Padding at the end. If a later structure has a member here, kUndefined tells NCCL that the
  // member is not set.
  int after = kUndefined;
};

struct Functions {
  int (*GetVersion)(int*) = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
  const char* (*GetLastError)(Communicator*) = nullptr;
  int (*GetUniqueId)(UniqueId*) = nullptr;
  int (*CommInitRankConfig)(Communicator**, int size, UniqueId, int rank, Config*) = nullptr;
  int (*CommDestroy)(Communicator*) = nullptr;
  int (*CommAbort)(Communicator*) = nullptr;
  int (*CommGetAsyncError)(Communicator*, int*) = nullptr;
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  int (*Send)(const void*, size_t, int type, int peer, Communicator*, CUstream) = nullptr;
  int (*Recv)(void*, size_t, int type, int peer, Communicator*, CUstream) = nullptr;
  int (*AllReduce)(const void*, void*, size_t, int type, int operation, Communicator*,
                   CUstream) = nullptr;

  int version = 0;   // as ncclGetVersion returns it
  std::string file;  // path of the library

  // Returns `result` as a Status whose message names `action` and contains NCCL's reason, if there
  // is one. `communicator` may be null.
  Status StatusOf(int result, const char* action, Communicator* communicator) const;
};

// Formats a version from ncclGetVersion: "2.18.3".
std::string VersionText(int version);

// Returns the functions of the NCCL that the process has already loaded. If there is none, tries
// the NCCL of the wheels beside `cudnn_file` (empty: unknown), then NCCL in that file's folder,
// then the system's. If no attempt succeeds, the error is the error of the last attempt. If NCCL is
// too old, the error names its version.
Result<Functions> Load(const std::string& cudnn_file);

}  // namespace ucudnn::transport::nccl
