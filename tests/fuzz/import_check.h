// What must be true of an importer whatever it is given. Thread-compatible.
#pragma once

#include <string>

namespace ucudnn::fuzz {

enum class NetworkFormat { kOnnx, kCaffe, kJson };

struct ImportCheck {
  bool is_network = false;
  std::string fault;  // empty when all is well
};

// Imports `bytes` with and without passing unknown operators through. An error must be one line
// that names the file; a graph must have shapes, layers and parameters, or one-line errors in the
// place of the latter two, and come back from JSON.
ImportCheck CheckImport(NetworkFormat format, const std::string& bytes);

}  // namespace ucudnn::fuzz
