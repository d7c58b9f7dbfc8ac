// Finds out how a process uses cuDNN, and whether the process's cuDNN calls reach the drop-in. If
// they do not, names the cause. Works on a ProcessView, and reads the files that the process
// mapped. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "command/doctor/diagnosis.h"
#include "command/doctor/process_view.h"
#include "command/installation.h"

namespace ucudnn::command {

// An object file that refers to cuDNN.
struct CudnnUser {
  std::string path;
  // True if the file is linked with cuDNN. False if it only contains cuDNN's name as text, or
  // defines functions with cuDNN's names.
  bool linked = false;
  std::string library;  // if `linked`: the name with its version, such as libcudnn.so.9
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
  // The file into which cuDNN is linked statically; empty if the process uses a libcudnn.
  std::string linked_in;
  std::vector<std::string> cuda_runtime;  // libcudart files, or else files with a static runtime
  std::string driver;
  // Files of ucudnn or cuDNN that were replaced after the process mapped them.
  std::vector<std::string> replaced;
  bool opened = false;  // whether dlopen returned the drop-in (only the log shows this)
  bool called = false;  // whether the drop-in has opened the real library, to forward a call

  // Returns whether the process uses cuDNN at all. A loaded drop-in alone does not show this,
  // because LD_PRELOAD loads it into every process.
  bool Any() const;
};

CudnnUse FindCudnnUse(const ProcessView& view);

// Adds facts about the libraries that the process uses.
void AddUse(const ProcessView& view, const CudnnUse& use, Diagnosis& diagnosis);

// Adds the reasons why cuDNN calls do not reach the drop-in. Returns whether they reach it.
bool CheckInterception(const ProcessView& view, const CudnnUse& use,
                       const Installation& installation, Diagnosis& diagnosis);

// Adds a fault if the process's CUDA runtime is newer than the driver, whose cuDriverGetVersion is
// `cuda_driver` (0: unknown). Adds a warning if the process has cuDNN but no driver.
void CheckCuda(const ProcessView& view, const CudnnUse& use, int cuda_driver, Diagnosis& diagnosis);

}  // namespace ucudnn::command
