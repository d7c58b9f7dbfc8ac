// The layer columns: a convolution problem as named text fields, the form that layer and
// measurement CSV files, the store and JSON files share. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn {

// Finds a field of a row by column name; null if the column is absent or the field is empty.
using FieldLookup = std::function<const std::string*(const std::string& column)>;

// Columns that a layer must have besides `name` and `n`: c,h,w,k,r,s. k is the number of output
// channels, r x s is the filter.
const std::vector<std::string>& RequiredLayerColumns();

// Returns all columns that describe a layer, in file order, without `name` and `n`.
// d,t,pad_d,stride_d,dilation_d exist in 3-D only: a row with a `d` is three-dimensional.
const std::vector<std::string>& LayerColumns();

// Columns beyond the layer's shape: math,compute,mode,x_strides,y_strides,align. Absent columns
// mean default math, the type's usual compute type (fp64 for fp64, otherwise fp32),
// cross-correlation, packed strides in `layout`, and no demand on alignment.
const std::vector<std::string>& NumericColumns();

// Columns of the padding at the end of each axis: pad_d_post,pad_h_post,pad_w_post. An absent
// column means the same padding as at the beginning of the axis.
const std::vector<std::string>& PostPadColumns();

// Returns all columns with their values, in this order: `n`, the layer columns, the numeric
// columns, PostPadColumns. A value is empty in three cases: it is the default of a numeric column
// or of PostPadColumns; the column is for 3-D and the problem is 2-D; or the column is `n` and the
// problem is a kernel family (n = 0).
std::vector<std::pair<std::string, std::string>> ToColumns(const ConvolutionProblem& problem);

// Reads a problem. Without `op` it is forward; without `n` it is a kernel family (n = 0). Refuses a
// problem whose output is empty, whose extents need more than 31 bits, or whose tensors have 2^63
// bytes or more. The error names the column or the tensors, and what was expected.
// FromColumns(ToColumns(p)) == p for every problem p that FromColumns accepts, except for the depth
// stride of a 2-D tensor. The text does not carry this stride, so it becomes height stride times
// height, as in packed tensors.
Result<ConvolutionProblem> FromColumns(const FieldLookup& field);

Result<Operation> ParseOperation(std::string_view text);

// Parses one or more operations, each once: "forward,backward_data".
Result<std::vector<Operation>> ParseOperations(std::string_view text);

// Returns the whole number in `column`, which must be from `least` to `most`. If the column is
// empty, returns `absent`, or fails if `absent` has no value.
Result<int64_t> ReadWholeNumber(const FieldLookup& field, const std::string& column,
                                std::optional<int64_t> absent, int64_t least,
                                int64_t most = std::numeric_limits<int32_t>::max());

}  // namespace ucudnn
