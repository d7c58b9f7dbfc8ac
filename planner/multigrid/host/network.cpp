#include "planner/multigrid/host/network.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "planner/multigrid/host/host_solvers.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

using planner::NodeId;

// A stage, with its solver on this rank.
struct NetworkSolver::StageSolve {
  NodeId input = 0;
  NodeId output = 0;
  int steps = 0;
  const SectionPlace* place = nullptr;
  std::unique_ptr<StageSolver> solver;  // null if only other ranks have the stage's layers
  bool loads_weights = true;            // whether LoadWeights is due before the next solve
};

namespace {

bool IsSoftmax(const planner::Node& node) {
  return std::holds_alternative<planner::Softmax>(node.op);
}

}  // namespace

NetworkSolver::NetworkSolver(const ResidualChain& chain, const Parameters& parameters,
                             const NetworkSettings& settings)
    : chain_(chain), parameters_(parameters), settings_(settings), peers_(settings.peers) {
  if (peers_ != nullptr) return;
  alone_ = std::make_unique<ThreadRanks>(1);
  peers_ = &alone_->At(0);
}
NetworkSolver::~NetworkSolver() = default;

Result<std::unique_ptr<NetworkSolver>> NetworkSolver::Make(const ResidualChain& chain,
                                                           const Parameters& parameters,
                                                           const NetworkSettings& settings) {
  if (settings.batch < 1) {
    return Status::Error("a mini-batch of " + std::to_string(settings.batch) +
                         " images; 1 and more are expected");
  }
  UCUDNN_RETURN_IF_ERROR(CheckOptions(settings.forward));
  UCUDNN_RETURN_IF_ERROR(CheckOptions(settings.backward));
  std::unique_ptr<NetworkSolver> network(new NetworkSolver(chain, parameters, settings));
  UCUDNN_ASSIGN_OR_RETURN(network->placement_,
                          PlaceNetwork(chain, settings, network->peers_->size()));
  if (settings.stage_solvers == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(network->host_solvers_, HostSolvers::Make(settings.lanes));
  }
  UCUDNN_RETURN_IF_ERROR(network->MakeSections());
  UCUDNN_RETURN_IF_ERROR(network->MakeStages());
  return network;
}

Status NetworkSolver::PrepareNode(NodeId id) {
  const planner::Node& node = chain_.graph.nodes[id];
  if (node.inputs.empty() || std::holds_alternative<planner::Add>(node.op) || IsSoftmax(node)) {
    return Status::Ok();
  }
  layers_[id] = LayerOf(chain_, id);
  UCUDNN_RETURN_IF_ERROR(CheckHostLayer(node.name, layers_[id]));
  UCUDNN_RETURN_IF_ERROR(CheckWeights(node.name, layers_[id], parameters_[id]));
  scratch_.resize(std::max(scratch_.size(), ScratchOf(layers_[id])));
  return Status::Ok();
}

