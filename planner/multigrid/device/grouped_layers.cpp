#include "planner/multigrid/device/grouped_layers.h"

#include <deque>
#include <utility>
#include <vector>

#include "planner/multigrid/device/grouped_system.h"

namespace ucudnn::multigrid {
namespace {

class GroupedLayers : public StageLayers {
 public:
  static Result<std::unique_ptr<StageLayers>> Make(const DeviceTarget& target,
                                                   const StagePart& part,
                                                   const GroupedSetting& setting,
                                                   const std::shared_ptr<DeviceLanes>& lanes) {
    std::unique_ptr<GroupedLayers> made(
        new GroupedLayers(target, part.state_size(), setting.is_recorded, lanes));
    UCUDNN_ASSIGN_OR_RETURN(
        made->run_, GroupedSystem::MakeRun(target, OnDevice(part, setting.workspace_limit), lanes));
    return std::unique_ptr<StageLayers>(std::move(made));
  }

  Result<std::unique_ptr<ChainPart>> MakeSystem(Direction direction,
                                                const PartTraits& traits) override {
    std::unique_ptr<GroupedSystem> made;
    if (direction == Direction::kForward) {
      UCUDNN_ASSIGN_OR_RETURN(made, GroupedSystem::Make(run_, traits));
      states_ = made.get();
    } else {
      UCUDNN_ASSIGN_OR_RETURN(made, GroupedSystem::MakeAdjoint(*states_, traits));
      adjoints_ = made.get();
      // Of some ranks it has; all must record alike.
      lanes_->NoteMove();
    }
    if (is_recorded_) UCUDNN_RETURN_IF_ERROR(made->RecordCycles());
    return std::unique_ptr<ChainPart>(std::move(made));
  }

  Result<State> Create() override {
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers numbers, DeviceNumbers::Make(target_, size_));
    numbers_.push_back(std::move(numbers));
    return State{&views_.emplace_back(StatesView{numbers_.back().data()})};
  }

  Status LoadWeights() override { return GroupedSystem::LoadWeights(*run_); }
  // `to` is one that Create made.
  Status Upload(const double* numbers, State to) override {
    return lanes_->first().Upload(numbers, GroupedSystem::ViewOf(to).data, size_);
  }
  Status Download(State from, double* numbers) override {
    if (read_ == nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(read_, Create());
    }
    UCUDNN_RETURN_IF_ERROR(states_->Copy(from, read_));
    return lanes_->first().Download(GroupedSystem::ViewOf(read_).data, numbers, size_);
  }
  Status Wait() override { return lanes_->Wait(); }
  Status CarryOver(Direction direction, const FirstStateChange& change) override {
    return (direction == Direction::kForward ? states_ : adjoints_)->CarryOver(change);
  }

  bool scales_adjoints() const override { return target_.precision->has_few_exponents; }
  void StatesChanged(Direction) override {}
  Result<State> ReadState(int number) override { return states_->ReadState(number); }
  Status LineariseAt(StateReader* states) override { return adjoints_->LineariseAt(states); }
  // All at once.
  Status AddGradients(LayerSpan layers, double factor, Parameters& gradient) override {
    return layers.begin == 0 ? adjoints_->AddGradient(factor, gradient) : Status::Ok();
  }

 private:
  GroupedLayers(const DeviceTarget& target, int64_t size, bool is_recorded,
                std::shared_ptr<DeviceLanes> lanes)
      : target_(target), size_(size), is_recorded_(is_recorded), lanes_(std::move(lanes)) {}

  const DeviceTarget target_;
  const int64_t size_;  // numbers of a state
  const bool is_recorded_;
  std::shared_ptr<DeviceLanes> lanes_;
  std::shared_ptr<GroupedSystem::Run> run_;
  GroupedSystem* states_ = nullptr;  // others'
  GroupedSystem* adjoints_ = nullptr;
  std::vector<DeviceNumbers> numbers_;
  std::deque<StatesView> views_;
  State read_ = nullptr;  // what is downloaded is copied into it
};

}  // namespace

Result<std::unique_ptr<GroupedMaker>> GroupedMaker::Make(const DeviceTarget& target,
                                                         const StageToSolve& stage,
                                                         const GroupedSetting& setting,
                                                         std::shared_ptr<RankChannel> channel) {
  std::unique_ptr<GroupedMaker> made(new GroupedMaker(target, setting));
  UCUDNN_ASSIGN_OR_RETURN(made->lanes_, DeviceLanes::Make(target, 1, channel != nullptr));
  const DeviceExchange::Setting states = {
      .peers = stage.peers,
      .ranks = stage.partition.ranks(),
      .state_size = stage.stage.shape.Features(),
      .batch = stage.batch,
      .view_of = [](State state) { return GroupedSystem::ViewOf(state); }};
  made->exchange_ =
      std::make_unique<DeviceExchange>(target, std::move(channel), made->lanes_, states);
  return made;
}

Result<std::unique_ptr<StageLayers>> GroupedMaker::Make(const StagePart& part) {
  return GroupedLayers::Make(target_, part, setting_, lanes_);
}

}  // namespace ucudnn::multigrid
