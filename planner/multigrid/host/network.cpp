#include "planner/multigrid/host/network.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text.h"

namespace ucudnn::multigrid {

using planner::NodeId;

// One stage, with what solves it both ways.
struct HostNetwork::StageSolve {
  StageSolve(Hierarchy levels, HostStage made_stage, double step)
      : hierarchy(std::move(levels)),
        mirrored(hierarchy.Mirrored()),
        stage(std::move(made_stage)),
        h(step) {}

  NodeId input = 0;
  NodeId output = 0;
  Hierarchy hierarchy;
  Hierarchy mirrored;  // of the adjoint
  HostStage stage;
  double h;
  std::unique_ptr<StageSolver> solver;  // null: the host's own, below
  std::unique_ptr<HostChain> chain;
  std::unique_ptr<BlockSystem> states;
  std::unique_ptr<Trajectory> trajectory;  // of the states
  std::unique_ptr<HostAdjoint> adjoint;
  std::unique_ptr<BlockSystem> adjoints;
  std::unique_ptr<Trajectory> adjoint_trajectory;
  multigrid::State first = nullptr;
  multigrid::State last_adjoint = nullptr;
};

namespace {

// The levels of a stage: one where coarsening leaves too few layers.
Result<Hierarchy> HierarchyOf(int steps, const NetworkSettings& settings, bool is_only) {
  Result<Hierarchy> made = Hierarchy::Make(steps, settings.coarsening, settings.levels);
  if (made.ok() || is_only) return made;
  return Hierarchy::Make(steps, settings.coarsening, 1);
}

bool IsSoftmax(const planner::Node& node) {
  return std::holds_alternative<planner::Softmax>(node.op);
}

}  // namespace

HostNetwork::HostNetwork(const ResidualChain& chain, const Parameters& parameters,
                         const NetworkSettings& settings)
    : chain_(chain), parameters_(parameters), settings_(settings) {}
HostNetwork::~HostNetwork() = default;

Result<std::unique_ptr<HostNetwork>> HostNetwork::Make(const ResidualChain& chain,
                                                       const Parameters& parameters,
                                                       const NetworkSettings& settings) {
  if (settings.batch < 1) {
    return Status::Error("a mini-batch of " + std::to_string(settings.batch) +
                         " images; 1 and more are expected");
  }
  UCUDNN_RETURN_IF_ERROR(CheckOptions(settings.forward));
  UCUDNN_RETURN_IF_ERROR(CheckOptions(settings.backward));
  std::unique_ptr<HostNetwork> network(new HostNetwork(chain, parameters, settings));
  UCUDNN_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Start(settings.lanes));
  network->lanes_ = std::make_unique<Lanes>(std::move(lanes));
  UCUDNN_RETURN_IF_ERROR(network->MakeSections());
  UCUDNN_RETURN_IF_ERROR(network->MakeStages());
  return network;
}

Status HostNetwork::MakeSections() {
  const size_t nodes = chain_.graph.nodes.size();
  values_.resize(nodes);
  gradients_.resize(nodes);
  layers_.resize(nodes);
  size_t scratch = 0;
  int64_t largest = 0;
  const auto keep = [&](NodeId id) {
    const int64_t size = chain_.shapes[id].Features() * settings_.batch;
    values_[id].resize(size);
    gradients_[id].resize(size);
    largest = std::max(largest, size);
  };
  for (const auto& section : chain_.sections) {
    if (const auto* stage = std::get_if<Stage>(&section)) {
      keep(stage->input);
      keep(stage->steps.back().sum);
      continue;
    }
    for (const NodeId id : std::get<SerialSection>(section).nodes) {
      const planner::Node& node = chain_.graph.nodes[id];
      keep(id);
      if (node.inputs.empty() || std::holds_alternative<planner::Add>(node.op) || IsSoftmax(node)) {
        continue;
      }
      layers_[id] = {node.op, chain_.shapes[node.inputs[0]], chain_.shapes[id]};
      UCUDNN_RETURN_IF_ERROR(CheckHostLayer(node.name, layers_[id]));
      UCUDNN_RETURN_IF_ERROR(CheckWeights(node.name, layers_[id], parameters_[id]));
      scratch = std::max(scratch, ScratchOf(layers_[id]));
    }
  }
  scratch_.resize(scratch);
  part_.resize(largest);
  const auto input = std::find_if(
      chain_.graph.nodes.begin(), chain_.graph.nodes.end(),
      [](const planner::Node& node) { return std::holds_alternative<planner::Input>(node.op); });
  input_ = static_cast<NodeId>(input - chain_.graph.nodes.begin());
  keep(input_);
  logits_ = static_cast<NodeId>(nodes) - 1;
  if (IsSoftmax(chain_.graph.nodes[logits_])) logits_ = chain_.graph.nodes[logits_].inputs[0];
  return Status::Ok();
}

