// Engines that the library offers for the operation graph of a part of an execution plan's
// convolution. Some of them cannot run the whole convolution. Thread-safe as far as cuDNN is.
#pragma once

#include <cstddef>
#include <vector>

#include "cudnn/graph_engines.h"

namespace ucudnn::cudnn {

// Returns at most `most` engines, the best first. The heuristics choose them for the graph of
// `part`, which is a part of `own`'s convolution. Each engine rounds no worse than `own`
// (RoundsNoWorse) and does not compute in TF32 instead of fp32; it need not propagate NaNs. Each
// template describes the whole convolution with such an engine, so that GraphEngines can build it
// for any part; the library may refuse the engine for the whole convolution. If `own` is compiled
// (FusedConvolution::compiled), returns only compiled engines, otherwise only others.
std::vector<GraphTemplate> EnginesOfPart(const Functions& functions, const PlanDevice& device,
                                         const GraphTemplate& own, const ConvolutionProblem& part,
                                         size_t most);

}  // namespace ucudnn::cudnn
