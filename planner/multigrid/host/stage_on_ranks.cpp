#include "planner/multigrid/host/stage_on_ranks.h"

#include <algorithm>
#include <numeric>

#include "planner/multigrid/carried_start.h"

namespace ucudnn::multigrid {

using planner::NodeId;

GatheredNeeds NeedsOf(CoarseOperator coarse, const Hierarchy& gathered) {
  GatheredNeeds needs;
  for (int number = 0; number < gathered.levels(); ++number) {
    const Level& level = gathered.level(number);
    for (int step = 0; step < level.steps; ++step) {
      const LayerRanges ranges = LayersOf(coarse, level, step, 1);
      for (int i = 0; i < ranges.count; ++i) {
        const LayerRange& range = ranges.parts[i];
        for (int layer = range.begin; layer < range.end; ++layer) needs.layers.push_back(layer);
        needs.states.push_back(range.begin);
      }
    }
  }
  for (std::vector<int>* const numbers : {&needs.layers, &needs.states}) {
    std::sort(numbers->begin(), numbers->end());
    numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  }
  return needs;
}

// States as messages of numbers, one behind the other.
class StageOnRanks::HostExchange : public StateExchange {
 public:
  HostExchange(Peers& peers, RankRange ranks, int64_t state_size)
      : peers_(peers), ranks_(ranks), size_(state_size) {}

  Status Send(int to, std::span<const State> states) override {
    if (states.size() == 1) {
      return peers_.Send(to, {HostStates::Numbers(states[0]), static_cast<size_t>(size_)});
    }
    std::vector<double> message;
    message.reserve(states.size() * size_);
    for (const State state : states) {
      const double* const numbers = HostStates::Numbers(state);
      message.insert(message.end(), numbers, numbers + size_);
    }
    return peers_.Send(to, message);
  }
  Status Receive(int from, std::span<const State> states) override {
    if (states.size() == 1) {
      return ReceiveInto(peers_, from,
                         {HostStates::Numbers(states[0]), static_cast<size_t>(size_)});
    }
    std::vector<double> message(states.size() * size_);
    UCUDNN_RETURN_IF_ERROR(ReceiveInto(peers_, from, message));
    for (size_t i = 0; i < states.size(); ++i) {
      std::copy_n(message.begin() + static_cast<int64_t>(i) * size_, size_,
                  HostStates::Numbers(states[i]));
    }
    return Status::Ok();
  }
  Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override {
    return GatherNumbers(peers_, ranks_, mine);
  }

