#include "planner/multigrid/device/device_layers.h"

#include <utility>

namespace ucudnn::multigrid {
namespace {

class DeviceLayers : public StageLayers {
 public:
  static Result<std::unique_ptr<StageLayers>> Make(const DeviceTarget& target,
                                                   const StagePart& part,
                                                   const LaneSetting& setting,
                                                   const std::shared_ptr<DeviceLanes>& streams,
                                                   Lanes& lanes) {
    std::unique_ptr<DeviceLayers> made(new DeviceLayers(part, setting, streams, lanes));
    UCUDNN_ASSIGN_OR_RETURN(
        made->chain_,
        DeviceChain::Make(target, OnDevice(part, setting.workspace_limit), streams, setting.way));
    if (setting.is_recorded) UCUDNN_RETURN_IF_ERROR(made->chain_->RecordCycles());
    return std::unique_ptr<StageLayers>(std::move(made));
  }

  Status LoadWeights() override { return chain_->WeightsChanged(); }
  Status Upload(const double* numbers, State to) override { return chain_->Upload(numbers, to); }
  Status Download(State from, double* numbers) override { return chain_->Download(from, numbers); }

  bool scales_adjoints() const override { return chain_->precision().has_few_exponents; }

  // Side by side all are computed at once.
  Status AddGradients(LayerSpan span, double factor, Parameters& gradient) override {
    if (!chain_->RunsSideBySide()) return StageLayers::AddGradients(span, factor, gradient);
    if (span.begin > 0) return Status::Ok();
    return StageLayers::AddGradients({0, layers()}, factor, gradient);
  }

 protected:
  Propagator& chain() override { return *chain_; }
  Result<Propagator*> Adjoint() override {
    if (!adjoint_) {
      UCUDNN_ASSIGN_OR_RETURN(adjoint_, DeviceAdjoint::Make(*chain_));
      // Of some ranks it has; all must record alike.
      streams_->NoteMove();
      if (is_recorded_) UCUDNN_RETURN_IF_ERROR(adjoint_->RecordCycles());
    }
    return static_cast<Propagator*>(adjoint_.get());
  }
  void ReadLinearised(StateReader& states) override { adjoint_->LineariseAt(states); }
  Status Linearise() override { return adjoint_->Linearise(); }
  Status AddGradient(int layer, State state, State adjoint, const GradientSum&, int lane) override {
    return adjoint_->Gradient(layer, state, adjoint, lane);
  }
  Status FinishGradients(LayerSpan layers, const GradientSum& sum) override {
    return adjoint_->AddGradients(layers, sum.factor, sum.gradient);
  }

 private:
  DeviceLayers(const StagePart& part, const LaneSetting& setting,
               std::shared_ptr<DeviceLanes> streams, Lanes& lanes)
      : StageLayers(part, lanes), is_recorded_(setting.is_recorded), streams_(std::move(streams)) {}

  const bool is_recorded_;
  std::shared_ptr<DeviceLanes> streams_;
  std::unique_ptr<DeviceChain> chain_;
  std::unique_ptr<DeviceAdjoint> adjoint_;
};

}  // namespace

Result<std::unique_ptr<DeviceMaker>> DeviceMaker::Make(const DeviceTarget& target,
                                                       const StageToSolve& stage,
                                                       const LaneSetting& setting,
                                                       std::shared_ptr<RankChannel> channel) {
  UCUDNN_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Start(setting.lanes, Lanes::Threads::kCallersAlone));
  std::unique_ptr<DeviceMaker> made(new DeviceMaker(target, setting, std::move(lanes)));
  UCUDNN_ASSIGN_OR_RETURN(made->streams_,
                          DeviceLanes::Make(target, setting.lanes, channel != nullptr));
  const DeviceExchange::Setting states = {.peers = stage.peers,
                                          .ranks = stage.partition.ranks(),
                                          .state_size = stage.stage.shape.Features(),
                                          .batch = stage.batch};
  made->exchange_ =
      std::make_unique<DeviceExchange>(target, std::move(channel), made->streams_, states);
  return made;
}

Result<std::unique_ptr<StageLayers>> DeviceMaker::Make(const StagePart& part) {
  return DeviceLayers::Make(target_, part, setting_, streams_, lanes_);
}

}  // namespace ucudnn::multigrid
