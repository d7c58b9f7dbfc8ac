// Finds out how a process uses cuDNN, and whether the drop-in gets its calls; if not, names the
// cause. Works on what was observed of the process, and reads the files that the process mapped.
// Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "command/doctor/diagnosis.h"
#include "command/doctor/process_view.h"
#include "command/installation.h"

namespace ucudnn::command {

// An object that asked for cuDNN, and how the object names it.
struct CudnnUser {
  std::string path;
  // True if the object needs the library; false if it only has texts with the library's name, or
  // functions with cuDNN's names.
  bool linked = false;
  std::string library;  // the library's name with its version
  std::string rpath;
  std::string runpath;
};

// A cuDNN that was opened in addition to the drop-in.
struct SecondCudnn {
  std::string path;
  std::string opened_by;
  bool called;  // whether objects other than the drop-in call it
};

// Conclusions from the files that a process mapped. Paths are as the process sees them.
struct CudnnUse {
  std::string drop_in;  // the drop-in of any installation of ucudnn; empty if there is none
  // The libucudnn_dlsym.so of any installation of ucudnn, which redirects calls of dlsym; empty if
  // there is none.
  std::string dlsym_hook;
  std::vector<std::string> real;   // files libcudnn.so.9 that are no drop-in
  std::vector<std::string> other;  // files libcudnn.so of other versions
  std::vector<SecondCudnn> second;
  std::vector<std::string> served;  // files that call cuDNN through the drop-in
  std::vector<CudnnUser> users;
  // The file that defines cuDNN's functions; empty if the process uses a libcudnn.
  std::string linked_in;
  std::vector<std::string> cuda_runtime;  // CUDA runtimes, or files with a static one
  std::string driver;
  // Files of ucudnn or cuDNN that were replaced after the process mapped them.
  std::vector<std::string> replaced;
  bool opened = false;  // whether dlopen returned the drop-in (only the log shows this)
  bool called = false;  // whether the drop-in has forwarded a call to the real library

  // Returns whether the process uses cuDNN at all. The drop-in alone does not count, because it is
  // in every process with LD_PRELOAD.
  bool Any() const;
};

CudnnUse FindCudnnUse(const ProcessView& view);

// Adds facts: the libraries that the process uses.
void AddUse(const ProcessView& view, const CudnnUse& use, Diagnosis& diagnosis);

// Adds the reasons why the drop-in does not get the calls. Returns true if there are none.
bool CheckInterception(const ProcessView& view, const CudnnUse& use,
                       const Installation& installation, Diagnosis& diagnosis);

// Adds a fault if the process's CUDA runtime is newer than the driver (`cuda_driver` is
// cuDriverGetVersion; 0: unknown), or if cuDNN has no driver.
void CheckCuda(const ProcessView& view, const CudnnUse& use, int cuda_driver, Diagnosis& diagnosis);

}  // namespace ucudnn::command
