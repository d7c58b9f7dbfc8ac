// The attributes of an ONNX node, by name. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx.pb.h"

namespace ucudnn::planner {

class OnnxAttributes {
 public:
  explicit OnnxAttributes(const onnx::NodeProto& node) : node_(node) {}

  const onnx::AttributeProto* Find(const std::string& name) const;
  int64_t Number(const std::string& name, int64_t standard) const;
  double Real(const std::string& name, double standard) const;
  std::string Text(const std::string& name) const;              // empty if absent
  std::vector<int64_t> Numbers(const std::string& name) const;  // empty if absent

 private:
  const onnx::NodeProto& node_;
};

}  // namespace ucudnn::planner
