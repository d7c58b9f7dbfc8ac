// Engines that serve parts of an execution plan's convolution, and perhaps not the whole: the
// library offers them for the operation graph of a part. Thread-safe as far as cuDNN is.
#pragma once

#include <cstddef>
#include <vector>

#include "cudnn/graph_engines.h"

namespace ucudnn::cudnn {

// Returns at most `most` of the engines that the heuristics choose for the graph of `part`, a part
// of `own`'s convolution, the best first. Each rounds no worse than `own` (RoundsNoWorse), whether
// or not it propagates NaNs, and does not fall back to TF32. Each template describes the whole
// convolution with such an engine, so that it serves any part of it (GraphEngines); the library may
// refuse to build it for the whole. Engines that are compiled for every plan are left out, unless
// `own` is compiled.
std::vector<GraphTemplate> EnginesOfPart(const Functions& functions, const PlanDevice& device,
                                         const GraphTemplate& own, const ConvolutionProblem& part,
                                         size_t most);

}  // namespace ucudnn::cudnn