Status NetworkSolver::MakeSections() {
  const int rank = peers_->rank();
  const size_t nodes = chain_.graph.nodes.size();
  values_.resize(nodes);
  gradients_.resize(nodes);
  layers_.resize(nodes);
  imports_.resize(chain_.sections.size());
  const auto keep = [&](NodeId id) {
    const int64_t size = chain_.shapes[id].Features() * settings_.batch;
    values_[id].resize(size);
    gradients_[id].resize(size);
    part_.resize(std::max(part_.size(), static_cast<size_t>(size)));
  };
  for (size_t at = 0; at < chain_.sections.size(); ++at) {
    const SectionPlace& place = placement_.sections[at];
    if (const auto* stage = std::get_if<Stage>(&chain_.sections[at])) {
      const Partition& partition = place.partition;
      if (rank == 0 || rank == placement_.homes[stage->input]) keep(stage->input);
      if (rank + 1 == partition.ranks()) keep(stage->steps.back().sum);
      continue;
    }
    for (const NodeId id : std::get<SerialSection>(chain_.sections[at]).nodes) {
      if (place.rank == rank) {
        keep(id);
        UCUDNN_RETURN_IF_ERROR(PrepareNode(id));
      }
      for (const NodeId input : chain_.graph.nodes[id].inputs) {
        std::vector<NodeId>& imports = imports_[at];
        if (placement_.homes[input] == place.rank ||
            std::find(imports.begin(), imports.end(), input) != imports.end()) {
          continue;
        }
        imports.push_back(input);
        if (place.rank == rank) keep(input);
      }
    }
  }
  const auto input = std::find_if(
      chain_.graph.nodes.begin(), chain_.graph.nodes.end(),
      [](const planner::Node& node) { return std::holds_alternative<planner::Input>(node.op); });
  input_ = static_cast<NodeId>(input - chain_.graph.nodes.begin());
  if (rank == placement_.homes[input_]) keep(input_);
  logits_ = static_cast<NodeId>(nodes) - 1;
  if (IsSoftmax(chain_.graph.nodes[logits_])) logits_ = chain_.graph.nodes[logits_].inputs[0];
  return Status::Ok();
}

Status NetworkSolver::MakeStages() {
  is_kept_.resize(chain_.graph.nodes.size());
  for (size_t at = 0; at < chain_.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&chain_.sections[at]);
    if (stage == nullptr) continue;
    const int steps = static_cast<int>(stage->steps.size());
    const double h = settings_.time > 0 ? settings_.time / steps : settings_.step;
    auto solve = std::make_unique<StageSolve>();
    solve->input = stage->input;
    solve->output = stage->steps.back().sum;
    solve->steps = steps;
    solve->place = &placement_.sections[at];
    const Partition& partition = solve->place->partition;
    if (peers_->rank() < partition.ranks()) {
      StageSolvers& solvers =
          settings_.stage_solvers != nullptr ? *settings_.stage_solvers : *host_solvers_;
      const StagePart whole = {.chain = chain_,
                               .stage = *stage,
                               .parameters = parameters_,
                               .hierarchy = solve->place->hierarchy,
                               .coarse = settings_.coarse,
                               .batch = settings_.batch,
                               .h = h,
                               .storage = settings_.storage,
                               .notes_timeline = settings_.notes_timeline};
      UCUDNN_ASSIGN_OR_RETURN(
          solve->solver, solvers.Make({whole, partition, *peers_, settings_.forward,
                                       settings_.backward, settings_.trains, settings_.replicas}));
      for (const ResidualStep& step : stage->steps) {
        for (const NodeId id : step.transformation) is_kept_[id] = solve->solver->keeps_weights();
      }
    }
    stages_.push_back(std::move(solve));
  }
  return Status::Ok();
}

int64_t NetworkSolver::input_size() const { return chain_.shapes[input_].Features(); }
int64_t NetworkSolver::output_size() const { return chain_.shapes[logits_].Features(); }

LayerCall NetworkSolver::CallOf(NodeId id) {
  return {layers_[id], parameters_[id], settings_.batch, scratch_.data()};
}

Status NetworkSolver::RunNode(NodeId id) {
  const planner::Node& node = chain_.graph.nodes[id];
  if (node.inputs.empty() || IsSoftmax(node)) return Status::Ok();
  std::vector<double>& value = values_[id];
  if (std::holds_alternative<planner::Add>(node.op)) {
    std::fill(value.begin(), value.end(), 0.0);
    for (const NodeId input : node.inputs) {
      for (size_t i = 0; i < value.size(); ++i) value[i] += values_[input][i];
    }
    return Status::Ok();
  }
  multigrid::Forward(CallOf(id), values_[node.inputs[0]].data(), value.data());
  return Status::Ok();
}

Status NetworkSolver::BringValue(NodeId id, int to) {
  const int home = placement_.homes[id];
  if (home == to) return Status::Ok();
  if (peers_->rank() == home) return peers_->Send(to, values_[id]);
  if (peers_->rank() == to) return ReceiveInto(*peers_, home, values_[id]);
  return Status::Ok();
}

