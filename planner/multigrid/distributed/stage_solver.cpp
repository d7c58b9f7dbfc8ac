#include "planner/multigrid/distributed/stage_solver.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ucudnn::multigrid {

using planner::NodeId;

StageSolver::GatheredNeeds StageSolver::NeedsOfGathered() const {
  GatheredNeeds needs;
  for (int number = 0; number < coarse_.levels(); ++number) {
    const Level& level = coarse_.level(number);
    for (int step = 0; step < level.steps; ++step) {
      const LayerRange range = LayersOf(to_solve_.coarse, level, step, 1);
      for (int layer = range.begin; layer < range.end; ++layer) needs.layers.push_back(layer);
      needs.states.push_back(range.begin);
    }
  }
  for (std::vector<int>* const numbers : {&needs.layers, &needs.states}) {
    std::sort(numbers->begin(), numbers->end());
    numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  }
  return needs;
}

StageSolver::StageSolver(const StageToSolve& stage, StageMaker maker)
    : to_solve_(stage),
      maker_(std::move(maker)),
      gathers_(stage.partition.Gathers(stage.hierarchy)),
      begin_(stage.partition.begins[stage.peers.rank()]),
      end_(stage.partition.begins[stage.peers.rank() + 1]),
      mirrored_(stage.hierarchy.Mirrored()) {}

// After a failed solve, streams may still wait for other ranks. Close must end these waits before
// anything is freed. After any other solve, graphs that contain messages must be freed before Close
// frees the channel of these messages.
StageSolver::~StageSolver() {
  if (is_idle_) {
    backward_ = SolveDirection();
    forward_ = SolveDirection();
    gathered_layers_.reset();
    layers_.reset();
  }
  exchange().Close();
}

Result<std::unique_ptr<StageSolver>> StageSolver::Make(const StageToSolve& stage,
                                                       StageMaker maker) {
  std::unique_ptr<StageSolver> made(new StageSolver(stage, std::move(maker)));
  UCUDNN_RETURN_IF_ERROR(made->MakeLayers());
  return made;
}

int StageSolver::CoarseStepsOf(int rank) const {
  const int distributed = partition().distributed;
  const std::vector<int>& begins = partition().begins;
  return to_solve_.hierarchy.Part(begins[rank], begins[rank + 1], distributed + 1)
      .level(distributed)
      .steps;
}

ExchangeRoom StageSolver::RoomForStates() const {
  const auto others = static_cast<size_t>(partition().ranks() - 1);
  // With Start::kPrevious a solve starts from the previous states. SetFirst then makes the rank
  // with the first state send two states to each other rank: the new first state and the previous
  // one.
  ExchangeRoom room = {.message = 2, .sent = 2 * others, .received = 2};
  if (!gathers_) return room;
  size_t all = 0;
  for (int p = 0; p < partition().ranks(); ++p) {
    // Each coarse step has a right side and a state, and one first state precedes them.
    const size_t of_rank = 2 * static_cast<size_t>(CoarseStepsOf(p)) + 1;
    room.message = std::max(room.message, of_rank);
    all += of_rank;
  }
  const size_t at_once = is_gatherer() ? all : room.message;
  room.sent = std::max(room.sent, at_once);
  room.received = std::max(room.received, at_once);
  return room;
}

Status StageSolver::MakeLayers() {
  const Hierarchy& hierarchy = to_solve_.hierarchy;
  const int distributed = partition().distributed;
  local_ = hierarchy.Part(begin_, end_, std::min(distributed + 1, hierarchy.levels()));
  const Stage& stage = to_solve_.stage;
  part_ = {.input = stage.input, .shape = stage.shape, .steps = {}};
  part_.steps.assign(stage.steps.begin() + begin_, stage.steps.begin() + end_);
  const StagePart own = {.chain = to_solve_.chain,
                         .stage = part_,
                         .parameters = to_solve_.parameters,
                         .hierarchy = local_,
                         .coarse = to_solve_.coarse,
                         .batch = to_solve_.batch,
                         .h = to_solve_.h,
                         .storage = to_solve_.storage,
                         .notes_timeline = to_solve_.notes_timeline && hierarchy.levels() > 1};
  UCUDNN_RETURN_IF_ERROR(exchange().Reserve(RoomForStates()));
  UCUDNN_ASSIGN_OR_RETURN(layers_, maker_.make(own));
  if (!gathers_) return Status::Ok();
  coarse_ = hierarchy.CoarseLevels(distributed);
  needs_ = NeedsOfGathered();
  gathered_parameters_.resize(is_gatherer() ? to_solve_.chain.graph.nodes.size() : 0);
  UCUDNN_RETURN_IF_ERROR(GatherWeights());
  if (!is_gatherer()) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(gathered_layers_, maker_.make({.chain = to_solve_.chain,
                                                         .stage = stage,
                                                         .parameters = gathered_parameters_,
                                                         .hierarchy = coarse_,
                                                         .coarse = to_solve_.coarse,
                                                         .batch = to_solve_.batch,
                                                         .h = to_solve_.h,
                                                         .used = needs_.layers,
                                                         .has_gradients = false}));
  return Status::Ok();
}

