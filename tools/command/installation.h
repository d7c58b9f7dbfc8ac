// The paths of this installation's libraries. Their place relative to the command is the same in
// the build tree and in the install tree.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::command {

struct Installation {
  std::string drop_in;  // lib/ucudnn/libcudnn.so.9
  std::string
      dlsym_hook;  // lib/ucudnn/libucudnn_dlsym.so, for programs that open cuDNN by its path
  std::string glpk_solver;  // lib/ucudnn/libucudnn_glpk.so, which not every installation has
  std::string host_folder;  // lib/ucudnn/host, the folder of the CPU stand-ins
  std::string host_cuda;
  std::string host_cudart;
  std::string host_cudnn;
};

// Returns absolute paths, derived from the path of the running command. The files may not exist.
Installation FindInstallation();

// Returns a text that says that a file of the installation is missing.
std::string WhyMissing(const Installation& installation, const std::string& path);

// Fails unless all CPU stand-ins exist. In place of a missing one, the loader would load NVIDIA's
// library.
Status CheckStandIns(const Installation& installation);

// Makes this process use the CPU stand-ins for the driver, cuDNN and NCCL, by opening them. A
// later request for the same soname then gets the stand-in. Must be called before any code opens
// the real libraries.
Status UseStandIns();

bool FileExists(const std::string& path);

}  // namespace ucudnn::command
