// The pointwise operations that may follow a convolution in a plan that ucudnn divides: each
// element of the output depends only on the operands' elements at the same position. Pure
// functions.
#pragma once

#include <cudnn.h>

#include <span>
#include <string_view>

namespace ucudnn::cudnn {

enum class Arity { kUnary, kBinary, kBackward };

struct PointwiseMode {
  cudnnPointwiseMode_t mode;
  const char* name;  // in cuDNN's plan JSON
  const char* word;  // in an engine's text
  Arity arity;
};

// Returns null if no operation has this name.
const PointwiseMode* FindPointwiseMode(std::string_view name);

// The roles of the tensors that an operation reads and writes, under their names in plan JSON.
struct PointwiseRoles {
  const char* first;
  const char* second;  // null if the mode reads one tensor
  const char* output;
};
PointwiseRoles RolesOf(Arity arity);

// A number that an operation may have besides its operands.
struct PointwiseNumber {
  const char* name;  // in cuDNN's plan JSON
  double usual;      // the value if a program sets none
};
std::span<const PointwiseNumber> PointwiseNumbers();

// The attribute with which a program sets one number of an operation, for the modes `forward` and
// `backward`. `number` is that number's name in plan JSON (PointwiseNumber).
struct PointwiseAttribute {
  cudnnPointwiseMode_t forward, backward;
  const char* number;
  cudnnBackendAttributeName_t name;
};
std::span<const PointwiseAttribute> PointwiseAttributes();

}  // namespace ucudnn::cudnn