RankPart StageSolver::PartOf(Direction direction) const {
  const bool is_reversed = direction == Direction::kAdjoint;
  RankPart part;
  part.exchange = &exchange();
  part.line = {partition().ranks(), is_reversed};
  part.position = part.line.RankOf(to_solve_.peers.rank());
  part.hierarchy = &layers_->hierarchy(direction);
  part.distributed = partition().distributed;
  if (!gathers_) return part;
  part.relaxes_gathered = coarse_.levels() > 1;
  part.coarse_begins.push_back(0);
  for (int p = 0; p < part.line.ranks; ++p) {
    part.coarse_begins.push_back(part.coarse_begins.back() + CoarseStepsOf(part.line.RankOf(p)));
  }
  return part;
}

Status StageSolver::MakeWay(Direction direction, SolveDirection& way) {
  way.part = PartOf(direction);
  UCUDNN_ASSIGN_OR_RETURN(auto local,
                          layers_->MakeSystem(direction, {.has_inlet = way.part.position > 0}));
  std::unique_ptr<BlockSystem> coarse;
  if (is_gatherer()) {
    UCUDNN_ASSIGN_OR_RETURN(coarse, gathered_layers_->MakeSystem(direction, {.has_source = true}));
  }
  UCUDNN_ASSIGN_OR_RETURN(way.given, layers_->Create());
  if (direction == Direction::kAdjoint && is_gatherer()) {
    gathered_states_.states.resize(to_solve_.stage.steps.size(), nullptr);
    for (const int number : needs_.states) {
      UCUDNN_ASSIGN_OR_RETURN(gathered_states_.states[number], gathered_layers_->Create());
    }
  }
  // way.system is made last. Once it exists, later calls assume that everything else exists, too.
  way.system = std::make_unique<DistributedSystem>(way.part, std::move(local), std::move(coarse));
  return Status::Ok();
}

int StageSolver::OwnerOf(int layer) const {
  const std::vector<int>& begins = partition().begins;
  const auto behind = std::upper_bound(begins.begin(), begins.end(), layer);
  return static_cast<int>(behind - begins.begin()) - 1;
}

