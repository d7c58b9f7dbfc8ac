#include "command/installation.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/shared_library.h"

namespace ucudnn::command {

Installation FindInstallation() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = self.parent_path().parent_path() / "lib" / "ucudnn";
  const std::filesystem::path host = folder / "host";
  return {
      folder / "libcudnn.so.9", folder / "libucudnn_dlsym.so", folder / "libucudnn_glpk.so", host,
      host / "libcuda.so.1",    host / "libcudart.so.13",      host / "libcudnn.so.9"};
}

std::string WhyMissing(const Installation& installation, const std::string& path) {
  if (path.starts_with(installation.host_folder + "/")) {
    return "'" + path + "' is missing: the CPU stand-ins " +
           (FileExists(installation.host_folder)
                ? "are not built whole; `cmake --build --preset release` builds all of them"
                : "come with a build from source, not with the wheel");
  }
  return "'" + path + "' is missing: ucudnn is not complete";
}

Status CheckStandIns(const Installation& installation) {
  const std::string folder = installation.host_folder + "/";
  for (const std::string& path :
       {installation.host_cuda, installation.host_cudart, installation.host_cudnn,
        folder + "libnccl.so.2", folder + "libcurand.so.10"}) {
    if (!FileExists(path)) return Status::Error(WhyMissing(installation, path));
  }
  return Status::Ok();
}

Status UseStandIns() {
  const Installation installation = FindInstallation();
  for (const std::string& path : {installation.host_cuda, installation.host_cudnn,
                                  installation.host_folder + "/libnccl.so.2"}) {
    if (!FileExists(path)) return Status::Error(WhyMissing(installation, path));
    UCUDNN_RETURN_IF_ERROR(SharedLibrary::Open(path).status());
  }
  setenv("UCUDNN_REAL_CUDNN", installation.host_cudnn.c_str(), 1);
  return Status::Ok();
}

bool FileExists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

}  // namespace ucudnn::command
