#include "planner/multigrid/device/device_layers.h"

#include <optional>
#include <span>
#include <utility>

namespace ucudnn::multigrid {
namespace {

// The objects that all StageLayers of one rank share.
struct DeviceShared {
  DeviceTarget target;
  LaneSetting setting;
  Lanes lanes;
  std::shared_ptr<RankChannel> replicas;  // null if the stage has no replicas
  std::shared_ptr<DeviceLanes> streams = nullptr;
  std::shared_ptr<DeviceExchange> exchange = nullptr;
};

class DeviceLayers : public StageLayers, private KeptWeights {
 public:
  static Result<std::unique_ptr<StageLayers>> Make(const StagePart& part,
                                                   std::shared_ptr<DeviceShared> shared) {
    const LaneSetting& setting = shared->setting;
    std::unique_ptr<DeviceLayers> made(new DeviceLayers(part, shared));
    UCUDNN_ASSIGN_OR_RETURN(made->chain_,
                            DeviceChain::Make(shared->target, part, setting.workspace_limit,
                                              shared->streams, setting.way));
    if (setting.is_recorded) UCUDNN_RETURN_IF_ERROR(made->chain_->RecordCycles());
    return std::unique_ptr<StageLayers>(std::move(made));
  }

  Status LoadWeights() override { return chain_->LoadWeights(); }
  KeptWeights* kept_weights() override { return this; }
  Status Descend(double factor, const multigrid::Descent& descent) override {
    Parameters none;
    UCUDNN_RETURN_IF_ERROR(RunGradients({0, layers()}, {factor, none}));
    return adjoint_->Descend(factor, descent, shared_->replicas.get());
  }
  Status Read(Parameters& parameters) override {
    UCUDNN_ASSIGN_OR_RETURN(DeviceDescent* const descent, runner().Descent());
    return descent->Read(lane(), parameters);
  }
  Status Send(int to, std::span<const int> layers) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, Pack(layers));
    return shared_->exchange->MoveNumbers(Transfer::kSend, to, packed.numbers, packed.count);
  }
  Status Receive(int from, std::span<const int> layers) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, RoomFor(layers));
    UCUDNN_RETURN_IF_ERROR(
        shared_->exchange->MoveNumbers(Transfer::kReceive, from, packed.numbers, packed.count));
    return Unpack(packed.numbers, layers);
  }
  Status Take(KeptWeights& from, std::span<const int> theirs, std::span<const int> own) override {
    UCUDNN_ASSIGN_OR_RETURN(const Packed packed, static_cast<DeviceLayers&>(from).Pack(theirs));
    return Unpack(packed.numbers, own);
  }
  Status Upload(const double* numbers, State to) override { return chain_->Upload(numbers, to); }
  Status Download(State from, double* numbers) override { return chain_->Download(from, numbers); }

  bool scales_adjoints() const override { return shared_->target.precision->has_few_exponents; }

  // If blocks run side by side, the call with the first layers computes the gradients of all layers
  // at once.
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
      // On some ranks, making the adjoint gives lanes new memory, and graphs must be recorded
      // again. All ranks note a move, because they must record at the same time.
      shared_->streams->NoteMove();
      if (shared_->setting.is_recorded) UCUDNN_RETURN_IF_ERROR(adjoint_->RecordCycles());
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
  // The weights of some layers, packed into one message.
  struct Packed {
    Address numbers = nullptr;
    int64_t count = 0;
  };

  DeviceLayers(const StagePart& part, std::shared_ptr<DeviceShared> shared)
      : StageLayers(part, shared->lanes), shared_(std::move(shared)) {}
  StepRunner& runner() { return *chain_->shared().runner; }
  DeviceLane& lane() { return shared_->streams->first(); }
  Result<Packed> RoomFor(std::span<const int> layers) {
    const int64_t count = runner().weights().layout().CountOf(layers);
    if (!packed_ || packed_->count() < count) {
      UCUDNN_RETURN_IF_ERROR(lane().Wait());
      UCUDNN_ASSIGN_OR_RETURN(packed_, DeviceNumbers::Make(shared_->target, count));
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
    return shared_->streams->Fork();
  }

  const std::shared_ptr<DeviceShared> shared_;
  std::optional<DeviceNumbers> packed_;
  std::unique_ptr<DeviceChain> chain_;
  std::unique_ptr<DeviceAdjoint> adjoint_;
};

}  // namespace

Result<StageMaker> DeviceMaker(const DeviceTarget& target, const StageToSolve& stage,
                               const LaneSetting& setting, std::shared_ptr<RankChannel> channel,
                               std::shared_ptr<RankChannel> replicas) {
  UCUDNN_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Start(setting.lanes, Lanes::Threads::kCallersAlone));
  const auto shared = std::make_shared<DeviceShared>(
      DeviceShared{target, setting, std::move(lanes), std::move(replicas)});
  UCUDNN_ASSIGN_OR_RETURN(shared->streams,
                          DeviceLanes::Make(target, setting.lanes, channel != nullptr));
  const DeviceExchange::Setting states = {.peers = stage.peers,
                                          .ranks = stage.partition.ranks(),
                                          .state_size = stage.stage.shape.Features(),
                                          .batch = stage.batch};
  shared->exchange =
      std::make_shared<DeviceExchange>(target, std::move(channel), shared->streams, states);
  return StageMaker{[shared](const StagePart& part) { return DeviceLayers::Make(part, shared); },
                    shared->exchange};
}

}  // namespace ucudnn::multigrid
