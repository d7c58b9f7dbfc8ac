// Makes files that are almost valid. The results depend only on the arguments.
#pragma once

#include <string>
#include <vector>

#include "random.h"

namespace ucudnn::fuzz {

// Tries one to eight changes of `bytes`: replaces numbers by extreme ones and words by other words,
// changes bytes and bits, removes or repeats parts, cuts the end off, or inserts parts of `other`.
// Keeps at most 200,000 bytes.
std::string Mutate(std::string bytes, const std::string& other, Random& random);

// Returns the ONNX model in `bytes` with up to four changes of its meaning: other operators, inputs
// or attributes, and extreme extents and shape constants. Returns `bytes` unchanged if they are not
// a model.
std::string MutateOnnx(const std::string& bytes, Random& random);

}  // namespace ucudnn::fuzz
