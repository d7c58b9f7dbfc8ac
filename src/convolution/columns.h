// The layer columns: a convolution problem as named text fields, the one form shared by layer and
// measurement CSV files, the store and the JSON report. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"

namespace ucudnn {

// A field of a row by column name; null when the column is absent or the field empty.
using FieldLookup = std::function<const std::string*(const std::string& column)>;

// Names of all columns that describe a layer, in file order, without `name` and `n`.
// n,c,h,w,k,r,s,pad_h,...: k output channels, r x s the filter; d,t,pad_d,stride_d,dilation_d are
// 3-D.
const std::vector<std::string>& LayerColumns();

// Columns beyond the layer's shape: math, compute, mode, x_strides, y_strides, align. Absent ones
// mean default math, the type's usual compute type, cross-correlation, packed strides, no alignment
// demand.
const std::vector<std::string>& NumericColumns();

// The value of each layer and numeric column; empty text where the default applies and where a 3-D
// column does not exist.
std::vector<std::pair<std::string, std::string>> ToColumns(const ConvolutionProblem& problem);

// Reads a problem (operation and n included when their columns `op` and `n` exist). An error names
// the column, the value and what was expected. Refuses shapes whose output would be empty.
Result<ConvolutionProblem> FromColumns(const FieldLookup& field);

Result<Operation> ParseOperation(const std::string& text);

}  // namespace ucudnn
