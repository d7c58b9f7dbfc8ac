// Files of data that are almost right. Pure functions of what they are given.
#pragma once

#include <string>

#include "random.h"

namespace ucudnn::fuzz {

// The IDX file in `bytes` with a number of its header at an edge, or changed anywhere; now and then
// compressed, and changed once more.
std::string MutateIdx(std::string bytes, Random& random);

// The .npz file in `bytes`, as NumPy wrote it: changed anywhere, with a number of zip's records at
// an edge, or with one array changed in a file that is otherwise right, checksums included.
std::string MutateNpz(std::string bytes, Random& random);

}  // namespace ucudnn::fuzz
