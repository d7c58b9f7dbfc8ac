// Members and tensors of cuDNN's plan JSON. Every name and value must be known: whatever is
// unfamiliar is an error that says what. Pure functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn::cudnn::plan_json {

// Extents beyond these are no convolution that anybody runs; products of them stay inside int.
constexpr int64_t kMaxExtent = 1 << 28, kMaxFilterExtent = 1 << 14;

Status Unfamiliar(const std::string& what);

// Whether `value` is an object whose members are all among `known`.
Status OnlyKnown(const JsonValue& value, const char* what,
                 std::initializer_list<std::string_view> known);

// An integer counts as a real.
Result<const JsonValue*> Member(const JsonValue& object, const char* name, JsonValue::Kind kind);
Result<std::vector<int64_t>> Integers(const JsonValue& object, const char* name);
Result<DataType> Type(const JsonValue& object, const char* name);
Result<double> Number(const JsonValue& object, const char* name);

// A member that every familiar plan has with this value.
Status Fixed(const JsonValue& object, const char* name, std::string_view value);
Status Fixed(const JsonValue& object, const char* name, int64_t value);

struct Tensor {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims, strides;  // n, c, then spatial axes; as many of both
  bool is_virtual = false;
  int64_t alignment = 1;  // bytes
};

Result<Tensor> ReadTensor(const JsonValue& value);

// The layout in which the filter is packed; an error when it is in neither.
Result<Layout> FilterLayout(const Tensor& tensor);

// One image lies behind the other: the batch is the leading extent.
bool IsBatchLeading(const Tensor& tensor);

// Strides of a tensor of rank 4 or 5 as ConvolutionProblem has them.
Strides Widen(const Tensor& tensor);

// Values of one spatial attribute; axes that a 2-D convolution lacks stay as they are.
Status ReadSpatial(const JsonValue& node, const char* name, int rank, int64_t least, int64_t most,
                   Spatial& to);

}  // namespace ucudnn::cudnn::plan_json
