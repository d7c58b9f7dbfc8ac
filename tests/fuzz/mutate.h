// Makes files that are almost right. Pure functions of what they are given.
#pragma once

#include <string>
#include <vector>

#include "random.h"

namespace ucudnn::fuzz {

// Changes `bytes` in one to eight places: replaces numbers by ones at the edges and words by
// others, changes bytes and bits, removes or repeats parts, or inserts parts of `other`.
std::string Mutate(std::string bytes, const std::string& other, Random& random);

// Returns the ONNX model in `bytes` with up to four changes of meaning: other operators, inputs,
// attributes, and extents at the edges.
std::string MutateOnnx(const std::string& bytes, Random& random);

}  // namespace ucudnn::fuzz