Status NetworkSolver::SolveForward(StageSolve& stage) {
  SolveOptions options(settings_.forward);
  if (options.start == Start::kPrevious && !knows_states_) options.start = Start::kBroadcast;
  UCUDNN_RETURN_IF_ERROR(BringValue(stage.input, 0));
  Solution solution;
  if (stage.solver) {
    if (stage.loads_weights) UCUDNN_RETURN_IF_ERROR(stage.solver->LoadWeights());
    stage.loads_weights = false;
    UCUDNN_ASSIGN_OR_RETURN(solution,
                            stage.solver->SolveForward(values_[stage.input].data(), options,
                                                       values_[stage.output].data()));
  }
  forward_.push_back({stage.steps, stage.place->hierarchy.levels(), std::move(solution)});
  if (stage.solver) forward_.back().timeline = stage.solver->Timeline();
  return Status::Ok();
}

Result<const double*> NetworkSolver::Forward(const double* images) {
  forward_.clear();
  std::copy_n(images, values_[input_].size(), values_[input_].begin());
  size_t next_stage = 0;
  for (size_t at = 0; at < chain_.sections.size(); ++at) {
    if (std::holds_alternative<Stage>(chain_.sections[at])) {
      UCUDNN_RETURN_IF_ERROR(SolveForward(*stages_[next_stage++]));
      continue;
    }
    const int rank = placement_.sections[at].rank;
    for (const NodeId id : imports_[at]) UCUDNN_RETURN_IF_ERROR(BringValue(id, rank));
    if (rank != peers_->rank()) continue;
    for (const NodeId id : std::get<SerialSection>(chain_.sections[at]).nodes) {
      UCUDNN_RETURN_IF_ERROR(RunNode(id));
    }
  }
  if (logits_rank() != peers_->rank()) return static_cast<const double*>(nullptr);
  return static_cast<const double*>(values_[logits_].data());
}

Status NetworkSolver::AddPart(NodeId id, int from) {
  const int home = placement_.homes[id];
  const int64_t size = chain_.shapes[id].Features() * settings_.batch;
  const std::span<double> part(part_.data(), peers_->rank() == home || peers_->rank() == from
                                                 ? static_cast<size_t>(size)
                                                 : 0);
  if (home != from && peers_->rank() == from) return peers_->Send(home, part);
  if (peers_->rank() != home) return Status::Ok();
  if (home != from) UCUDNN_RETURN_IF_ERROR(ReceiveInto(*peers_, from, part));
  std::vector<double>& sum = gradients_[id];
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  return Status::Ok();
}

Status NetworkSolver::RunNodeBackward(NodeId id, int rank, Parameters& gradient) {
  const planner::Node& node = chain_.graph.nodes[id];
  if (node.inputs.empty() || IsSoftmax(node)) return Status::Ok();
  const bool is_here = rank == peers_->rank();
  const std::vector<double>& dy = gradients_[id];
  if (std::holds_alternative<planner::Add>(node.op)) {
    for (const NodeId input : node.inputs) {
      if (is_here) std::copy(dy.begin(), dy.end(), part_.begin());
      UCUDNN_RETURN_IF_ERROR(AddPart(input, rank));
    }
    return Status::Ok();
  }
  const NodeId input = node.inputs[0];
  if (is_here) AddGradient(CallOf(id), values_[input].data(), dy.data(), 1, gradient[id]);
  if (input == input_) return Status::Ok();
  if (is_here) {
    TransposedJacobian(CallOf(id), values_[input].data(), values_[id].data(), dy.data(),
                       part_.data());
  }
  return AddPart(input, rank);
}

void NetworkSolver::ParametersChanged() {
  for (const auto& stage : stages_) stage->loads_weights = true;
}

