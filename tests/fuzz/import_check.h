// What must be true of an importer whatever it is given. Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"

namespace ucudnn::fuzz {

// Networks, and the data that multigrid reads: IDX files of images and of labels, and arrays.
enum class FileFormat { kOnnx, kCaffe, kJson, kImages, kLabels, kSafetensors };

// What importers are told that the file is called.
inline constexpr const char* kFuzzedFile = "fuzzed";

struct ImportCheck {
  bool is_read = false;
  std::string fault;  // empty when all is well
};

// Imports `bytes`: of networks with and without passing unknown operators through. An error must be
// one line that names the file; a graph must have shapes, layers and parameters, or one-line errors
// in the place of the latter two, and come back from JSON. What must be true of data says
// data_check.h.
ImportCheck CheckImport(FileFormat format, const std::string& bytes);

// Empty when the error is one line that names the file; else the fault, which begins with `of`.
std::string CheckLine(const Status& status, const std::string& of,
                      const std::string& file = kFuzzedFile);

}  // namespace ucudnn::fuzz
