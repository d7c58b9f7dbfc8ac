// The convolutions that differential_test.cpp and alignment_test.cpp run: all types and layouts,
// 2-D and 3-D, with groups, dilation, stride, padding and both modes. Each mini-batch can be cut
// into equal pieces that leave a remainder. A piece is legal if its size is a multiple of
// LegalStep(), or if it is the last piece. Then every piece begins at a legal boundary, which is
// aligned to 16 bytes.
#pragma once

#include <string>
#include <vector>

#include "convolution.h"

namespace ucudnn::test {

struct Case {
  ConvolutionProblem problem;  // as ucudnn reads it from descriptors
  Extra extra = Extra::kNone;
  bool z_is_y = false;
  Scales scales;
};

// Returns all cases of `operation`. In forward cases, the activation `extra` follows the
// convolution. Each mini-batch is large enough for at least two legal pieces. If `z_is_y`, the
// added operand z is the output y.
std::vector<Case> CasesOf(Operation operation, Extra extra, bool z_is_y);

// Returns cases of `operation` whose images are not a multiple of 16 bytes, so that few batch
// boundaries are legal: all types and layouts (also with odd strides), in 2-D and 3-D. Each
// mini-batch consists of three smallest legal pieces and a smaller remainder.
std::vector<Case> UnalignedCasesOf(Operation operation);

std::string Describe(const Case& which);

// Returns `problem` as ucudnn reads it from cuDNN's descriptors.
ConvolutionProblem AsRead(const ConvolutionProblem& problem);

}  // namespace ucudnn::test
