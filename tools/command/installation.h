// Where the libraries of this ucudnn are: beside the command itself, in the build tree as in the
// install tree.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::command {

struct Installation {
  std::string drop_in;  // lib/ucudnn/libcudnn.so.9
  std::string
      dlsym_hook;  // lib/ucudnn/libucudnn_dlsym.so: for programs that open cuDNN by its path
  std::string glpk_solver;  // lib/ucudnn/libucudnn_glpk.so; not everyone installs it
  std::string host_folder;  // lib/ucudnn/host: the CPU stand-ins
  std::string host_cuda;
  std::string host_cudart;
  std::string host_cudnn;
};

// Absolute paths, from where this program's own file is; whether they exist is not looked at.
Installation FindInstallation();

// In words, of a file of the installation that is not there.
std::string WhyMissing(const Installation& installation, const std::string& path);

// Whether all CPU stand-ins are there: the loader would take NVIDIA's in place of one that is not.
Status CheckStandIns(const Installation& installation);

// Takes the CPU stand-ins in this process, in place of the driver and cuDNN; before anything else
// of it asks for one. Opened by path first, a library serves whoever asks for its soname later.
Status UseStandIns();

bool FileExists(const std::string& path);

}  // namespace ucudnn::command
