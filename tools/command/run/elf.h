// What a program or library file says of itself, as far as `ucudnn run` must know it beforehand.
// Read from files nobody vouches for: every offset is checked, a damaged file is an error. Pure but
// for reading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cudnn/dynamic_section.h"

namespace ucudnn::command {

struct ElfFile {
  bool is_elf = false;             // false: a script, or no program at all; nothing below is known
  bool is_x86_64 = false;          // false: nothing below is known
  bool has_interpreter = false;    // the loader starts it; a program without is static
  bool registers_kernels = false;  // it has GPU kernels, and launches them by the shared runtime
  bool has_static_cudart = false;  // the CUDA runtime is linked in
  bool defines_cudnn = false;      // cuDNN is linked in: its functions are this file's own
  bool names_cudnn = false;        // "libcudnn.so" is among its texts, as whoever opens it has it
  bool names_cudnn_path = false;   // so is a path to it: "/libcudnn.so"
  cudnn::DynamicSection dynamic;
};

// An error: the file cannot be read, or is a damaged ELF file.
Result<ElfFile> ReadElf(const std::string& path);

// Names of the functions a library exports that begin with `prefix`, sorted; empty where nothing of
// that can be read.
std::vector<std::string> ExportedFunctions(const std::string& path, std::string_view prefix);

}  // namespace ucudnn::command
