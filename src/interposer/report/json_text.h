// JSON as text, assembled by hand: destructors of nlohmann's arrays and objects allocate, and would
// end the application's process when memory is out. Single values do not. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_scalar.h"
#include "convolution/problem.h"

namespace ucudnn::interposer::json {

// Names, and values that are already JSON text.
using Fields = std::vector<std::pair<std::string, std::string>>;

template <typename Value>
std::string Scalar(const Value& value) {
  return JsonScalar(value);
}

// Formats an object at nesting depth `depth`, with a member in each line.
std::string Object(const Fields& fields, int depth);
std::string Array(const std::vector<std::string>& values, int depth);
// Formats a list in one line.
std::string Line(const std::vector<std::string>& values);

// Formats the layer and numeric columns as an object, with numbers as numbers.
std::string Problem(const ConvolutionProblem& problem, int depth);

}  // namespace ucudnn::interposer::json
