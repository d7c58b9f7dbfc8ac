#include "convolution/engine_name.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace ucudnn {
namespace {

// A name's index is the number of the algorithm: the value of its enumerator in cudnn.h.
constexpr const char* kForwardAlgorithms[] = {
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING",
    "WINOGRAD",      "WINOGRAD_NONFUSED"};
constexpr const char* kBackwardDataAlgorithms[] = {"ALGO_0",     "ALGO_1",   "FFT",
                                                   "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};
constexpr const char* kBackwardFilterAlgorithms[] = {
    "ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"};

std::span<const char* const> AlgorithmsOf(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return kForwardAlgorithms;
    case Operation::kBackwardData:
      return kBackwardDataAlgorithms;
    case Operation::kBackwardFilter:
      break;
  }
  return kBackwardFilterAlgorithms;
}

// Returns the algorithm's name in cudnn.h, without the prefix of its enumeration; empty if no
// algorithm has this number.
std::string_view AlgorithmName(Operation operation, int algorithm) {
  const std::span<const char* const> algorithms = AlgorithmsOf(operation);
  return static_cast<size_t>(algorithm) < algorithms.size() ? algorithms[algorithm] : "";
}

}  // namespace

std::string EngineName(Operation operation, const EngineId& engine) {
  const std::string text = engine.Text();
  const EngineId::Legacy* const legacy = engine.legacy();
  const auto name =
      legacy == nullptr ? std::string_view() : AlgorithmName(operation, legacy->algorithm);
  return name.empty() ? text : std::string(name) + " (" + text + ")";
}

NumericClass LegacyNumericClass(Operation operation, int algorithm) {
  const std::string_view name = AlgorithmName(operation, algorithm);
  if (name.starts_with("FFT")) return NumericClass::kFft;
  return name.starts_with("WINOGRAD") ? NumericClass::kWinograd : NumericClass::kDirect;
}

std::string EngineNames(Operation operation, const Configuration& configuration) {
  std::vector<EngineId> engines;
  for (const Run& run : configuration.runs) {
    if (std::find(engines.begin(), engines.end(), run.micro.engine) == engines.end()) {
      engines.push_back(run.micro.engine);
    }
  }
  std::string text;
  for (const EngineId& engine : engines) {
    text += (text.empty() ? "" : ", ") + EngineName(operation, engine);
  }
  return text;
}

}  // namespace ucudnn
