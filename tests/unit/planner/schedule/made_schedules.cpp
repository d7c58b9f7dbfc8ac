#include "tests/unit/planner/schedule/made_schedules.h"

#include "planner/cost/deepa_paper.h"

namespace ucudnn::planner {

Planned Pose(const Graph& graph, int batch, const Machine& machine,
             const ConfigurationOptions& configurations) {
  PlanningOptions options;
  options.configurations = configurations;
  options.configurations.is_accepted = HasRule(graph);
  options.update = UpdateModel::kOwner;
  return {graph,
          machine,
          *BuildPlanningProblem(*BuildLayerGraph(graph, batch), machine.Devices(),
                                DeePaPaperModel(), options),
          {}};
}

Assignment RandomAssignment(const PlanningProblem& problem, std::mt19937& random) {
  Assignment assignment;
  for (const auto& configurations : problem.configurations) {
    assignment.push_back(static_cast<int>(random() % configurations.size()));
  }
  return assignment;
}

Graph ManyOperators() {
  GraphBuilder net("many-operators");
  const auto square = [](int filters, int window, int stride, int pad, int groups = 1) {
    return Convolution{filters,       {1, window, window}, {1, stride, stride},
                       {0, pad, pad}, {1, 1, 1},           groups};
  };
  const NodeId data = net.Add("data", Input{4, {1, 13, 13}}, {});
  const NodeId first = net.Add("first", square(8, 3, 1, 1), {data});
  const NodeId grouped = net.Add("grouped", square(8, 3, 1, 1, 4), {first});
  const NodeId sum = net.Add("sum", Add{}, {first, grouped});
  const NodeId norm = net.Add("norm", BatchNormalization{}, {sum});
  const NodeId relu = net.Add("relu", Activation{}, {norm});
  const NodeId branch = net.Add("branch", square(8, 5, 1, 2), {relu});
  const NodeId join = net.Add("join", Add{}, {branch, sum});
  const NodeId both = net.Add("both", Concat{}, {join, relu});
  const NodeId pool =
      net.Add("pool", Pooling{PoolingKind::kMaximum, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}}, {both});
  TransposedConvolution up{6, {1, 2, 2}, {1, 2, 2}};
  up.groups = 2;
  const NodeId wide = net.Add("wide", up, {pool});
  const NodeId fc6 = net.Add("fc6", FullyConnected{8}, {wide});
  const NodeId fc7 = net.Add("fc7", FullyConnected{10}, {net.Add("relu6", Activation{}, {fc6})});
  net.Add("prob", Softmax{}, {fc7});
  return *net.Build();
}

}  // namespace ucudnn::planner
