#include "planner/cost/cost_model.h"

#include "planner/cost/transfer.h"

namespace ucudnn::planner {

double MachineCostModel::UpdateMs(const PlannedLayer& layer,
                                  const ParallelConfiguration& configuration) const {
  return planner::UpdateMs(machine_, update_, configuration, layer.parameters * kElementBytes);
}

double MachineCostModel::ReductionMs(const PlannedLayer& layer,
                                     const ParallelConfiguration& configuration) const {
  if (configuration.degrees.r == 1) return 0;
  TrafficCounter counter(machine_);
  return 2 * TransferMs(machine_, CountReduction(counter, layer, configuration), kElementBytes);
}

TransferTables MachineCostModel::Transfer(const PlannedLayer& consumer, int input,
                                          std::span<const ParallelConfiguration> from,
                                          std::span<const ParallelConfiguration> to) const {
  const Shape& tensor = consumer.inputs[static_cast<size_t>(input)].shape;
  std::vector<Parts> held;
  std::vector<Parts> needed;
  for (const auto& configuration : from) {
    held.push_back(OutputParts(tensor, configuration.degrees));
  }
  for (const auto& configuration : to) {
    needed.push_back(NeededParts(consumer, input, configuration.degrees));
  }
  TransferTables tables;
  tables.ms.reserve(from.size() * to.size());
  tables.copied_bytes.reserve(from.size() * to.size());
  TrafficCounter counter(machine_);
  for (size_t u = 0; u < from.size(); ++u) {
    for (size_t v = 0; v < to.size(); ++v) {
      const Traffic& traffic =
          counter.Count(held[u], from[u].first_device, needed[v], to[v].first_device);
      tables.ms.push_back(2 * TransferMs(machine_, traffic, kElementBytes));
      tables.copied_bytes.push_back(traffic.most_received * kElementBytes);
    }
  }
  return tables;
}

int64_t LayerMemoryBytes(const PlannedLayer& layer, const Degrees& degrees, int optimizer_states,
                         int64_t workspace_bytes) {
  const auto part = [&](int64_t numbers) {
    return (numbers + degrees.WeightParts() - 1) / degrees.WeightParts();
  };
  const int64_t parameters =
      part(layer.parameters) * (2 + optimizer_states) + part(layer.fixed_parameters);
  const int64_t output = Elements(OutputParts(layer.output, degrees).Of(0));
  const int64_t partial = degrees.r > 1 ? Elements(ComputedParts(layer.output, degrees).Of(0)) : 0;
  const auto inner = static_cast<int64_t>(InnerElements(layer) * LargestShare(layer, degrees));
  return (parameters + output + partial + inner) * kElementBytes + workspace_bytes;
}

}  // namespace ucudnn::planner
