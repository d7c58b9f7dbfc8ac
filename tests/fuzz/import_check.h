// Checks what an importer must fulfil, whatever file it is given. Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::fuzz {

// The first three are formats of networks, the others of the data that multigrid reads: IDX files
// of images and of labels, and arrays.
enum class FileFormat { kOnnx, kCaffe, kJson, kImages, kLabels, kSafetensors };

// Importers are told that the file has this name.
inline constexpr const char* kFuzzedFile = "fuzzed";

struct ImportCheck {
  bool is_read = false;
  std::string fault;  // empty when all is well
};

// Imports `bytes`, networks both with and without passing unknown operators through. An error must
// be one line that names the file. A graph must have shapes, and layers and parameters or one-line
// errors instead, and must stay equal when it is written as JSON and read again. data_check.h says
// what data must fulfil.
ImportCheck CheckImport(FileFormat format, const std::string& bytes);

// Returns an empty text if the error is one line that names the file, else the fault, which begins
// with `of`.
std::string CheckLine(const Status& status, const std::string& of,
                      const std::string& file = kFuzzedFile);

}  // namespace ucudnn::fuzz
