// Checks what must be true of an importer whatever it is given. Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::fuzz {

// Formats of networks, and of the data that multigrid reads: IDX files of images and of labels,
// arrays.
enum class FileFormat { kOnnx, kCaffe, kJson, kImages, kLabels, kSafetensors };

// The file's name that importers are told.
inline constexpr const char* kFuzzedFile = "fuzzed";

struct ImportCheck {
  bool is_read = false;
  std::string fault;  // empty when all is well
};

// Imports `bytes`, networks both with and without passing unknown operators through. An error must
// be one line that names the file. A graph must have shapes, layers and parameters, or one-line
// errors in place of the latter two, and come back from JSON. data_check.h says what must be true
// of data.
ImportCheck CheckImport(FileFormat format, const std::string& bytes);

// Returns nothing if the error is one line that names the file, else the fault, which begins with
// `of`.
std::string CheckLine(const Status& status, const std::string& of,
                      const std::string& file = kFuzzedFile);

}  // namespace ucudnn::fuzz
