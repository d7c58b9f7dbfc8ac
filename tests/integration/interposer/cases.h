// The convolutions that the differential tests run: every type and layout, 2-D and 3-D, with
// groups, dilation, stride, padding and both modes, at mini-batches that divide unevenly.
#pragma once

#include <string>
#include <vector>

#include "convolution.h"

namespace ucudnn::test {

struct Case {
  ConvolutionProblem problem;  // as ucudnn reads it
  Extra extra = Extra::kNone;
  bool z_is_y = false;
  Scales scales;
};

// Returns every combination for `operation`; forward with `extra`. The mini-batch of each is large
// enough for at least two legal pieces.
std::vector<Case> CasesOf(Operation operation, Extra extra, bool z_is_y);

// Returns convolutions of `operation` whose single images are no multiple of 16 bytes, so that few
// batch boundaries are legal: every type and layout (odd strides among them), 2-D and 3-D, each
// with a mini-batch of three legal pieces and a remainder smaller than one.
std::vector<Case> UnalignedCasesOf(Operation operation);

std::string Describe(const Case& which);

// Returns `problem` as ucudnn reads it from cuDNN's descriptors.
ConvolutionProblem AsRead(const ConvolutionProblem& problem);

}  // namespace ucudnn::test
