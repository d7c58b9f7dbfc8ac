#include "planner/multigrid/device/device_descent.h"

namespace ucudnn::multigrid {
namespace {

Result<Tensor> BlockTensor(const DeviceTarget& target, int64_t count) {
  constexpr int64_t kRow = NumbersLayout::kRow;
  return MakeTensor(target, {{{1, count}, {1, count}, {count / kRow, kRow}, {kRow, 1}}});
}

}  // namespace

Result<std::unique_ptr<DeviceDescent>> DeviceDescent::Make(const DeviceTarget& target,
                                                           DeviceWeights& weights) {
  std::unique_ptr<DeviceDescent> made(new DeviceDescent(target, weights));
  UCUDNN_ASSIGN_OR_RETURN(made->gradient_, DeviceNumbers::Make(target, weights.layout().count()));
  return made;
}

Status DeviceDescent::AddTo(DeviceLane& lane, LayerSpan layers, double factor,
                            Parameters& gradient) const {
  std::vector<double> block(static_cast<size_t>(gradient_->count()));
  UCUDNN_RETURN_IF_ERROR(lane.Download(gradient_->data(), block.data(), gradient_->count()));
  for (const NumbersLayout::Place& place : weights_.layout().places()) {
    if (place.step < layers.begin || place.step >= layers.end) continue;
    std::vector<double>& sum = gradient[place.node].*place.member;
    for (int64_t i = 0; i < place.count; ++i) sum[i] += factor * block[place.begin + i];
  }
  return Status::Ok();
}

Status DeviceDescent::MakeMomentum(DeviceLane& lane) {
  if (velocity_) return Status::Ok();
  const int64_t count = gradient_->count();
  UCUDNN_ASSIGN_OR_RETURN(wide_numbers_, BlockTensor(wide_, count));
  if (is_narrow()) {
    UCUDNN_ASSIGN_OR_RETURN(numbers_, BlockTensor(target_, count));
    UCUDNN_ASSIGN_OR_RETURN(convert_, MakeOpTensor(wide_, CUDNN_OP_TENSOR_ADD));
    UCUDNN_ASSIGN_OR_RETURN(wide_gradient_, DeviceNumbers::Make(wide_, count));
    UCUDNN_ASSIGN_OR_RETURN(master_, DeviceNumbers::Make(wide_, count));
    UCUDNN_RETURN_IF_ERROR(WeightsLoaded(lane));
  }
  // velocity_ is made last. Once it exists, later calls assume that everything else exists, too.
  UCUDNN_ASSIGN_OR_RETURN(velocity_, DeviceNumbers::Make(wide_, count));
  return Status::Ok();
}

Status DeviceDescent::WeightsLoaded(DeviceLane& lane) {
  if (!master_) return Status::Ok();
  return lane.Upload(weights_.HostBlock().data(), master_->data(), master_->count(),
                     kSinglePrecision);
}

Status DeviceDescent::Step(DeviceLane& lane, double factor, const Descent& descent,
                           RankChannel* replicas) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_RETURN_IF_ERROR(MakeMomentum(lane));
  Address gradient = gradient_->data();
  if (is_narrow()) {
    UCUDNN_RETURN_IF_ERROR(Convert(lane, factor, Numbers(gradient), Wide(wide_gradient_->data())));
    gradient = wide_gradient_->data();
    factor = 1;
  }
  if (replicas != nullptr) {
    UCUDNN_RETURN_IF_ERROR(replicas->Sum(gradient, gradient_->count(), lane));
    factor /= replicas->ranks();
  }
  const Address weights = is_narrow() ? master_->data() : weights_.in_order();
  const TensorNumbers velocity = Wide(velocity_->data());
  UCUDNN_RETURN_IF_ERROR(
      lane.Add(factor, Wide(gradient), has_velocity_ ? descent.momentum : 0, velocity));
  has_velocity_ = true;
  UCUDNN_RETURN_IF_ERROR(lane.Add(-descent.rate, velocity, 1, Wide(weights)));
  if (is_narrow()) {
    UCUDNN_RETURN_IF_ERROR(Convert(lane, 1, Wide(weights), Numbers(weights_.in_order())));
  }
  return weights_.InOrderChanged(lane);
}

Status DeviceDescent::Read(DeviceLane& lane, Parameters& parameters) const {
  std::vector<double> block = weights_.HostBlock();
  if (velocity_) {
    const Address weights = is_narrow() ? master_->data() : weights_.in_order();
    UCUDNN_RETURN_IF_ERROR(
        lane.Download(weights, block.data(), gradient_->count(), kSinglePrecision));
  }
  for (const NumbersLayout::Place& place : weights_.layout().places()) {
    const auto begin = block.begin() + place.begin;
    (parameters[place.node].*place.member).assign(begin, begin + place.count);
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