// Each rank sends one message: the weights and biases of its layers that the gathered levels need.
Status StageSolver::GatherWeights() {
  Peers& peers = to_solve_.peers;
  const auto for_each = [&](int owner, const auto& visit) {
    for (const int layer : needs_.layers) {
      if (OwnerOf(layer) != owner) continue;
      for (const NodeId id : to_solve_.stage.steps[layer].transformation) visit(id);
    }
  };
  if (!is_gatherer()) {
    std::vector<double> message;
    for_each(peers.rank(), [&](NodeId id) {
      const NodeWeights& node = to_solve_.parameters[id];
      message.push_back(static_cast<double>(node.weights.size()));
      message.push_back(static_cast<double>(node.bias.size()));
      message.insert(message.end(), node.weights.begin(), node.weights.end());
      message.insert(message.end(), node.bias.begin(), node.bias.end());
    });
    return peers.Send(0, message);
  }
  for_each(peers.rank(), [&](NodeId id) { gathered_parameters_[id] = to_solve_.parameters[id]; });
  for (int owner = 1; owner < partition().ranks(); ++owner) {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> message, peers.Receive(owner));
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

Status StageSolver::GatherStates() {
  BlockSystem& local = forward_.system->local();
  for (const int number : needs_.states) {
    const int owner = OwnerOf(number);
    const State gathered = is_gatherer() ? gathered_states_.states[number] : nullptr;
    if (owner == to_solve_.peers.rank()) {
      UCUDNN_ASSIGN_OR_RETURN(const State state, layers_->ReadState(number - begin_));
      UCUDNN_RETURN_IF_ERROR(is_gatherer() ? local.Copy(state, gathered)
                                           : exchange().Send(0, {&state, 1}));
    } else if (is_gatherer()) {
      UCUDNN_RETURN_IF_ERROR(exchange().Receive(owner, {&gathered, 1}));
    }
  }
  return local.Join();
}

Status StageSolver::Linearise() {
  UCUDNN_RETURN_IF_ERROR(layers_->LineariseAt(nullptr));
  if (!gathers_) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(GatherStates());
  return is_gatherer() ? gathered_layers_->LineariseAt(&gathered_states_) : Status::Ok();
}

Status StageSolver::SetFirst(Start start, SolveDirection& way) {
  DistributedSystem& system = *way.system;
  if (start != Start::kPrevious) {
    return system.has_first() ? system.local().SetFirst(way.given) : Status::Ok();
  }
  if (system.has_first()) {
    const State states[] = {way.given, system.local().first()};
    std::vector<StateMessage> sends;
    for (int p = 1; p < way.part.line.ranks; ++p) {
      sends.push_back({way.part.line.RankOf(p), states});
    }
    UCUDNN_RETURN_IF_ERROR(exchange().Begin(sends, {}));
    UCUDNN_RETURN_IF_ERROR(system.local().CarryOver({way.given, states[1]}));
    return system.local().SetFirst(way.given);
  }
  if (way.before == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(way.before, layers_->Create());
  }
  const State states[] = {way.given, way.before};
  UCUDNN_RETURN_IF_ERROR(exchange().Receive(way.part.line.RankOf(0), states));
  UCUDNN_RETURN_IF_ERROR(system.local().Join());
  return system.local().CarryOver({way.given, way.before});
}

std::optional<CycleTimeline> StageSolver::Timeline() const {
  TimedPropagator* const timed = layers_->timed();
  return timed != nullptr ? std::optional(timed->Timeline()) : std::nullopt;
}

Status StageSolver::Descend(const Descent& descent) {
  is_idle_ = false;
  UCUDNN_RETURN_IF_ERROR(layers_->kept_weights()->Descend(gradient_factor_, descent));
  if (gathers_) UCUDNN_RETURN_IF_ERROR(GatherKeptWeights());
  is_idle_ = true;
  return Status::Ok();
}

std::vector<int> StageSolver::NeededOf(int rank) const {
  std::vector<int> needed;
  for (const int layer : needs_.layers) {
    if (OwnerOf(layer) == rank) needed.push_back(layer - partition().begins[rank]);
  }
  return needed;
}

Status StageSolver::GatherKeptWeights() {
  KeptWeights& own = *layers_->kept_weights();
  const std::vector<int> mine = NeededOf(to_solve_.peers.rank());
  if (!is_gatherer()) return own.Send(0, mine);
  KeptWeights& gathered = *gathered_layers_->kept_weights();
  UCUDNN_RETURN_IF_ERROR(gathered.Take(own, mine, mine));
  for (int rank = 1; rank < partition().ranks(); ++rank) {
    std::vector<int> layers = NeededOf(rank);
    for (int& layer : layers) layer += partition().begins[rank];
    UCUDNN_RETURN_IF_ERROR(gathered.Receive(rank, layers));
  }
  return Status::Ok();
}

Status StageSolver::LoadWeights() {
  UCUDNN_RETURN_IF_ERROR(layers_->LoadWeights());
  if (gathers_) UCUDNN_RETURN_IF_ERROR(GatherWeights());
  return is_gatherer() ? gathered_layers_->LoadWeights() : Status::Ok();
}

Result<Solution> StageSolver::SolveForward(const double* first, const SolveOptions& options,
                                           double* last) {
  is_idle_ = false;
  if (!forward_.system) UCUDNN_RETURN_IF_ERROR(MakeWay(Direction::kForward, forward_));
  DistributedSystem& system = *forward_.system;
  if (system.has_first()) UCUDNN_RETURN_IF_ERROR(layers_->Upload(first, forward_.given));
  UCUDNN_RETURN_IF_ERROR(SetFirst(options.start, forward_));
  SolveOptions timed_options(options);
  Status noted;
  if (TimedPropagator* const timed = layers_->timed()) {
    timed->Begin();
    timed_options.watch = [timed, &options, &noted](int cycle, double residual) {
      if (noted.ok()) noted = timed->EndCycle();
      if (options.watch) options.watch(cycle, residual);
    };
  }
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(system, to_solve_.hierarchy, timed_options));
  UCUDNN_RETURN_IF_ERROR(std::move(noted));
  layers_->StatesChanged(Direction::kForward);
  UCUDNN_RETURN_IF_ERROR(layers_->Wait());
  UCUDNN_RETURN_IF_ERROR(exchange().Check());
  if (system.has_last()) {
    UCUDNN_RETURN_IF_ERROR(layers_->Download(system.local().last(), last));
  }
  is_idle_ = true;
  return solution;
}

