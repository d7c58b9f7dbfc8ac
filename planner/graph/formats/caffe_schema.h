// Which fields a Caffe network may have: those of BVLC Caffe's caffe.proto, and those of known
// forks that change what a layer computes. Pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// Refuses the first field of `message`, of the type that caffe.proto calls `type`, that the type
// does not have, that is not its kind of value, that occurs twice though it is not repeated, or
// that changes what the layer computes in a way that no graph holds. The error says the line, the
// field and what is expected. Numbers of enumerations are replaced by their words. The layers of
// a network are not looked into.
Status CheckCaffeMessage(const std::string& type, TextField& message);

}  // namespace ucudnn::planner
