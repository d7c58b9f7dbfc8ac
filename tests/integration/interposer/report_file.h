// Reads the report of this process, and finds kernels in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convolution/problem.h"

namespace ucudnn::test {

nlohmann::json ReadReport();  // null if there is no report
nlohmann::json ReadReport(const std::string& path);

// Returns the report's kernels for `problem`, in the order in which their plans were made.
std::vector<nlohmann::json> KernelsOf(const nlohmann::json& report,
                                      const ConvolutionProblem& problem);

int Pieces(const nlohmann::json& kernel);
int Images(const nlohmann::json& kernel);
// Returns all engines of the kernel's plan.
std::vector<std::string> Engines(const nlohmann::json& kernel);

}  // namespace ucudnn::test
