// Makes files of data that are almost valid. The results depend only on the arguments.
#pragma once

#include <string>

#include "random.h"

namespace ucudnn::fuzz {

// Returns the IDX file in `bytes` with an extreme number in its header, or changed anywhere. Some
// files are compressed afterwards, and some of these changed once more.
std::string MutateIdx(std::string bytes, Random& random);

// Returns the safetensors file in `bytes`, changed anywhere, or with numbers or other parts of its
// header changed. In the second case the values mostly stay intact.
std::string MutateSafetensors(std::string bytes, Random& random);

}  // namespace ucudnn::fuzz
