// "Run this convolution with micro-batch b and workspace w": what planning and tuning know of
// cuDNN's engines. Implemented by the legacy algorithms here; an implementation belongs to one
// handle and is used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "planning/promise.h"

namespace ucudnn::cudnn {

struct EngineChoice {
  std::string engine;  // text that says all that selects it
  planning::NumericClass numeric = planning::NumericClass::kDirect;
  bool deterministic = false;
  size_t workspace_bytes = 0;
};

// Device memory of one convolution: image, filter, output (or their gradients), and workspace.
struct Buffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  bool accumulate = false;  // add to the output instead of replacing it
};

// One problem at one batch size, ready to run.
class PreparedProblem {
 public:
  virtual ~PreparedProblem() = default;
  // Every engine that serves the problem, unfiltered.
  virtual Result<std::vector<EngineChoice>> Engines() = 0;
  // Enqueues the convolution with alpha = 1 and beta = 0, or 1 to accumulate. Of `choice` only the
  // engine counts; the workspace is what `buffers` says.
  virtual Status Run(const EngineChoice& choice, const Buffers& buffers) = 0;
};

class Engines {
 public:
  virtual ~Engines() = default;
  virtual Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) = 0;
};

}  // namespace ucudnn::cudnn
