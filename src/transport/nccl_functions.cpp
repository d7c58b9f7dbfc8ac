#include "transport/nccl_functions.h"

#include <vector>

#include "base/shared_library.h"

namespace ucudnn::transport::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

// Returns `path` without its last component; empty if it has only one.
std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Returns the files of NCCL to try, in this order. Wheels have cuDNN in nvidia/cudnn/lib and NCCL
// in nvidia/nccl/lib.
std::vector<std::string> Candidates(const std::string& cudnn_file) {
  std::vector<std::string> candidates;
  const std::string folder = FolderOf(cudnn_file);
  const std::string wheels = FolderOf(FolderOf(folder));
  if (!wheels.empty()) candidates.push_back(wheels + "/nccl/lib/" + kName);
  if (!folder.empty()) candidates.push_back(folder + "/" + kName);
  candidates.push_back(kName);
  return candidates;
}

Result<SharedLibrary> OpenLibrary(const std::string& cudnn_file) {
  Result<SharedLibrary> library = SharedLibrary::Loaded(kName);
  std::string tried;
  for (const std::string& candidate : Candidates(cudnn_file)) {
    if (library.ok()) break;
    library = SharedLibrary::Open(candidate);
    if (!library.ok()) tried = library.message();
  }
  if (library.ok()) return library;
  return Status::Error("NCCL cannot be loaded: " + tried);
}

template <typename Function>
void Find(const SharedLibrary& library, const char* name, Function& function,
          const char** missing) {
  function = reinterpret_cast<Function>(library.Symbol(name));
  if (function == nullptr) *missing = name;
}

}  // namespace

std::string VersionText(int version) {
  // Before release 2.9 the number is X * 1000 + Y * 100 + Z.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
}

Status Functions::StatusOf(int result, const char* action, Communicator* communicator) const {
  if (result == kSuccess) return Status::Ok();
  std::string message = std::string(action) + ": NCCL: " + GetErrorString(result);
  const char* const more = GetLastError(communicator);
  if (more != nullptr && *more != '\0') message += std::string(" (") + more + ")";
  return Status::Error(std::move(message));
}

Result<Functions> Load(const std::string& cudnn_file) {
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, OpenLibrary(cudnn_file));
  Functions functions;
  const char* missing = nullptr;
  Find(library, "ncclGetVersion", functions.GetVersion, &missing);
  if (missing == nullptr && functions.GetVersion(&functions.version) != kSuccess) {
    functions.version = 0;
  }
  functions.file = FileOf(reinterpret_cast<const void*>(functions.GetVersion));
  if (missing == nullptr && functions.version < kOldestVersion) {
    return Status::Error("NCCL " + VersionText(functions.version) + " (" + functions.file +
                         ") is older than " + VersionText(kOldestVersion));
  }
  Find(library, "ncclGetErrorString", functions.GetErrorString, &missing);
  Find(library, "ncclGetLastError", functions.GetLastError, &missing);
  Find(library, "ncclGetUniqueId", functions.GetUniqueId, &missing);
  Find(library, "ncclCommInitRankConfig", functions.CommInitRankConfig, &missing);
  Find(library, "ncclCommDestroy", functions.CommDestroy, &missing);
  Find(library, "ncclCommAbort", functions.CommAbort, &missing);
  Find(library, "ncclCommGetAsyncError", functions.CommGetAsyncError, &missing);
  Find(library, "ncclGroupStart", functions.GroupStart, &missing);
  Find(library, "ncclGroupEnd", functions.GroupEnd, &missing);
  Find(library, "ncclSend", functions.Send, &missing);
  Find(library, "ncclRecv", functions.Recv, &missing);
  Find(library, "ncclAllReduce", functions.AllReduce, &missing);
  if (missing == nullptr) return functions;
  return Status::Error("NCCL (" + functions.file + ") lacks " + missing);
}

}  // namespace ucudnn::transport::nccl
