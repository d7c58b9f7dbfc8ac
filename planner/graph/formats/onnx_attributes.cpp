#include "planner/graph/formats/onnx_attributes.h"

#include <cmath>

namespace ucudnn::planner {

const onnx::AttributeProto* OnnxAttributes::Find(const std::string& name) const {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t OnnxAttributes::Number(const std::string& name, int64_t standard) const {
  const onnx::AttributeProto* attribute = Find(name);
  return attribute == nullptr ? standard : attribute->i();
}

double OnnxAttributes::Real(const std::string& name, double standard) const {
  const onnx::AttributeProto* attribute = Find(name);
  return attribute == nullptr || !std::isfinite(attribute->f()) ? standard : attribute->f();
}

std::string OnnxAttributes::Text(const std::string& name) const {
  const onnx::AttributeProto* attribute = Find(name);
  return attribute == nullptr ? std::string() : attribute->s();
}

std::vector<int64_t> OnnxAttributes::Numbers(const std::string& name) const {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

}  // namespace ucudnn::planner