Status HostNetwork::MakeStages() {
  const int lanes = lanes_->count();
  const auto stages =
      std::count_if(chain_.sections.begin(), chain_.sections.end(),
                    [](const auto& section) { return std::holds_alternative<Stage>(section); });
  bool solves_any = settings_.levels == 1;
  for (const auto& section : chain_.sections) {
    const auto* stage = std::get_if<Stage>(&section);
    if (stage == nullptr) continue;
    const int steps = static_cast<int>(stage->steps.size());
    UCUDNN_ASSIGN_OR_RETURN(Hierarchy hierarchy, HierarchyOf(steps, settings_, stages == 1));
    solves_any = solves_any || hierarchy.levels() > 1;
    UCUDNN_ASSIGN_OR_RETURN(HostStage made,
                            HostStage::Make(chain_, *stage, parameters_, settings_.batch, lanes));
    const double h = settings_.time > 0 ? settings_.time / steps : settings_.step;
    auto solve = std::make_unique<StageSolve>(std::move(hierarchy), std::move(made), h);
    solve->input = stage->input;
    solve->output = stage->steps.back().sum;
    if (settings_.stage_solvers != nullptr) {
      UCUDNN_ASSIGN_OR_RETURN(solve->solver,
                              settings_.stage_solvers->Make(
                                  {chain_, *stage, parameters_, solve->hierarchy, settings_, h}));
      stages_.push_back(std::move(solve));
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(solve->chain,
                            HostChain::Make(solve->stage, solve->hierarchy, settings_.coarse, h));
    UCUDNN_ASSIGN_OR_RETURN(solve->adjoint,
                            HostAdjoint::Make(solve->stage, solve->mirrored, settings_.coarse, h));
    stages_.push_back(std::move(solve));
  }
  if (!solves_any) {
    return Status::Error("no stage of " + Quoted(chain_.graph.name) +
                         " has layers enough for two levels; a smaller coarsening or --levels 1 is "
                         "expected");
  }
  return Status::Ok();
}

int64_t HostNetwork::input_size() const { return chain_.shapes[input_].Features(); }
int64_t HostNetwork::output_size() const { return chain_.shapes[logits_].Features(); }

int64_t HostNetwork::state_bytes() const {
  int64_t bytes = 0;
  for (const auto& stage : stages_) {
    const int64_t states =
        BlockSystem::StatesFor(stage->hierarchy, lanes_->count(), settings_.storage);
    bytes += states * stage->stage.state_size() * static_cast<int64_t>(sizeof(double));
  }
  return bytes;
}

LayerCall HostNetwork::CallOf(NodeId id) {
  return {layers_[id], parameters_[id], settings_.batch, scratch_.data()};
}

Status HostNetwork::RunNode(NodeId id) {
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

Result<Solution> HostNetwork::SolveOnHost(StageSolve& stage, const SolveOptions& options) {
  if (!stage.states) {
    UCUDNN_ASSIGN_OR_RETURN(stage.first, stage.chain->Create());
    UCUDNN_ASSIGN_OR_RETURN(
        BlockSystem made,
        BlockSystem::Make(*stage.chain, stage.hierarchy, *lanes_, settings_.storage, stage.first));
    stage.states = std::make_unique<BlockSystem>(std::move(made));
  }
  std::copy(values_[stage.input].begin(), values_[stage.input].end(),
            HostStates::Numbers(stage.first));
  UCUDNN_RETURN_IF_ERROR(stage.states->SetFirst(stage.first));
  UCUDNN_RETURN_IF_ERROR(stage.chain->WeightsChanged());
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(*stage.states, stage.hierarchy, options));
  const double* const last = HostStates::Numbers(stage.states->last());
  std::copy_n(last, values_[stage.output].size(), values_[stage.output].begin());
  if (stage.trajectory) stage.trajectory->Reset();
  return solution;
}

Status HostNetwork::SolveForward(StageSolve& stage) {
  SolveOptions options(settings_.forward);
  if (options.start == Start::kPrevious && !knows_states_) options.start = Start::kBroadcast;
  UCUDNN_ASSIGN_OR_RETURN(
      Solution solution,
      stage.solver ? stage.solver->Solve(values_[stage.input], options, values_[stage.output])
                   : SolveOnHost(stage, options));
  forward_.push_back({stage.stage.steps(), stage.hierarchy.levels(), std::move(solution)});
  return Status::Ok();
}

Result<const double*> HostNetwork::Forward(const double* images) {
  forward_.clear();
  std::copy_n(images, values_[input_].size(), values_[input_].begin());
  size_t next_stage = 0;
  for (const auto& section : chain_.sections) {
    if (std::holds_alternative<Stage>(section)) {
      UCUDNN_RETURN_IF_ERROR(SolveForward(*stages_[next_stage++]));
      continue;
    }
    for (const NodeId id : std::get<SerialSection>(section).nodes) {
      UCUDNN_RETURN_IF_ERROR(RunNode(id));
    }
  }
  return static_cast<const double*>(values_[logits_].data());
}

Status HostNetwork::RunNodeBackward(NodeId id, Parameters& gradient) {
  const planner::Node& node = chain_.graph.nodes[id];
  if (node.inputs.empty() || IsSoftmax(node)) return Status::Ok();
  const std::vector<double>& dy = gradients_[id];
  const auto add = [&](NodeId input, const double* part) {
    std::vector<double>& sum = gradients_[input];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  };
  if (std::holds_alternative<planner::Add>(node.op)) {
    for (const NodeId input : node.inputs) add(input, dy.data());
    return Status::Ok();
  }
  const NodeId input = node.inputs[0];
  const LayerCall call = CallOf(id);
  AddGradient(call, values_[input].data(), dy.data(), 1, gradient[id]);
  if (input == input_) return Status::Ok();
  TransposedJacobian(call, values_[input].data(), values_[id].data(), dy.data(), part_.data());
  add(input, part_.data());
  return Status::Ok();
}

Status HostNetwork::SolveBackward(StageSolve& stage, Parameters& gradient) {
  if (!stage.adjoints) {
    UCUDNN_ASSIGN_OR_RETURN(stage.last_adjoint, stage.adjoint->Create());
    UCUDNN_ASSIGN_OR_RETURN(BlockSystem made,
                            BlockSystem::Make(*stage.adjoint, stage.mirrored, *lanes_,
                                              settings_.storage, stage.last_adjoint));
    stage.adjoints = std::make_unique<BlockSystem>(std::move(made));
    UCUDNN_ASSIGN_OR_RETURN(Trajectory states, Trajectory::Make(*stage.states, stage.hierarchy,
                                                                *stage.chain, lanes_->count()));
    stage.trajectory = std::make_unique<Trajectory>(std::move(states));
    UCUDNN_ASSIGN_OR_RETURN(Trajectory adjoints, Trajectory::Make(*stage.adjoints, stage.mirrored,
                                                                  *stage.adjoint, lanes_->count()));
    stage.adjoint_trajectory = std::make_unique<Trajectory>(std::move(adjoints));
    stage.adjoint->LineariseAt(*stage.trajectory);
  }
  std::copy(gradients_[stage.output].begin(), gradients_[stage.output].end(),
            HostStates::Numbers(stage.last_adjoint));
  UCUDNN_RETURN_IF_ERROR(stage.adjoints->SetFirst(stage.last_adjoint));
  UCUDNN_RETURN_IF_ERROR(stage.adjoint->WeightsChanged());
  SolveOptions options = settings_.backward;
  if (options.start == Start::kPrevious && !knows_states_) options.start = Start::kBroadcast;
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(*stage.adjoints, stage.mirrored, options));
  const int steps = stage.stage.steps();
  backward_.push_back({steps, stage.hierarchy.levels(), std::move(solution)});
  stage.adjoint_trajectory->Reset();
  // Layer n's gradient needs the state before it and the adjoint behind it.
  const int coarsening = stage.hierarchy.level(0).coarsening;
  UCUDNN_RETURN_IF_ERROR(
      lanes_->ForEach((steps + coarsening - 1) / coarsening, [&](int block, int lane) -> Status {
        const int end = std::min((block + 1) * coarsening, steps);
        for (int n = block * coarsening; n < end; ++n) {
          UCUDNN_ASSIGN_OR_RETURN(const State state, stage.trajectory->At(n, lane));
          UCUDNN_ASSIGN_OR_RETURN(const State adjoint,
                                  stage.adjoint_trajectory->At(steps - 1 - n, lane));
          stage.stage.AddStepGradient(n, stage.h, HostStates::Numbers(state),
                                      HostStates::Numbers(adjoint), gradient, lane);
        }
        return Status::Ok();
      }));
  const double* const first = HostStates::Numbers(stage.adjoints->last());
  std::vector<double>& sum = gradients_[stage.input];
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += first[i];
  return Status::Ok();
}

