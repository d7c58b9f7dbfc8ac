// The fields that a Caffe network may have: the fields of BVLC Caffe's caffe.proto, and fields of
// known forks. CheckCaffeMessage() keeps no state, but replaces enumeration numbers in the message.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// Checks `message`, whose type caffe.proto calls `type`. The layers of a network are not checked.
// Refuses the first field that the type does not have, that has another kind of value, that occurs
// twice though it is not repeated, or that holds weights. The error gives the line, the field and
// the expected value. Replaces numbers of enumerations by the enumeration's words.
Status CheckCaffeMessage(const std::string& type, TextField& message);

}  // namespace ucudnn::planner
