// Whether the drop-in forwards all that a real cuDNN has. Reads both files; thread-compatible.
#pragma once

#include <string>

#include "command/diagnosis.h"

namespace ucudnn::command {

// Adds a warning, once a library, that names what `real` exports and `drop_in` does not: a
// program linked with such a function does not start with the drop-in in front of it.
void CheckExports(const std::string& drop_in, const std::string& real, Diagnosis& diagnosis);

}  // namespace ucudnn::command