Status NetworkSolver::Descend(const Descent& descent) {
  for (const auto& stage : stages_) {
    if (stage->solver && stage->solver->keeps_weights()) {
      UCUDNN_RETURN_IF_ERROR(stage->solver->Descend(descent));
    } else {
      stage->loads_weights = true;
    }
  }
  return Status::Ok();
}

Status NetworkSolver::ReadKept(Parameters& parameters) {
  for (const auto& stage : stages_) {
    if (!stage->solver || !stage->solver->keeps_weights()) continue;
    UCUDNN_RETURN_IF_ERROR(stage->solver->ReadWeights(parameters));
  }
  return Status::Ok();
}

Status NetworkSolver::SolveBackward(StageSolve& stage) {
  SolveOptions options = settings_.backward;
  if (options.start == Start::kPrevious && !knows_states_) options.start = Start::kBroadcast;
  Solution solution;
  if (stage.solver) {
    UCUDNN_ASSIGN_OR_RETURN(solution, stage.solver->SolveBackward(gradients_[stage.output].data(),
                                                                  options, part_.data()));
  }
  backward_.push_back({stage.steps, stage.place->hierarchy.levels(), std::move(solution)});
  return AddPart(stage.input, 0);
}

Status NetworkSolver::AddGradients(StageSolve& stage, Parameters& gradient,
                                   const GradientWatch& watch, Gradients which) {
  if (!stage.solver) return Status::Ok();
  if (!stage.solver->keeps_weights()) return stage.solver->AddGradients(gradient, watch);
  return which == Gradients::kAll ? stage.solver->AddGradients(gradient, nullptr) : Status::Ok();
}

Status NetworkSolver::Backward(const double* logits_gradient, Parameters& gradient,
                               const GradientWatch& watch, Gradients which) {
  backward_.clear();
  for (auto& sum : gradients_) std::fill(sum.begin(), sum.end(), 0.0);
  if (logits_rank() == peers_->rank()) {
    std::copy_n(logits_gradient, gradients_[logits_].size(), gradients_[logits_].begin());
  }
  size_t next_stage = stages_.size();
  for (size_t at = chain_.sections.size(); at-- > 0;) {
    if (std::holds_alternative<Stage>(chain_.sections[at])) {
      StageSolve& stage = *stages_[--next_stage];
      UCUDNN_RETURN_IF_ERROR(SolveBackward(stage));
      UCUDNN_RETURN_IF_ERROR(AddGradients(stage, gradient, watch, which));
      continue;
    }
    const auto& nodes = std::get<SerialSection>(chain_.sections[at]).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      UCUDNN_RETURN_IF_ERROR(RunNodeBackward(*id, placement_.sections[at].rank, gradient));
    }
    if (watch && placement_.sections[at].rank == peers_->rank()) {
      UCUDNN_RETURN_IF_ERROR(watch(nodes));
    }
  }
  std::reverse(backward_.begin(), backward_.end());
  knows_states_ = true;
  return Status::Ok();
}

int64_t StateBytes(const ResidualChain& chain, const Placement& placement,
                   const NetworkSettings& settings, int rank, Passes passes) {
  const bool trains = passes == Passes::kForwardAndBackward;
  int64_t numbers = 0;
  for (size_t at = 0; at < chain.sections.size(); ++at) {
    const auto* stage = std::get_if<Stage>(&chain.sections[at]);
    const Partition& partition = placement.sections[at].partition;
    const Hierarchy& hierarchy = placement.sections[at].hierarchy;
    if (stage == nullptr || rank >= partition.ranks()) continue;
    const Hierarchy own = hierarchy.Part(partition.begins[rank], partition.begins[rank + 1],
                                         std::min(partition.distributed + 1, hierarchy.levels()));
    // Each system needs one additional state, for the first state that a solve is given. A system
    // with an inlet also has its own first state on each coarse level, and may keep the first state
    // of the solve before (Start::kPrevious).
    const auto states_of = [&](const Hierarchy& levels, bool has_inlet) {
      return BlockSystem::StatesFor(levels, settings.lanes, settings.storage) + 1 +
             (has_inlet ? levels.levels() : 0);
    };
    int64_t states = states_of(own, rank > 0);
    if (trains) {
      states += states_of(own.Mirrored(), rank + 1 < partition.ranks());
      states += 2 * Trajectory::StatesFor(own, settings.lanes, settings.storage);
    }
    if (partition.Gathers(hierarchy) && rank == 0) {
      const Hierarchy gathered = hierarchy.CoarseLevels(partition.distributed);
      const int64_t steps = gathered.level(0).steps;
      // Each step of the finest gathered level has a right side. The adjoint also needs the states
      // at which these steps are linearised.
      const int64_t of_system =
          BlockSystem::StatesFor(gathered, settings.lanes, Storage::kAll) + steps;
      states += trains ? 2 * of_system + steps : of_system;
    }
    numbers += states * stage->shape.Features();
  }
  return numbers * settings.batch * static_cast<int64_t>(sizeof(double));
}

