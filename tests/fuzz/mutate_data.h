// Makes files of data that are almost right. Pure functions of what they are given.
#pragma once

#include <string>

#include "random.h"

namespace ucudnn::fuzz {

// Returns the IDX file in `bytes` with a number of its header at an edge, or changed anywhere. Now
// and then the file is compressed, and perhaps changed once more.
std::string MutateIdx(std::string bytes, Random& random);

// Returns the safetensors file in `bytes`, changed anywhere, or with a number or another part of
// its header changed in a file that is otherwise right.
std::string MutateSafetensors(std::string bytes, Random& random);

}  // namespace ucudnn::fuzz
