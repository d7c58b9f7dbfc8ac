// The helpers that the rules of FoldConstants() share. Only onnx_folding*.cpp may include this
// file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"
#include "planner/graph/formats/onnx_extents.h"

namespace ucudnn::planner {

using Sizes = std::vector<int64_t>;

// One node and the constants that it reads, by input.
struct Folding {
  const onnx::NodeProto& node;
  const std::vector<const OnnxConstant*>& inputs;
  int64_t opset;
  OnnxAttributes attributes;

  bool Has(size_t input) const { return input < inputs.size() && inputs[input] != nullptr; }
  const OnnxConstant& In(size_t input) const { return *inputs[input]; }
  const Sizes& Dims() const { return In(0).dims; }
  std::optional<Sizes> List(size_t input, const char* attribute) const {
    return ListOf(node, inputs, input, attribute);
  }
};
using Folded = std::vector<OnnxConstant>;
using Rule = Folded (*)(const Folding&);

inline Folded One(OnnxConstant constant) { return {std::move(constant)}; }

inline Folded NotKnown() { return One(UnknownConstant()); }

inline int64_t Product(const Sizes& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

// Calls visit(position) for all positions of `dims` in row-major order. REQUIRES: there are at most
// kMostConstantValues positions.
template <typename Visit>
void ForEach(const Sizes& dims, Visit visit) {
  Sizes at(dims.size(), 0);
  for (int64_t left = Product(dims); left > 0; --left) {
    visit(at);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}

// Returns a constant of extents `dims`. Its element at each position is the element of `from` at
// place(position).
template <typename Place>
OnnxConstant Picked(const OnnxConstant& from, const Sizes& dims, Place place) {
  OnnxConstant picked = from;
  picked.dims = dims;
  picked.values.reset();
  picked.steps.reset();
  picked.tensor = -1;
  picked = Bounded(picked);
  if (!picked.is_known) return picked;
  picked.numbers = std::min(from.numbers, picked.Elements());  // copies of an element count once
  picked.repeated = from.repeated || (from.Elements() == 1 && from.values && picked.Elements() > 1);
  if (!from.values || picked.Elements() > kMostConstantValues) return picked;
  picked.values.emplace();
  const Sizes strides = StridesOf(from.dims);
  ForEach(dims, [&](const Sizes& at) {
    const Sizes source = place(at);
    int64_t position = 0;
    for (size_t axis = 0; axis < source.size(); ++axis) position += source[axis] * strides[axis];
    picked.values->push_back((*from.values)[static_cast<size_t>(position)]);
  });
  return picked;
}

// Repeats the constant along axes of extent 1 and along new leading axes, up to the extents `dims`.
// REQUIRES: ONNX can broadcast it to `dims`.
inline OnnxConstant Repeated(const OnnxConstant& constant, const Sizes& dims) {
  const size_t more = dims.size() - constant.dims.size();
  return Picked(constant, dims, [&](const Sizes& at) {
    Sizes source(constant.dims.size());
    for (size_t axis = 0; axis < source.size(); ++axis) {
      source[axis] = constant.dims[axis] == 1 ? 0 : at[axis + more];
    }
    return source;
  });
}

// Returns a constant whose elements are computed from the inputs. Its `numbers` counts all its
// elements, even if some are equal because elements of the inputs are copies.
inline OnnxConstant Computed(const Folding& folding, const Sizes& dims) {
  OnnxConstant made;
  made.dims = dims;
  made.type = 0;
  bool repeated = true;
  for (const OnnxConstant* input : folding.inputs) {
    if (input == nullptr) continue;
    if (input->IsReal() || made.type == 0) made.type = input->type;
    repeated = repeated && (input->repeated || input->Elements() == 1);
  }
  made = Bounded(made);
  made.repeated = repeated && made.is_known && made.Elements() != 1;
  made.numbers = std::max<int64_t>(0, made.Elements());
  return made;
}

// Returns the first input with the extents `dims` and the same elements in row-major order. The
// result is unknown if `dims` is none.
inline Folded Seen(const Folding& folding, const std::optional<Sizes>& dims) {
  if (!dims) return NotKnown();
  OnnxConstant seen = folding.In(0);
  seen.dims = *dims;
  if (seen.dims != folding.Dims()) seen.steps.reset();
  return One(Bounded(seen));
}

// The rules of operators that move, select, repeat and join elements, and of padding and resizing;
// defined in onnx_folding_axes.cpp.
const std::map<std::string, Rule>& AxisRules();

}  // namespace ucudnn::planner
