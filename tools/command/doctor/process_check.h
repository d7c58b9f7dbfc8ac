// How a process uses cuDNN, and whether the drop-in gets its calls: the causes that `ucudnn doctor`
// knows, by what was observed of the process. Reads the files that the process mapped.
// Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "command/doctor/diagnosis.h"
#include "command/doctor/process_view.h"
#include "command/installation.h"

namespace ucudnn::command {

// An object that asked for cuDNN, and how.
struct CudnnUser {
  std::string path;
  bool linked = false;  // it needs the library; otherwise its texts contain the name
  std::string library;  // the library's name with its version
  std::string rpath;
  std::string runpath;
};

// A cuDNN that was opened beside the drop-in.
struct SecondCudnn {
  std::string path;
  std::string opened_by;
  bool called;  // by objects other than the drop-in
};

// The conclusions from the files that a process mapped. Paths are as the process names them.
struct CudnnUse {
  std::string drop_in;     // a drop-in of any installation of ucudnn; empty: none
  std::string dlsym_hook;  // the hook that redirects look-ups, of any installation; empty: none
  std::vector<std::string> real;   // libcudnn.so.9 that is no drop-in
  std::vector<std::string> other;  // libcudnn.so of another version
  std::vector<SecondCudnn> second;
  std::vector<std::string> served;  // files whose calls of cuDNN go to the drop-in
  std::vector<CudnnUser> users;
  std::string linked_in;  // the file that contains cuDNN's functions, if there is no libcudnn
  std::vector<std::string> cuda_runtime;  // files, or files with a static runtime
  std::string driver;
  std::vector<std::string> replaced;  // ucudnn's or cuDNN's files that have been replaced since
  bool opened = false;                // dlopen returned the drop-in (known from the log only)
  bool called = false;                // the drop-in has forwarded a call to the real library

  // Returns whether the process uses cuDNN at all; the drop-in alone is in every process that it is
  // preloaded into.
  bool Any() const;
};

CudnnUse FindCudnnUse(const ProcessView& view);

// Adds the libraries that the process uses as facts.
void AddUse(const ProcessView& view, const CudnnUse& use, Diagnosis& diagnosis);

// Adds what keeps the drop-in from getting the calls. Returns true if nothing does.
bool CheckInterception(const ProcessView& view, const CudnnUse& use,
                       const Installation& installation, Diagnosis& diagnosis);

// Adds a fault if the CUDA runtime of the process is newer than the driver (cuDriverGetVersion; 0:
// unknown), or if cuDNN has no driver to work with.
void CheckCuda(const ProcessView& view, const CudnnUse& use, int cuda_driver, Diagnosis& diagnosis);

}  // namespace ucudnn::command
