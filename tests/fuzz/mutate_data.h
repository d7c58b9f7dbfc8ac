// Files of data that are almost right. Pure functions of what they are given.
#pragma once

#include <string>

#include "random.h"

namespace ucudnn::fuzz {

// The IDX file in `bytes` with a number of its header at an edge, or changed anywhere; now and then
// compressed, and changed once more.
std::string MutateIdx(std::string bytes, Random& random);

// The file of safetensors in `bytes`: changed anywhere, or with a number of its header, or anything
// of it, changed in a file that is otherwise right.
std::string MutateSafetensors(std::string bytes, Random& random);

}  // namespace ucudnn::fuzz
