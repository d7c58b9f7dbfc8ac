// The layers of a Caffe network that run in one phase, and which blob each reads and writes: what a
// file says before any shape is known. Plain values; pure functions.
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

// What a layer says about one of its parameters, in ParamSpec or V1's lists.
struct CaffeParam {
  std::string name;  // parameters of one name are one blob; empty: the layer's own
  bool permissive = false;
  std::optional<double> rate;   // lr_mult
  std::optional<double> decay;  // decay_mult
};

struct CaffeLayer {
  const TextField* text = nullptr;
  std::string name;
  std::string type;  // type in the current syntax, for V1 too
  bool is_known = true;
  bool is_testing = false;  // the layer computes as in the testing phase
  std::vector<std::string> bottom_names, top_names;
  // Positions in CaffeNet::readers; a blob written in place is a new blob.
  std::vector<size_t> bottoms, tops;
  std::vector<CaffeParam> params;
};

// A parameter that has a name.
struct CaffeTensor {
  int number = 0;
  int uses = 0;
  std::optional<double> rate, decay;  // from the first layer that gives one
};

struct CaffeNet {
  std::vector<CaffeLayer> layers;
  // Positions in `layers` of the layers that read a blob, by the blob's number.
  std::vector<std::vector<size_t>> readers;
  std::map<std::string, CaffeTensor> tensors;
  // The first fault and its layer. If there is one, the list of layers is whole, but blobs and
  // parameters after the fault are missing.
  Status fault;
  std::string fault_layer;
};

// Reads the layers of `net` in its own state, or in the training phase at level 0 without stages if
// it gives none. The fields of a layer are checked (caffe_schema.h) if `is_known` knows its type.
// `net` gets an Input layer for its own inputs, and must outlive the result.
CaffeNet ReadCaffeNet(TextField& net, const std::function<bool(const std::string&)>& is_known);

}  // namespace ucudnn::planner
