#include "planner/multigrid/host/propagators.h"

#include <algorithm>
#include <limits>
#include <new>

namespace ucudnn::multigrid {

Result<State> HostChain::Create() {
  std::unique_ptr<double[]> made(new (std::nothrow) double[size_]);
  if (!made) {
    return Status::Error("no memory for a state of " + std::to_string(size_ * sizeof(double)) +
                         " bytes, the " + std::to_string(states_.size() + 1) + "th");
  }
  states_.push_back(std::move(made));
  return State{states_.back().get()};
}

Status HostChain::Combine(State to, double b, double a, State x, int) {
  double* const result = Numbers(to);
  const double* const other = Numbers(x);
  if (b == 0 && a == 1) {
    std::copy_n(other, size_, result);
  } else if (b == 0) {
    for (int64_t i = 0; i < size_; ++i) result[i] = a * other[i];
  } else {
    for (int64_t i = 0; i < size_; ++i) result[i] = a * other[i] + b * result[i];
  }
  return Status::Ok();
}

Status HostChain::SquaredDistance(State x, State y, double* result, int) {
  const double* const first = Numbers(x);
  const double* const second = y != nullptr ? Numbers(y) : nullptr;
  double sum = 0;
  for (int64_t i = 0; i < size_; ++i) {
    const double difference = second != nullptr ? first[i] - second[i] : first[i];
    sum += difference * difference;
  }
  *result = sum;
  return Status::Ok();
}

double HostChain::UnitRoundoff() const { return std::numeric_limits<double>::epsilon() / 2; }

Status HostChain::Step(int level, int step, State from, State to, int lane) {
  const Level& shape = hierarchy_.level(level);
  double* const out = Numbers(to);
  std::copy_n(Numbers(from), size_, out);
  if (linearised_ == nullptr) {
    stage_.AddTransformed(LayersOf(coarse_, shape, step, h_), Numbers(from), out, lane);
    return Status::Ok();
  }
  const LayerRange range = AdjointLayersOf(coarse_, shape, step, h_);
  UCUDNN_ASSIGN_OR_RETURN(const State state, linearised_->At(range.begin, lane));
  stage_.AddTransposed(range, Numbers(state), Numbers(from), out, lane);
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