 private:
  Peers& peers_;
  RankRange ranks_;
  int64_t size_;
};

StageOnRanks::StageOnRanks(const HostStageSetting& setting, Peers& peers, Lanes& lanes)
    : setting_(setting),
      peers_(peers),
      lanes_(lanes),
      gathers_(setting.partition.Gathers(setting.hierarchy)),
      begin_(setting.partition.begins[peers.rank() - setting.partition.first_rank]),
      end_(setting.partition.begins[peers.rank() - setting.partition.first_rank + 1]),
      mirrored_(setting.hierarchy.Mirrored()) {}

StageOnRanks::~StageOnRanks() = default;

Result<std::unique_ptr<StageOnRanks>> StageOnRanks::Make(const HostStageSetting& setting,
                                                         Peers& peers, Lanes& lanes) {
  std::unique_ptr<StageOnRanks> made(new StageOnRanks(setting, peers, lanes));
  UCUDNN_RETURN_IF_ERROR(made->MakeStages());
  return made;
}

Status StageOnRanks::MakeStages() {
  const Hierarchy& hierarchy = setting_.hierarchy;
  const int distributed = setting_.partition.distributed;
  local_ = hierarchy.Part(begin_, end_, std::min(distributed + 1, hierarchy.levels()));
  local_mirrored_ = local_.Mirrored();
  part_ = {.input = setting_.stage.input, .shape = setting_.stage.shape, .steps = {}};
  part_.steps.assign(setting_.stage.steps.begin() + begin_, setting_.stage.steps.begin() + end_);
  UCUDNN_ASSIGN_OR_RETURN(stage_, HostStage::Make(setting_.chain, part_, setting_.parameters,
                                                  setting_.batch, lanes_.count()));
  UCUDNN_ASSIGN_OR_RETURN(chain_, HostChain::Make(*stage_, local_, setting_.coarse, setting_.h));
  UCUDNN_ASSIGN_OR_RETURN(adjoint_,
                          HostAdjoint::Make(*stage_, local_mirrored_, setting_.coarse, setting_.h));
  exchange_ =
      std::make_unique<HostExchange>(peers_, setting_.partition.ranks(), stage_->state_size());
  if (!gathers_) return Status::Ok();
  coarse_ = hierarchy.CoarseLevels(distributed);
  coarse_mirrored_ = coarse_.Mirrored();
  needs_ = NeedsOf(setting_.coarse, coarse_);
  gathered_parameters_.resize(is_gatherer() ? setting_.chain.graph.nodes.size() : 0);
  UCUDNN_RETURN_IF_ERROR(GatherWeights());
  if (!is_gatherer()) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(gathered_stage_,
                          HostStage::Make(setting_.chain, setting_.stage, gathered_parameters_,
                                          setting_.batch, lanes_.count(), needs_.layers));
  UCUDNN_ASSIGN_OR_RETURN(gathered_chain_,
                          HostChain::Make(*gathered_stage_, coarse_, setting_.coarse, setting_.h));
  UCUDNN_ASSIGN_OR_RETURN(gathered_adjoint_, HostAdjoint::Make(*gathered_stage_, coarse_mirrored_,
                                                               setting_.coarse, setting_.h));
  return Status::Ok();
}

RankPart StageOnRanks::PartOf(bool is_reversed) const {
  const Partition& partition = setting_.partition;
  RankPart part;
  part.exchange = exchange_.get();
  part.line = {partition.ranks(), is_reversed};
  part.position = part.line.PositionOf(peers_.rank());
  part.hierarchy = is_reversed ? &local_mirrored_ : &local_;
  part.propagator = is_reversed ? static_cast<Propagator*>(adjoint_.get()) : chain_.get();
  if (timed_ && !is_reversed) part.propagator = timed_.get();
  part.distributed = partition.distributed;
  if (!gathers_) return part;
  part.gathers = true;
  part.gatherer = partition.first_rank;
  part.relaxes_gathered = coarse_.levels() > 1;
  part.coarse_begins.push_back(0);
  for (int p = 0; p < part.line.ranks.count; ++p) {
    const int at = part.line.RankOf(p) - partition.first_rank;
    const Hierarchy own = setting_.hierarchy.Part(partition.begins[at], partition.begins[at + 1],
                                                  partition.distributed + 1);
    part.coarse_begins.push_back(part.coarse_begins.back() +
                                 own.level(partition.distributed).steps);
  }
  if (!is_gatherer()) return part;
  part.coarse_hierarchy = is_reversed ? &coarse_mirrored_ : &coarse_;
  part.coarse_propagator =
      is_reversed ? static_cast<Propagator*>(gathered_adjoint_.get()) : gathered_chain_.get();
  return part;
}

Status StageOnRanks::MakeForward() {
  if (setting_.notes_timeline && setting_.hierarchy.levels() > 1) {
    timed_ = std::make_unique<TimedPropagator>(*chain_, local_, lanes_.count());
  }
  UCUDNN_ASSIGN_OR_RETURN(given_, chain_->Create());
  UCUDNN_ASSIGN_OR_RETURN(states_,
                          DistributedSystem::Make(PartOf(false), lanes_, setting_.storage));
  return Status::Ok();
}

Status StageOnRanks::MakeBackward() {
  UCUDNN_ASSIGN_OR_RETURN(given_adjoint_, adjoint_->Create());
  UCUDNN_ASSIGN_OR_RETURN(adjoints_,
                          DistributedSystem::Make(PartOf(true), lanes_, setting_.storage));
  UCUDNN_ASSIGN_OR_RETURN(trajectory_,
                          Trajectory::Make(states_->local(), local_, *chain_, lanes_.count()));
  UCUDNN_ASSIGN_OR_RETURN(adjoint_trajectory_, Trajectory::Make(adjoints_->local(), local_mirrored_,
                                                                *adjoint_, lanes_.count()));
  adjoint_->LineariseAt(*trajectory_);
  if (!is_gatherer()) return Status::Ok();
  gathered_states_.states.resize(setting_.stage.steps.size(), nullptr);
  for (const int number : needs_.states) {
    UCUDNN_ASSIGN_OR_RETURN(gathered_states_.states[number], gathered_adjoint_->Create());
  }
  gathered_adjoint_->LineariseAt(gathered_states_);
  return Status::Ok();
}

int StageOnRanks::OwnerOf(int layer) const {
  const std::vector<int>& begins = setting_.partition.begins;
  const auto behind = std::upper_bound(begins.begin(), begins.end(), layer);
  return setting_.partition.first_rank + static_cast<int>(behind - begins.begin()) - 1;
}

// One message of each rank: of each layer that is needed the weights and biases of its nodes.
Status StageOnRanks::GatherWeights() {
  const auto for_each = [&](int owner, const auto& visit) {
    for (const int layer : needs_.layers) {
      if (OwnerOf(layer) != owner) continue;
      for (const NodeId id : setting_.stage.steps[layer].transformation) visit(id);
    }
  };
  if (!is_gatherer()) {
    std::vector<double> message;
    for_each(peers_.rank(), [&](NodeId id) {
      const NodeWeights& node = setting_.parameters[id];
      message.push_back(static_cast<double>(node.weights.size()));
      message.push_back(static_cast<double>(node.bias.size()));
      message.insert(message.end(), node.weights.begin(), node.weights.end());
      message.insert(message.end(), node.bias.begin(), node.bias.end());
    });
    return peers_.Send(setting_.partition.first_rank, message);
  }
  for_each(peers_.rank(), [&](NodeId id) { gathered_parameters_[id] = setting_.parameters[id]; });
  for (int i = 1; i < setting_.partition.ranks().count; ++i) {
    const int owner = setting_.partition.first_rank + i;
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> message, peers_.Receive(owner));
    auto next = message.begin();
    for_each(owner, [&](NodeId id) {
      NodeWeights& node = gathered_parameters_[id];
      const auto weights = static_cast<int64_t>(*next++);
      const auto biases = static_cast<int64_t>(*next++);
      node.weights.assign(next, next + weights);
      node.bias.assign(next + weights, next + weights + biases);
      next += weights + biases;
    });
  }
  return Status::Ok();
}

