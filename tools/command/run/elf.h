// Reads facts about the file of a program or library, before `ucudnn run` starts the program. The
// files are not trusted: every offset is checked, and a damaged file is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cudnn/dynamic_section.h"

namespace ucudnn::command {

struct ElfFile {
  bool is_elf = false;     // false for a script or another file; all other members are then unset
  bool is_x86_64 = false;  // if false, all members below are unset
  // Whether the loader starts the program. A program without an interpreter is static.
  bool has_interpreter = false;
  bool registers_kernels = false;  // whether it has GPU kernels that the shared runtime launches
  bool has_static_cudart = false;  // whether the CUDA runtime is linked in statically
  bool defines_cudnn = false;      // whether it defines cuDNN's functions, as with a static cuDNN
  // Whether its read-only data contain "libcudnn.so". The file may then open cuDNN at run time.
  bool names_cudnn = false;
  bool names_cudnn_path = false;  // whether its read-only data contain "/libcudnn.so"
  cudnn::DynamicSection dynamic;
};

// Fails if the file cannot be read, or is a damaged ELF file.
Result<ElfFile> ReadElf(const std::string& path);

// Returns the names of a library's exported functions that begin with `prefix`, sorted. Returns
// nothing if the file cannot be read.
std::vector<std::string> ExportedFunctions(const std::string& path, std::string_view prefix);

}  // namespace ucudnn::command
