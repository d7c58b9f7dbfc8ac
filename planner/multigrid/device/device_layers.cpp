#include "planner/multigrid/device/device_layers.h"

#include <optional>
#include <span>
#include <utility>

namespace ucudnn::multigrid {
namespace {

class DeviceLayers : public StageLayers {
 public:
  static Result<std::unique_ptr<StageLayers>> Make(const DeviceTarget& target,
                                                   const StagePart& part,
                                                   const LaneSetting& setting,
                                                   const DeviceShared& shared, Lanes& lanes) {
    std::unique_ptr<DeviceLayers> made(new DeviceLayers(target, part, setting, shared, lanes));
    UCUDNN_ASSIGN_OR_RETURN(made->chain_, DeviceChain::Make(target, part, setting.workspace_limit,
                                                            shared.streams, setting.way));
    if (setting.is_recorded) UCUDNN_RETURN_IF_ERROR(made->chain_->RecordCycles());
    return std::unique_ptr<StageLayers>(std::move(made));
  }

  Status LoadWeights() override { return chain_->LoadWeights(); }
  bool keeps_weights() const override { return true; }
  Status Descend(double factor, const multigrid::Descent& descent) override {
    Parameters none;
    UCUDNN_RETURN_IF_ERROR(RunGradients({0, layers()}, {factor, none}));
    return adjoint_->Descend(factor, descent, shared_.replicas.get());
  }
  Status ReadWeights(Parameters& parameters) override {
    UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, runner().Descent());
    return descent->Read(lane(), parameters);
  }
  Status SendWeights(int to, std::span<const int> layers) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, Pack(layers));
    return shared_.exchange->SendNumbers(to, packed.numbers, packed.count);
  }
  Status ReceiveWeights(int from, std::span<const int> layers) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, RoomFor(layers));
    UCUDNN_RETURN_IF_ERROR(shared_.exchange->ReceiveNumbers(from, packed.numbers, packed.count));
    return Unpack(packed.numbers, layers);
  }
  Status TakeWeights(StageLayers& from, std::span<const int> theirs,
                     std::span<const int> own) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, static_cast<DeviceLayers&>(from).Pack(theirs));
    return Unpack(packed.numbers, own);
  }
  Status Upload(const double* numbers, State to) override { return chain_->Upload(numbers, to); }
  Status Download(State from, double* numbers) override { return chain_->Download(from, numbers); }

  bool scales_adjoints() const override { return chain_->precision().has_few_exponents; }

  // If blocks run side by side, the gradients of all layers are computed at once.
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
      // Making the adjoint moves memory on some ranks only, but all ranks must record their cycles
      // again together.
      shared_.streams->NoteMove();
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
  // The weights of some layers as a message.
  struct Packed {
    Address numbers = nullptr;
    int64_t count = 0;
  };

  DeviceLayers(const DeviceTarget& target, const StagePart& part, const LaneSetting& setting,
               DeviceShared shared, Lanes& lanes)
      : StageLayers(part, lanes),
        target_(target),
        is_recorded_(setting.is_recorded),
        shared_(std::move(shared)) {}
  StepRunner& runner() { return *chain_->shared().runner; }
  DeviceLane& lane() { return shared_.streams->first(); }
  Result<Packed> RoomFor(std::span<const int> layers) {
    const int64_t count = runner().weights().layout().CountOf(layers);
    if (!packed_ || packed_->count() < count) {
      UCUDNN_RETURN_IF_ERROR(lane().Wait());
      UCUDNN_ASSIGN_OR_RETURN(packed_, DeviceNumbers::Make(target_, count));
    }
    return Packed{packed_->data(), count};
  }
  Result<Packed> Pack(std::span<const int> layers) {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, RoomFor(layers));
    DeviceWeights& weights = runner().weights();
    UCUDNN_RETURN_IF_ERROR(weights.layout().CopyLayers(lane(), NumbersLayout::Move::kGather,
                                                       weights.in_order(), layers, packed.numbers));
    return packed;
  }
  Status Unpack(Address numbers, std::span<const int> layers) {
    DeviceWeights& weights = runner().weights();
    UCUDNN_RETURN_IF_ERROR(weights.layout().CopyLayers(lane(), NumbersLayout::Move::kScatter,
                                                       weights.in_order(), layers, numbers));
    UCUDNN_RETURN_IF_ERROR(weights.InOrderChanged(lane()));
    return shared_.streams->Fork();
  }

  const DeviceTarget target_;
  const bool is_recorded_;
  const DeviceShared shared_;
  std::optional<DeviceNumbers> packed_;
  std::unique_ptr<DeviceChain> chain_;
  std::unique_ptr<DeviceAdjoint> adjoint_;
};

}  // namespace

Result<std::unique_ptr<DeviceMaker>> DeviceMaker::Make(const DeviceTarget& target,
                                                       const StageToSolve& stage,
                                                       const LaneSetting& setting,
                                                       std::shared_ptr<RankChannel> channel,
                                                       std::shared_ptr<RankChannel> replicas) {
  UCUDNN_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Start(setting.lanes, Lanes::Threads::kCallersAlone));
  std::unique_ptr<DeviceMaker> made(new DeviceMaker(target, setting, std::move(lanes)));
  made->shared_.replicas = std::move(replicas);
  UCUDNN_ASSIGN_OR_RETURN(made->shared_.streams,
                          DeviceLanes::Make(target, setting.lanes, channel != nullptr));
  const DeviceExchange::Setting states = {.peers = stage.peers,
                                          .ranks = stage.partition.ranks(),
                                          .state_size = stage.stage.shape.Features(),
                                          .batch = stage.batch};
  made->shared_.exchange =
      std::make_shared<DeviceExchange>(target, std::move(channel), made->shared_.streams, states);
  return made;
}

Result<std::unique_ptr<StageLayers>> DeviceMaker::Make(const StagePart& part) {
  return DeviceLayers::Make(target_, part, setting_, shared_, lanes_);
}

}  // namespace ucudnn::multigrid
