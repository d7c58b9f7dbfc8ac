// The facts about a program or library file that `ucudnn run` must know beforehand. The files are
// not trusted: every offset is checked, and a damaged file is an error. Pure except for reading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cudnn/dynamic_section.h"

namespace ucudnn::command {

struct ElfFile {
  bool is_elf = false;     // false: a script, or no program at all; all other members are unset
  bool is_x86_64 = false;  // false: all members below are unset
  bool has_interpreter = false;    // the loader starts it; a program without one is static
  bool registers_kernels = false;  // it has GPU kernels, and launches them by the shared runtime
  bool has_static_cudart = false;  // the CUDA runtime is linked in
  bool defines_cudnn = false;      // cuDNN is linked in: its functions are this file's own
  bool names_cudnn = false;  // its texts contain "libcudnn.so", as those of a file that opens it do
  bool names_cudnn_path = false;  // its texts contain a path to cuDNN: "/libcudnn.so"
  cudnn::DynamicSection dynamic;
};

// Fails if the file cannot be read, or is a damaged ELF file.
Result<ElfFile> ReadElf(const std::string& path);

// Names of the exported functions of a library that begin with `prefix`, sorted; empty if they
// cannot be read.
std::vector<std::string> ExportedFunctions(const std::string& path, std::string_view prefix);

}  // namespace ucudnn::command