Status HostNetwork::Backward(const double* logits_gradient, Parameters& gradient) {
  backward_.clear();
  for (auto& sum : gradients_) std::fill(sum.begin(), sum.end(), 0.0);
  std::copy_n(logits_gradient, gradients_[logits_].size(), gradients_[logits_].begin());
  size_t next_stage = stages_.size();
  for (auto section = chain_.sections.rbegin(); section != chain_.sections.rend(); ++section) {
    if (std::holds_alternative<Stage>(*section)) {
      UCUDNN_RETURN_IF_ERROR(SolveBackward(*stages_[--next_stage], gradient));
      continue;
    }
    const auto& nodes = std::get<SerialSection>(*section).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      UCUDNN_RETURN_IF_ERROR(RunNodeBackward(*id, gradient));
    }
  }
  std::reverse(backward_.begin(), backward_.end());
  knows_states_ = true;
  return Status::Ok();
}

Parameters DrawParameters(const ResidualChain& chain, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<planner::Node>& nodes = chain.graph.nodes;
  std::vector<bool> is_activated(nodes.size());
  for (const planner::Node& node : nodes) {
    if (std::holds_alternative<planner::Activation>(node.op)) is_activated[node.inputs[0]] = true;
  }
  Parameters parameters(nodes.size());
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].inputs.empty()) continue;
    const HostLayer layer = {nodes[id].op, chain.shapes[nodes[id].inputs[0]], chain.shapes[id]};
    const WeightCounts counts = WeightCountsOf(layer);
    NodeWeights& weights = parameters[id];
    weights.bias.assign(counts.bias, 0.0);
    weights.weights.assign(counts.weights, 1.0);
    const bool is_convolution = std::holds_alternative<planner::Convolution>(layer.op);
    if (!is_convolution && !std::holds_alternative<planner::FullyConnected>(layer.op)) continue;
    const int64_t outputs =
        is_convolution ? layer.output.c : std::get<planner::FullyConnected>(layer.op).outputs;
    const double inputs = static_cast<double>(counts.weights) / static_cast<double>(outputs);
    std::normal_distribution<double> normal(0, std::sqrt((is_activated[id] ? 2 : 1) / inputs));
    for (double& weight : weights.weights) weight = normal(random);
  }
  return parameters;
}

Parameters ZerosLike(const Parameters& parameters) {
  Parameters zeros(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    zeros[i].weights.assign(parameters[i].weights.size(), 0.0);
    zeros[i].bias.assign(parameters[i].bias.size(), 0.0);
  }
  return zeros;
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
