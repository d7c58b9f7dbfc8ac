#include "planner/multigrid/parameters.h"

namespace ucudnn::multigrid {

Parameters ZerosLike(const Parameters& parameters) {
  Parameters zeros(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    zeros[i].weights.assign(parameters[i].weights.size(), 0.0);
    zeros[i].bias.assign(parameters[i].bias.size(), 0.0);
  }
  return zeros;
}

}  // namespace ucudnn::multigrid
