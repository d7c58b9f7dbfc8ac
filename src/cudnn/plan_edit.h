// The same execution plan for another mini-batch, other scales or another engine: cuDNN's plan JSON
// with single values replaced. What comes out is read back and must say exactly what was wanted;
// the rest of the text stays byte for byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cudnn/graph_plan.h"

namespace ucudnn::cudnn {

struct PlanEdit {
  int n = 1;  // images
  double alpha = 1, beta = 0;
};

// `json`, which says `plan`, with the batch and scales of `edit`.
Result<std::string> EditPlan(std::string_view json, const GraphPlan& plan, const PlanEdit& edit);

// `json` with the engine that "graph:38[k2=1]" names, all else as it is; knobs that the name does
// not have are left at their default.
Result<std::string> WithEngine(std::string_view json, const GraphPlan& plan,
                               std::string_view engine);

}  // namespace ucudnn::cudnn
