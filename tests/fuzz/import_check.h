// Checks that an importer meets its requirements, whatever file it is given. Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::fuzz {

// The first three are formats of networks. The others are formats of data that multigrid reads: IDX
// files of images, IDX files of labels, and arrays.
enum class FileFormat { kOnnx, kCaffe, kJson, kImages, kLabels, kSafetensors };

// Importers are told that the file has this name.
inline constexpr const char* kFuzzedFile = "fuzzed";

struct ImportCheck {
  bool is_read = false;
  std::string fault;  // empty when all is well
};

// Imports `bytes`. Networks are imported twice: once unknown operators may pass through, once they
// may not. An error must be one line that names the file. A graph must have shapes. Finding its
// layers and counting its parameters must succeed, or be refused in one line. The graph must be
// equal after it is written as JSON and read again. CheckData says what is checked for data.
ImportCheck CheckImport(FileFormat format, const std::string& bytes);

// Returns an empty text if the error is one line that names the file, otherwise a text that begins
// with `of` and describes the fault.
std::string CheckLine(const Status& status, const std::string& of,
                      const std::string& file = kFuzzedFile);

}  // namespace ucudnn::fuzz
