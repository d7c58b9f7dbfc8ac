// Reads members and tensors of cuDNN's plan JSON. Every name and value must be known; the error
// says which one is not. Pure functions.
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

// The largest extents that are accepted; convolutions in practice have smaller ones. Within these
// bounds, numbers that are computed from shapes fit into int. For example, the extent of a dilated
// filter is at most 2^14 * 2^14.
constexpr int64_t kMaxExtent = 1 << 28, kMaxFilterExtent = 1 << 14;

Status Unfamiliar(const std::string& what);

// Fails unless `value` is an object whose members are all among `known`.
Status OnlyKnown(const JsonValue& value, const char* what,
                 std::initializer_list<std::string_view> known);

// Return the value of the member `name`; fail if it is missing or of another kind. An integer
// counts as a real.
Result<const JsonValue*> Member(const JsonValue& object, const char* name, JsonValue::Kind kind);
Result<std::vector<int64_t>> Integers(const JsonValue& object, const char* name);
Result<DataType> Type(const JsonValue& object, const char* name);
Result<double> Number(const JsonValue& object, const char* name);

// Fails unless the member `name` has this value, which it has in all known plans.
Status Fixed(const JsonValue& object, const char* name, std::string_view value);
Status Fixed(const JsonValue& object, const char* name, int64_t value);

struct Tensor {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims, strides;  // n, c, then the spatial axes; both have the same size
  bool is_virtual = false;
  int64_t alignment = 1;  // bytes
};

Result<Tensor> ReadTensor(const JsonValue& value);

// Returns the index of the tensor that `node` names as `role`, and sets its bit in `used`.
Result<int> FindTensor(const std::vector<Tensor>& tensors, const JsonValue& node, const char* role,
                       uint64_t& used);

// Returns the layout in which the filter is packed; fails if it is packed in no layout.
Result<Layout> FilterLayout(const Tensor& tensor);

// Returns whether the batch has the largest stride, so that the images follow one another in
// memory.
bool IsBatchLeading(const Tensor& tensor);

// Returns the strides of a tensor of rank 4 or 5 in the form that ConvolutionProblem uses.
Strides Widen(const Tensor& tensor);

// Reads the values of one spatial attribute into `to`. In 2-D the first element of `to` keeps its
// value.
Status ReadSpatial(const JsonValue& node, const char* name, int rank, int64_t least, int64_t most,
                   Spatial& to);

}  // namespace ucudnn::cudnn::plan_json
