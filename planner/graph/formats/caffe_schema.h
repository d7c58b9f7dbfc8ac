// Which fields a Caffe network may have: the fields of BVLC Caffe's caffe.proto, and fields of
// known forks that change what a layer computes. Pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// Checks `message`, whose type caffe.proto calls `type`. Refuses its first field that the type does
// not have, that has another kind of value, that occurs twice though it is not repeated, or that
// changes what the layer computes in a way that no graph holds. The error says the line, the field
// and what is expected. Numbers of enumerations are replaced by their words. The layers of a
// network are not checked.
Status CheckCaffeMessage(const std::string& type, TextField& message);

}  // namespace ucudnn::planner
