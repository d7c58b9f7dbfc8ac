#include "planner/multigrid/device/device_chain.h"

#include <algorithm>
#include <limits>

namespace ucudnn::multigrid {
namespace {

float* Numbers(State state) { return static_cast<float*>(state); }

}  // namespace

Result<std::unique_ptr<DeviceChain>> DeviceChain::Make(const DeviceTarget& target,
                                                       const DeviceWeights& weights,
                                                       const Hierarchy& hierarchy,
                                                       CoarseOperator coarse, double h, int batch,
                                                       int lanes, size_t workspace_limit) {
  if (coarse == CoarseOperator::kMean) {
    return Status::Error(
        "the coarse operator mean runs on the host alone; inject, mid, sum or "
        "sum2 is expected");
  }
  std::unique_ptr<DeviceChain> chain(new DeviceChain(target, weights, hierarchy, coarse, h));
  chain->size_ = weights.shape().StateSize() * batch;
  UCUDNN_ASSIGN_OR_RETURN(
      chain->kernels_, StepKernels::Make(target, weights.shape(), batch, workspace_limit / lanes));
  UCUDNN_RETURN_IF_ERROR(chain->kernels_->Prepare(1, 1, 1));
  for (int lane = 0; lane < lanes; ++lane) {
    // What a step adds, and the input of a sum of steps where it is written over.
    UCUDNN_ASSIGN_OR_RETURN(
        auto made, DeviceLane::Make(target, 2 * chain->size_, chain->kernels_->workspace()));
    chain->lanes_.push_back(std::move(made));
  }
  chain->pending_.resize(lanes);
  for (auto& numbers : chain->downloaded_) numbers.resize(chain->size_);
  return chain;
}

Result<State> DeviceChain::Create() {
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, DeviceNumbers::Make(target_, size_));
  states_.push_back(std::move(made));
  return State{states_.back().data()};
}

Status DeviceChain::AddRange(const LayerRange& range, State from, State to, DeviceLane& lane) {
  StepKernels::Operands operands = {
      .x = Numbers(from), .factor = static_cast<float>(range.factor), .out = Numbers(to)};
  for (int layer = range.begin; layer < range.end; ++layer) {
    operands.weights = weights_.weights(layer);
    operands.bias = weights_.bias(layer);
    UCUDNN_RETURN_IF_ERROR(layer == range.begin && from != to
                               ? kernels_->Step(lane, operands)
                               : kernels_->AddTransformed(lane, operands));
  }
  return Status::Ok();
}

Status DeviceChain::Step(int level, int step, State from, State to, int lane_number) {
  DeviceLane& lane = *lanes_[lane_number];
  const LayerRanges ranges = LayersOf(coarse_, hierarchy_.level(level), step, h_);
  UCUDNN_RETURN_IF_ERROR(AddRange(ranges.parts[0], from, to, lane));
  if (ranges.count == 1) return Status::Ok();
  float* const middle = lane.room() + size_;
  UCUDNN_RETURN_IF_ERROR(lane.Copy(Numbers(to), middle, size_));
  return AddRange(ranges.parts[1], middle, to, lane);
}

Status DeviceChain::Combine(State to, double b, double a, State x, int lane_number) {
  DeviceLane& lane = *lanes_[lane_number];
  if (b == 0 && a == 1) return lane.Copy(Numbers(x), Numbers(to), size_);
  return kernels_->Combine(lane, static_cast<float>(a), {.data = Numbers(x)}, static_cast<float>(b),
                           {.data = Numbers(to)});
}

Status DeviceChain::SquaredDistance(State x, State y, double* result, int lane) {
  pending_[lane].push_back({x, y, result});
  return Status::Ok();
}

Status DeviceChain::Join() {
  if (lanes_.size() == 1) return Status::Ok();
  DeviceLane& first = *lanes_.front();
  for (size_t i = 1; i < lanes_.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(lanes_[i]->Record());
    UCUDNN_RETURN_IF_ERROR(lanes_[i]->LetFollow(first));
  }
  UCUDNN_RETURN_IF_ERROR(first.Record());
  for (size_t i = 1; i < lanes_.size(); ++i) UCUDNN_RETURN_IF_ERROR(first.LetFollow(*lanes_[i]));
  return Status::Ok();
}

// Sums in double precision on the host: a residual is a small difference of large numbers.
Status DeviceChain::Wait() {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    DeviceLane& lane = *lanes_[i];
    UCUDNN_RETURN_IF_ERROR(lane.Wait());
    for (const Pending& pending : pending_[i]) {
      std::vector<float>& x = downloaded_[0];
      std::vector<float>& y = downloaded_[1];
      UCUDNN_RETURN_IF_ERROR(lane.Download(Numbers(pending.x), x.data(), size_));
      if (pending.y != nullptr) {
        UCUDNN_RETURN_IF_ERROR(lane.Download(Numbers(pending.y), y.data(), size_));
      } else {
        std::fill(y.begin(), y.end(), 0.0F);
      }
      double sum = 0;
      for (int64_t k = 0; k < size_; ++k) {
        const double difference = double{x[k]} - double{y[k]};
        sum += difference * difference;
      }
      *pending.result = sum;
    }
    pending_[i].clear();
  }
  return Status::Ok();
}

double DeviceChain::UnitRoundoff() const { return std::numeric_limits<float>::epsilon() / 2; }

Status DeviceChain::Upload(const std::vector<double>& numbers, State to) {
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return lanes_.front()->Upload(narrow.data(), Numbers(to), size_);
}

Status DeviceChain::Download(State from, std::vector<double>& numbers) {
  std::vector<float> narrow(size_);
  UCUDNN_RETURN_IF_ERROR(lanes_.front()->Download(Numbers(from), narrow.data(), size_));
  numbers.assign(narrow.begin(), narrow.end());
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
