// The places of this ucudnn's libraries, relative to the command itself, in the build tree and in
// the install tree.
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

// Returns absolute paths, derived from the path of this program's file. The files may not exist.
Installation FindInstallation();

// Returns a text that says that a file of the installation is missing.
std::string WhyMissing(const Installation& installation, const std::string& path);

// Fails unless all CPU stand-ins exist, because the loader would take NVIDIA's library in place of
// a missing one.
Status CheckStandIns(const Installation& installation);

// Makes this process use the CPU stand-ins for the driver and cuDNN. Must be called before any code
// opens these, because only a library that is already open serves later requests for its soname.
Status UseStandIns();

bool FileExists(const std::string& path);

}  // namespace ucudnn::command
