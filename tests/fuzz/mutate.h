// Files that are almost right. Pure functions of what they are given.
#pragma once

#include <string>
#include <vector>

#include "random.h"

namespace ucudnn::fuzz {

// `bytes` changed in one to eight places: numbers replaced by ones at the edges, words by others,
// bytes and bits changed, parts removed or repeated, or parts of `other` put in.
std::string Mutate(std::string bytes, const std::string& other, Random& random);

// The ONNX model in `bytes` with up to four changes of meaning: other operators, inputs,
// attributes, and extents at the edges.
std::string MutateOnnx(const std::string& bytes, Random& random);

}  // namespace ucudnn::fuzz
