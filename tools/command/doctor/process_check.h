// How a process uses cuDNN and whether the drop-in gets its calls: the causes `ucudnn doctor`
// knows, from what was seen of the process. Reads the files it mapped. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "command/doctor/diagnosis.h"
#include "command/doctor/process_view.h"
#include "command/installation.h"

namespace ucudnn::command {

// Who asked for cuDNN, and how.
struct CudnnUser {
  std::string path;
  bool linked = false;  // it needs the library; else it has the name among its texts
  std::string library;  // the name it needs, with its version
  std::string rpath;
  std::string runpath;
};

// A cuDNN that was opened beside the drop-in.
struct SecondCudnn {
  std::string path;
  std::string opened_by;
  bool called;  // by others than the drop-in
};

// What the files a process mapped say together. Paths are as the process names them.
struct CudnnUse {
  std::string drop_in;             // of any installation of ucudnn; empty: none
  std::string dlsym_hook;          // the same of the hook that redirects look-ups
  std::vector<std::string> real;   // libcudnn.so.9 that is no drop-in
  std::vector<std::string> other;  // libcudnn.so of another version
  std::vector<SecondCudnn> second;
  std::vector<std::string> served;  // files whose functions of cuDNN are the drop-in's
  std::vector<CudnnUser> users;
  std::string linked_in;  // the file that has cuDNN's functions itself, where there is no libcudnn
  std::vector<std::string> cuda_runtime;  // files, or those that have it statically
  std::string driver;
  std::vector<std::string> replaced;  // ours or cuDNN's, whose file is another one by now
  bool opened = false;                // dlopen gave it the drop-in (known from the log only)
  bool called = false;                // the drop-in has forwarded a call to the real library

  // Whether the process has anything to do with cuDNN; the drop-in alone is in every process it is
  // preloaded into.
  bool Any() const;
};

CudnnUse FindCudnnUse(const ProcessView& view);

// Adds what the process uses as facts.
void AddUse(const ProcessView& view, const CudnnUse& use, Diagnosis& diagnosis);

// Adds what keeps the drop-in from getting the calls. True when nothing does.
bool CheckInterception(const ProcessView& view, const CudnnUse& use,
                       const Installation& installation, Diagnosis& diagnosis);

// Adds a fault when the CUDA runtime of the process is newer than the driver (cuDriverGetVersion;
// 0: unknown), or cuDNN has no driver to work with.
void CheckCuda(const ProcessView& view, const CudnnUse& use, int cuda_driver, Diagnosis& diagnosis);

}  // namespace ucudnn::command
