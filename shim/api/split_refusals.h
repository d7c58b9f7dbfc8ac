// Declares hooks that refuse functions while calls are split. Most of these functions combine
// different positions of an image. Each rank holds only its stripe, so their results would be
// silently wrong. A call is forwarded if the calling thread's calls are local or declared
// replicated. Functions of newer releases, whose parameters are unknown, are always refused.
//
// Functions that treat each position separately (all of UCUDNN_LOCAL_WHEN_SPLIT, and softmax over
// channels) are refused only if calls should be split but cannot be. In that case every call of
// every function here is refused.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitRefusals();

}  // namespace ucudnn
