#include "planner/multigrid/chain_part.h"

#include <cmath>

namespace ucudnn::multigrid {

namespace {

double RootOfSum(std::span<const double> parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return std::sqrt(sum);
}

LayerSystem::StateNorms StateNormsOf(std::span<const double> squares) {
  LayerSystem::StateNorms norms;
  norms.first = std::sqrt(squares.front());
  norms.all = RootOfSum(squares);
  double largest = 0;
  for (const double square : squares) {
    // Not std::max: a NaN stays.
    if (!(square <= largest)) largest = square;
    if (std::isnan(largest)) break;
  }
  norms.largest = std::sqrt(largest);
  return norms;
}

}  // namespace

Result<double> SummedNorms::ResidualNorm() {
  UCUDNN_ASSIGN_OR_RETURN(const auto parts, Parts(NormParts::kResidual));
  return RootOfSum(parts);
}

Result<double> SummedNorms::ResidualNormByState() {
  UCUDNN_ASSIGN_OR_RETURN(const auto parts, Parts(NormParts::kResidualByState));
  return RootOfSum(parts);
}

Result<double> SummedNorms::FullResidualNorm() {
  UCUDNN_ASSIGN_OR_RETURN(const auto parts, Parts(NormParts::kFullResidual));
  return RootOfSum(parts);
}

Result<LayerSystem::StateNorms> SummedNorms::Norms() {
  UCUDNN_ASSIGN_OR_RETURN(const auto squares, Parts(NormParts::kStates));
  return StateNormsOf(squares);
}

}  // namespace ucudnn::multigrid
