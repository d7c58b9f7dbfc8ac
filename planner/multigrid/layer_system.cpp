#include "planner/multigrid/layer_system.h"

#include <cmath>

namespace ucudnn::multigrid {
namespace {

double RootOfSum(std::span<const double> parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return std::sqrt(sum);
}

}  // namespace

Result<double> LayerSystem::Norm(NormParts parts) {
  UCUDNN_ASSIGN_OR_RETURN(const auto squares, Parts(parts));
  return RootOfSum(squares);
}

Result<LayerSystem::StateNorms> LayerSystem::Norms() {
  UCUDNN_ASSIGN_OR_RETURN(const auto squares, Parts(NormParts::kStates));
  StateNorms norms;
  norms.first = std::sqrt(squares.front());
  norms.all = RootOfSum(squares);
  double largest = 0;
  for (const double square : squares) {
    // Unlike std::max, this comparison keeps a NaN.
    if (!(square <= largest)) largest = square;
    if (std::isnan(largest)) break;
  }
  norms.largest = std::sqrt(largest);
  return norms;
}

}  // namespace ucudnn::multigrid
