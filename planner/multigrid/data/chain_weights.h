// The weights of a chain of residual steps u + h * act(K * u + b) that another program computed,
// and the chain's first state. FORMAT.md describes the file. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/data/safetensors.h"

namespace ucudnn::multigrid {

struct ChainWeights {
  int64_t layers = 0;             // N, at least 1
  int64_t channels = 0;           // C
  int64_t kernel = 0;             // k, odd: a padding of k / 2 keeps the size of states
  int64_t rows = 0, columns = 0;  // H, W
  std::vector<double>
      kernels;  // K [N, C, C, k, k]: layer, output channel, input channel, row, column
  std::vector<double> biases;  // b [N, C]
  std::vector<double> state;   // u0 [C, H, W]: the input of the first step
};

// Takes the arrays `K`, `b` and `u0`, and ignores other arrays. Fails if one of the three is
// missing, if a shape is wrong or if a value is not finite. The error is one line that begins with
// `file` and names the array and the expected shape or the indices of the value.
Result<ChainWeights> TakeChainWeights(std::vector<NamedArray> arrays, const std::string& file);

// Reads the weights of a chain from a file (ReadSafetensors).
Result<ChainWeights> LoadChainWeights(const std::string& path);

}  // namespace ucudnn::multigrid
