// The stand-in's cuDNN with convolutions that are recorded. The pieces of one algorithm can be
// wrong, and forward calls slow or failing. One a process.
#pragma once

#include <chrono>
#include <vector>

#include "cudnn/functions.h"

namespace ucudnn::test {

struct Wrong {
  // The algorithm whose pieces (calls of fewer than `whole` images) are wrong; negative: none.
  int algorithm = -1;
  enum class How { kOffByOneImage, kIgnoresBeta } how = How::kOffByOneImage;
  int whole = 8;
  int failing_forward = -1;  // calls that still run before one fails; negative: none fails
  std::chrono::milliseconds forward_takes{0};  // at least
};
Wrong& TheWrong();

// A convolution call that has not failed. `y` is its output.
struct Seen {
  int algorithm, images;
  const void* y;
  const void* workspace;
};
std::vector<Seen>& TheCalls();

cudnn::Functions WrongStandIn();

}  // namespace ucudnn::test