Result<double> StageSolver::AdjointScale(const double* numbers) {
  if (!layers_->scales_adjoints()) return 1.0;
  double scale = 1;
  if (backward_.system->has_first()) {
    double largest = 0;
    for (int64_t i = 0; i < to_solve_.state_size(); ++i) {
      largest = std::max(largest, std::abs(numbers[i]));
    }
    int exponent = 0;
    if (std::isfinite(largest)) std::frexp(largest, &exponent);
    scale = std::ldexp(1.0, -exponent);
  }
  if (partition().ranks() == 1) return scale;
  UCUDNN_ASSIGN_OR_RETURN(const auto scales, exchange().Gather({&scale, 1}));
  return scales.back().front();
}

// The adjoint is linear in its first state. Therefore the solve may use a scaled first state and a
// scaled tolerance, and the result is divided by the scale. The fitting scale is AdjointScale(). A
// solve that starts from previous states keeps the previous scale if that is within a factor of 16
// of the fitting one.
Result<Solution> StageSolver::SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                            double* first_adjoint) {
  is_idle_ = false;
  if (!backward_.system) UCUDNN_RETURN_IF_ERROR(MakeWay(Direction::kAdjoint, backward_));
  DistributedSystem& system = *backward_.system;
  UCUDNN_ASSIGN_OR_RETURN(const double fitting, AdjointScale(last_adjoint));
  SolveOptions scaled_options(options);
  constexpr double kFar = 16;
  const bool is_near = fitting <= kFar * scale_ && scale_ <= kFar * fitting;
  if (options.start != Start::kPrevious || !is_near) scale_ = fitting;
  if (options.start == Start::kPrevious && !is_near) scaled_options.start = Start::kBroadcast;
  const double scale = scale_;
  const bool is_absolute = options.scale == ResidualScale::kAbsolute;
  if (is_absolute && options.tolerance) *scaled_options.tolerance *= scale;
  const int64_t size = to_solve_.state_size();
  if (system.has_first()) {
    std::vector<double> scaled;
    if (scale != 1) {
      scaled.assign(last_adjoint, last_adjoint + size);
      for (double& number : scaled) number *= scale;
      last_adjoint = scaled.data();
    }
    UCUDNN_RETURN_IF_ERROR(layers_->Upload(last_adjoint, backward_.given));
  }
  UCUDNN_RETURN_IF_ERROR(SetFirst(scaled_options.start, backward_));
  UCUDNN_RETURN_IF_ERROR(Linearise());
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(system, mirrored_, scaled_options));
  solution.largest_state /= scale;
  for (double& residual : solution.residuals) residual /= is_absolute ? scale : 1;
  layers_->StatesChanged(Direction::kAdjoint);
  UCUDNN_RETURN_IF_ERROR(layers_->Wait());
  UCUDNN_RETURN_IF_ERROR(exchange().Check());
  gradient_factor_ = to_solve_.h / scale;
  is_idle_ = true;
  if (!system.has_last()) return solution;
  UCUDNN_RETURN_IF_ERROR(layers_->Download(system.local().last(), first_adjoint));
  for (int64_t i = 0; scale != 1 && i < size; ++i) first_adjoint[i] /= scale;
  return solution;
}

Status StageSolver::AddGradients(Parameters& gradient, const GradientWatch& watch) {
  const int layers = end_ - begin_;
  const int coarsening = local_.level(0).coarsening;
  // `watch` sends complete gradients while later ones are computed. Replicas sum the gradients of
  // the same nodes in each call. So the number of layers per call is the same on all replicas,
  // however their blocks run.
  constexpr int kBlocksAtOnce = 32;
  const int at_once = watch ? kBlocksAtOnce * coarsening : layers;
  for (int begin = 0; begin < layers; begin += at_once) {
    const int end = std::min(begin + at_once, layers);
    UCUDNN_RETURN_IF_ERROR(layers_->AddGradients({begin, end}, gradient_factor_, gradient));
    if (!watch) continue;
    std::vector<NodeId> nodes;
    for (int n = begin; n < end; ++n) {
      const std::vector<NodeId>& of_step = part_.steps[n].transformation;
      nodes.insert(nodes.end(), of_step.begin(), of_step.end());
    }
    UCUDNN_RETURN_IF_ERROR(watch(nodes));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
