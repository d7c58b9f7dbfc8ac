// The stand-in's cuDNN, whose forward and backward filter calls are recorded. The pieces of one
// algorithm can be made wrong, and forward calls slow or failing. All of this state is shared by
// the whole process.
#pragma once

#include <chrono>
#include <vector>

#include "cudnn/functions.h"

namespace ucudnn::test {

struct Wrong {
  // The pieces of this algorithm are wrong. A piece is a call of fewer than `whole` images. If
  // `algorithm` is negative, no pieces are wrong.
  int algorithm = -1;
  enum class How { kOffByOneImage, kIgnoresBeta } how = How::kOffByOneImage;
  int whole = 8;
  // The number of forward calls that still succeed before one fails; if negative, none fails.
  int failing_forward = -1;
  std::chrono::milliseconds forward_takes{0};  // the least time of a forward call
};
Wrong& TheWrong();

// A recorded call; forward calls that `failing_forward` makes fail are not recorded. `y` is the
// output.
struct Seen {
  int algorithm, images;
  const void* y;
  const void* workspace;
};
std::vector<Seen>& TheCalls();

cudnn::Functions WrongStandIn();

}  // namespace ucudnn::test
