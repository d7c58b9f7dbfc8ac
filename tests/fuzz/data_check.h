// Checks that a reader of data meets its requirements, whatever file it is given.
// Thread-compatible.
#pragma once

#include <string>

#include "import_check.h"

namespace ucudnn::fuzz {

// Reads `bytes` as images, labels or arrays. An error must be one line that names the file. Images
// must have as many bytes as their header says, and a compressed copy must give the same images.
// Labels must be digits. Arrays must have unique names and as many values as their shapes say. They
// must be equal to the bit after they are written and read again. Taking them as the weights of a
// chain must succeed or fail with one line. REQUIRES: `format` is kImages, kLabels or kSafetensors.
ImportCheck CheckData(FileFormat format, const std::string& bytes);

}  // namespace ucudnn::fuzz