Status StageOnRanks::GatherStates() {
  const int gatherer = setting_.partition.first_rank;
  for (const int number : needs_.states) {
    const int owner = OwnerOf(number);
    if (owner == peers_.rank()) {
      UCUDNN_ASSIGN_OR_RETURN(const State state, trajectory_->At(number - begin_, 0));
      if (is_gatherer()) {
        UCUDNN_RETURN_IF_ERROR(chain_->Combine(gathered_states_.states[number], 0, 1, state, 0));
      } else {
        UCUDNN_RETURN_IF_ERROR(exchange_->Send(gatherer, {{state}}));
      }
    } else if (is_gatherer()) {
      UCUDNN_RETURN_IF_ERROR(exchange_->Receive(owner, {{gathered_states_.states[number]}}));
    }
  }
  return Status::Ok();
}

Status StageOnRanks::SetFirst(Start start, DistributedSystem& system, const RankPart& part,
                              State given, State& before) {
  if (start != Start::kPrevious) {
    return system.has_first() ? system.local().SetFirst(given) : Status::Ok();
  }
  if (system.has_first()) {
    const State was = system.local().first();
    for (int p = 1; p < part.line.ranks.count; ++p) {
      UCUDNN_RETURN_IF_ERROR(exchange_->Send(part.line.RankOf(p), {{given, was}}));
    }
    UCUDNN_RETURN_IF_ERROR(
        CarryOver(system.local(), *part.hierarchy, *part.propagator, lanes_, {given, was}));
    return system.local().SetFirst(given);
  }
  if (before == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(before, part.propagator->Create());
  }
  UCUDNN_RETURN_IF_ERROR(exchange_->Receive(part.line.RankOf(0), {{given, before}}));
  return CarryOver(system.local(), *part.hierarchy, *part.propagator, lanes_, {given, before});
}

std::optional<CycleTimeline> StageOnRanks::Timeline() const {
  return timed_ ? std::optional(timed_->Timeline()) : std::nullopt;
}

