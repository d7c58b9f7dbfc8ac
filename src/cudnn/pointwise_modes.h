// The pointwise operations that may stand behind a convolution which is divided: each element of
// the output depends on the operands' elements at its own place alone. Pure functions.
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

// Returns null if the operation is none of these.
const PointwiseMode* FindPointwiseMode(std::string_view name);

// The tensors that an operation reads and writes, as plan JSON calls them.
struct PointwiseRoles {
  const char* first;
  const char* second;  // null if the mode reads one tensor
  const char* output;
};
PointwiseRoles RolesOf(Arity arity);

// A number that an operation may have beside its operands.
struct PointwiseNumber {
  const char* name;  // in cuDNN's plan JSON
  double usual;      // the value if a program sets none
};
std::span<const PointwiseNumber> PointwiseNumbers();

// The attribute that sets `number` of an operation; none if the mode lacks it.
struct PointwiseAttribute {
  cudnnPointwiseMode_t forward, backward;
  const char* number;
  cudnnBackendAttributeName_t name;
};
std::span<const PointwiseAttribute> PointwiseAttributes();

}  // namespace ucudnn::cudnn
