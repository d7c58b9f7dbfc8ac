// Checks what must be true of a reader of data whatever it is given. Thread-compatible.
#pragma once

#include <string>

#include "import_check.h"

namespace ucudnn::fuzz {

// Reads `bytes` as images, labels or arrays. An error must be one line that names the file. Images
// must have as many bytes as they say, and be equal when they are compressed; labels must be
// digits. Arrays must have unique names and as many values as their shapes say, come back from
// another file to the bit, and be weights of a chain or be refused in a line. REQUIRES: `format` is
// kImages, kLabels or kSafetensors.
ImportCheck CheckData(FileFormat format, const std::string& bytes);

}  // namespace ucudnn::fuzz
