// The layers of a Caffe network that run in one phase, and which blob each reads and writes: what
// a file says before any shape is known. Plain values; pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// What a layer says of one of its parameters: ParamSpec, or V1's lists.
struct CaffeParam {
  std::string name;  // parameters of one name are one blob; empty: it is the layer's own
  bool permissive = false;
  std::optional<double> rate;   // lr_mult
  std::optional<double> decay;  // decay_mult
};

struct CaffeLayer {
  const TextField* text = nullptr;
  std::string name;
  std::string type;  // V1's as in the current syntax
  bool is_known = true;
  bool is_testing = false;  // it computes as in the testing phase
  std::vector<std::string> bottom_names, top_names;
  std::vector<size_t> bottoms, tops;  // in CaffeNet::readers; a blob written in place is a new one
  std::vector<CaffeParam> params;
};

// A parameter that has a name.
struct CaffeTensor {
  int number = 0;
  int uses = 0;
  std::optional<double> rate, decay;  // of the first layer that says one
};

struct CaffeNet {
  std::vector<CaffeLayer> layers;
  // The layers that read a blob, by the blob's number: positions in `layers`.
  std::vector<std::vector<size_t>> readers;
  std::map<std::string, CaffeTensor> tensors;
  // The first thing that is wrong, and the layer with it. The list of layers is whole, without what
  // comes behind that.
  Status fault;
  std::string fault_layer;
};

// The layers of `net`, in its own state or else in the training phase at level 0 without stages.
// The fields of layers are checked (caffe_schema.h) where `is_known` knows their type. `net` gets
// an Input layer for its own inputs, and must live as long as the result.
CaffeNet ReadCaffeNet(TextField& net, const std::function<bool(const std::string&)>& is_known);

}  // namespace ucudnn::planner
