// JSON as text, assembled by hand: destructors of nlohmann's arrays and objects allocate, and would
// end the application's process when memory is out. Single values do not. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_scalar.h"
#include "convolution/problem.h"

namespace ucudnn::interposer::json {

// Names, and values that are JSON text already.
using Fields = std::vector<std::pair<std::string, std::string>>;

template <typename Value>
std::string Scalar(const Value& value) {
  return JsonScalar(value);
}

// At nesting depth `depth`, a member in each line.
std::string Object(const Fields& fields, int depth);
std::string Array(const std::vector<std::string>& values, int depth);
// In one line.
std::string Line(const std::vector<std::string>& values);

// The layer and numeric columns, with numbers where they are some.
std::string Problem(const ConvolutionProblem& problem, int depth);

}  // namespace ucudnn::interposer::json
