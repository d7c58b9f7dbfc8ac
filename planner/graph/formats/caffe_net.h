// The layers of a Caffe network that run in one state (phase, level and stages), and the blobs that
// each layer reads and writes: the content of the file before any shape is known. Plain values.
// ReadCaffeNet() keeps no state, but changes its argument.
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

// The settings of one of a layer's parameters, from ParamSpec or from V1's lists.
struct CaffeParam {
  // Parameters of one name are one blob; an empty name means the layer's own parameter.
  std::string name;
  bool permissive = false;
  std::optional<double> rate;   // lr_mult
  std::optional<double> decay;  // decay_mult
};

struct CaffeLayer {
  const TextField* text = nullptr;
  std::string name;
  std::string type;  // the type's name in the current syntax, even if the file uses V1
  bool is_known = true;
  bool is_testing = false;  // whether the layer computes as in the testing phase
  std::vector<std::string> bottom_names, top_names;
  // Blobs, as positions in CaffeNet::readers. A layer that writes in place makes a new blob.
  std::vector<size_t> bottoms, tops;
  std::vector<CaffeParam> params;
};

// A parameter with a name, which several layers may read.
struct CaffeTensor {
  int number = 0;
  int uses = 0;
  // lr_mult and decay_mult. Layers that give such a factor must give the same one; none if no layer
  // gives it.
  std::optional<double> rate, decay;
};

struct CaffeNet {
  std::vector<CaffeLayer> layers;
  // By blob: positions in `layers` of the layers that read it.
  std::vector<std::vector<size_t>> readers;
  std::map<std::string, CaffeTensor> tensors;
  // The first fault and its layer. After a fault `layers` still lists all layers, but their blobs
  // and `tensors` are incomplete.
  Status fault;
  std::string fault_layer;
};

// Reads the layers of `net` that run in the state that the file gives. If the file gives none, the
// state is the training phase at level 0 without stages. Checks the fields of the layers whose type
// is_known() knows (caffe_schema.h). The network's own inputs are replaced by an Input layer in
// `net`, which must outlive the result.
CaffeNet ReadCaffeNet(TextField& net, const std::function<bool(const std::string&)>& is_known);

}  // namespace ucudnn::planner
