#include "command/stand_ins.h"

#include <cstdlib>
#include <string>

#include "base/shared_library.h"
#include "command/installation.h"

namespace ucudnn::command {

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

}  // namespace ucudnn::command
