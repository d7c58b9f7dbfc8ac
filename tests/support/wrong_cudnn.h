// The stand-in's cuDNN with convolutions that are noted down, of which the pieces of one algorithm
// can be wrong, and forward ones slow or failing. One a process.
#pragma once

#include <chrono>
#include <vector>

#include "cudnn/functions.h"

namespace ucudnn::test {

struct Wrong {
  // Of the algorithm whose pieces (calls of fewer than `whole` images) are wrong; negative: of
  // none.
  int algorithm = -1;
  enum class How { kOffByOneImage, kIgnoresBeta } how = How::kOffByOneImage;
  int whole = 8;
  int failing_forward = -1;  // how many more run before one fails; negative: none does
  std::chrono::milliseconds forward_takes{0};  // at least
};
Wrong& TheWrong();

// A convolution that was called and has not failed. y: what it wrote.
struct Seen {
  int algorithm, images;
  const void* y;
  const void* workspace;
};
std::vector<Seen>& TheCalls();

cudnn::Functions WrongStandIn();

}  // namespace ucudnn::test