int64_t StateBytes(const ResidualChain& chain, const NetworkSettings& settings, Passes passes) {
  const Result<Placement> placement = PlaceNetwork(chain, settings, 1);
  return placement.ok() ? StateBytes(chain, *placement, settings, 0, passes) : 0;
}

Parameters DrawParameters(const ResidualChain& chain, uint64_t seed,
                          const std::function<bool(NodeId)>& is_wanted) {
  std::mt19937_64 random(seed);
  const std::vector<planner::Node>& nodes = chain.graph.nodes;
  std::vector<bool> is_activated(nodes.size());
  for (const planner::Node& node : nodes) {
    if (std::holds_alternative<planner::Activation>(node.op)) is_activated[node.inputs[0]] = true;
  }
  Parameters parameters(nodes.size());
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].inputs.empty()) continue;
    const HostLayer layer = LayerOf(chain, static_cast<NodeId>(id));
    const WeightCounts counts = WeightCountsOf(layer);
    const bool is_kept = !is_wanted || is_wanted(static_cast<NodeId>(id));
    NodeWeights& weights = parameters[id];
    weights.bias.assign(is_kept ? counts.bias : 0, 0.0);
    weights.weights.assign(is_kept ? counts.weights : 0, 1.0);
    const bool is_convolution = std::holds_alternative<planner::Convolution>(layer.op);
    if (!is_convolution && !std::holds_alternative<planner::FullyConnected>(layer.op)) continue;
    const int64_t outputs =
        is_convolution ? layer.output.c : std::get<planner::FullyConnected>(layer.op).outputs;
    const double inputs = static_cast<double>(counts.weights) / static_cast<double>(outputs);
    std::normal_distribution<double> normal(0, std::sqrt((is_activated[id] ? 2 : 1) / inputs));
    for (double& weight : weights.weights) weight = normal(random);
    if (is_kept) continue;
    // Unwanted weights are drawn, too, and dropped. So the next node gets the same random numbers
    // as if they were wanted.
    for (int64_t i = 0; i < counts.weights; ++i) normal(random);
  }
  return parameters;
}

Parameters ParametersOf(int rank, const Placement& placement, const Parameters& all) {
  Parameters own(all.size());
  for (size_t id = 0; id < all.size(); ++id) {
    if (placement.owners[id] == rank) own[id] = all[id];
  }
  return own;
}

double CrossEntropy(const double* logits, const std::vector<int>& labels, int64_t classes,
                    double* gradient) {
  const auto images = static_cast<double>(labels.size());
  double loss = 0;
  for (const int label : labels) {
    const double largest = *std::max_element(logits, logits + classes);
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - largest);
    loss += (std::log(sum) - (logits[label] - largest)) / images;
    for (int64_t i = 0; i < classes; ++i) {
      gradient[i] = (std::exp(logits[i] - largest) / sum - (i == label ? 1 : 0)) / images;
    }
    logits += classes;
    gradient += classes;
  }
  return loss;
}

}  // namespace ucudnn::multigrid
