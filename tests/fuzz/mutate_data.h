// Makes files of data that are almost valid. The results depend only on the arguments.
#pragma once

#include <string>

#include "random.h"

namespace ucudnn::fuzz {

// Returns the IDX file in `bytes` with an extreme number in its header, or changed anywhere. Some
// results are compressed after the change, and some compressed results are changed once more.
std::string MutateIdx(std::string bytes, Random& random);

// Returns the safetensors file in `bytes`, either changed anywhere, or with changes of numbers or
// other parts of its header. Changes of the header mostly leave the values intact.
std::string MutateSafetensors(std::string bytes, Random& random);

}  // namespace ucudnn::fuzz
