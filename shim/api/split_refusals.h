// Returns hooks that refuse functions while calls are split. Most of these functions combine
// different positions of an image: because each rank holds only its stripe, their results would be
// wrong without an error. They are forwarded if the calling thread's calls are local or declared to
// be replicated. Functions of newer releases, whose parameters are unknown, are always refused.
//
// Calls that treat each position separately, which are all calls of UCUDNN_LOCAL_WHEN_SPLIT and
// softmax over channels, are refused only if calls should be split but cannot be. In that case
// every call of every function here is refused.
#pragma once

#include <span>

#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> SplitRefusals();

}  // namespace ucudnn