Result<Solution> StageOnRanks::SolveForward(const double* first, const SolveOptions& options,
                                            double* last) {
  if (!states_) UCUDNN_RETURN_IF_ERROR(MakeForward());
  if (states_->has_first()) std::copy_n(first, state_size(), HostStates::Numbers(given_));
  UCUDNN_RETURN_IF_ERROR(SetFirst(options.start, *states_, PartOf(false), given_, before_));
  UCUDNN_RETURN_IF_ERROR(chain_->WeightsChanged());
  if (gathers_) UCUDNN_RETURN_IF_ERROR(GatherWeights());
  if (is_gatherer()) UCUDNN_RETURN_IF_ERROR(gathered_chain_->WeightsChanged());
  SolveOptions timed_options(options);
  if (timed_) {
    timed_->Begin();
    timed_options.watch = [&](int cycle, double residual) {
      timed_->EndCycle();
      if (options.watch) options.watch(cycle, residual);
    };
  }
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(*states_, setting_.hierarchy, timed_options));
  if (trajectory_) trajectory_->Reset();
  if (states_->has_last()) {
    std::copy_n(HostStates::Numbers(states_->local().last()), state_size(), last);
  }
  return solution;
}

Result<Solution> StageOnRanks::SolveBackward(const double* last_adjoint,
                                             const SolveOptions& options, double* first_adjoint,
                                             Parameters& gradient, const GradientWatch& watch) {
  if (!adjoints_) UCUDNN_RETURN_IF_ERROR(MakeBackward());
  if (adjoints_->has_first()) {
    std::copy_n(last_adjoint, state_size(), HostStates::Numbers(given_adjoint_));
  }
  UCUDNN_RETURN_IF_ERROR(
      SetFirst(options.start, *adjoints_, PartOf(true), given_adjoint_, before_adjoint_));
  UCUDNN_RETURN_IF_ERROR(adjoint_->WeightsChanged());
  if (is_gatherer()) UCUDNN_RETURN_IF_ERROR(gathered_adjoint_->WeightsChanged());
  if (gathers_) UCUDNN_RETURN_IF_ERROR(GatherStates());
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(*adjoints_, mirrored_, options));
  adjoint_trajectory_->Reset();
  UCUDNN_RETURN_IF_ERROR(AddGradients(gradient, watch));
  if (adjoints_->has_last()) {
    std::copy_n(HostStates::Numbers(adjoints_->local().last()), state_size(), first_adjoint);
  }
  return solution;
}

// Layer n's gradient needs the state before it and the adjoint behind it.
Status StageOnRanks::AddBlockGradients(int begin, int end, Parameters& gradient) {
  const int layers = end_ - begin_;
  const int coarsening = local_.level(0).coarsening;
  return lanes_.ForEach(end - begin, [&](int task, int lane) -> Status {
    const int first = (begin + task) * coarsening;
    for (int n = first; n < std::min(first + coarsening, layers); ++n) {
      UCUDNN_ASSIGN_OR_RETURN(const State state, trajectory_->At(n, lane));
      UCUDNN_ASSIGN_OR_RETURN(const State adjoint, adjoint_trajectory_->At(layers - 1 - n, lane));
      stage_->AddStepGradient(n, setting_.h, HostStates::Numbers(state),
                              HostStates::Numbers(adjoint), gradient, lane);
    }
    return Status::Ok();
  });
}

Status StageOnRanks::AddGradients(Parameters& gradient, const GradientWatch& watch) {
  const int layers = end_ - begin_;
  const int coarsening = local_.level(0).coarsening;
  const int blocks = (layers + coarsening - 1) / coarsening;
  // Who watches sends what is complete while the rest is computed.
  constexpr int kBlocksOfALane = 4;
  const int at_once = watch ? kBlocksOfALane * lanes_.count() : blocks;
  for (int begin = 0; begin < blocks; begin += at_once) {
    const int end = std::min(begin + at_once, blocks);
    UCUDNN_RETURN_IF_ERROR(AddBlockGradients(begin, end, gradient));
    if (!watch) continue;
    std::vector<NodeId> nodes;
    for (int n = begin * coarsening; n < std::min(end * coarsening, layers); ++n) {
      const std::vector<NodeId>& of_step = part_.steps[n].transformation;
      nodes.insert(nodes.end(), of_step.begin(), of_step.end());
    }
    UCUDNN_RETURN_IF_ERROR(watch(nodes));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
