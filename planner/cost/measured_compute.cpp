#include <algorithm>
#include <array>
#include <optional>

#include "base/csv.h"
#include "base/text.h"
#include "planner/cost/compute.h"
#include "planner/cost/partition.h"
#include "planning/workspace_reuse.h"

namespace ucudnn::planner {
namespace {

// Returns the convolution that the largest worker computes. Returns none if the number of groups is
// more than 1 and not a multiple of degree c.
std::optional<ConvolutionProblem> WorkerProblem(const PlannedLayer& layer, const Degrees& degrees) {
  const auto& convolution = std::get<Convolution>(layer.op);
  const Shape& input = layer.inputs.front().shape;
  ConvolutionProblem problem;
  problem.spatial_rank = input.spatial_rank;
  problem.n = static_cast<int32_t>(Part(input.n, degrees.n, 0).Length());
  problem.c = static_cast<int32_t>(SummedPart(layer, degrees, 0).Length());
  problem.k = static_cast<int32_t>(Part(convolution.filters, degrees.c, 0).Length());
  problem.groups = convolution.groups;
  if (convolution.groups > 1) {
    if (convolution.groups % degrees.c != 0) return std::nullopt;
    problem.groups /= degrees.c;
    problem.c /= degrees.c;
  }
  const std::array<int, kMaxSpatial> parts = {1, degrees.h, degrees.w};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    problem.x[axis] = static_cast<int32_t>(Part(input.extents[axis], parts[axis], 0).Length());
  }
  problem.w = convolution.window;
  problem.pad = convolution.pad;
  problem.stride = convolution.stride;
  problem.dilation = convolution.dilation;
  SetPackedStrides(problem);
  return problem;
}

}  // namespace

ComputeModel::Cost MeasuredCompute::Compute(const PlannedLayer& layer,
                                            const Degrees& degrees) const {
  std::optional<ConvolutionProblem> problem;
  if (std::holds_alternative<Convolution>(layer.op)) problem = WorkerProblem(layer, degrees);
  if (!problem) return elsewhere_.Compute(layer, degrees);
  problem->alignment = alignment_;
  Cost cost;
  cost.measured = true;
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    if (operation == Operation::kBackwardData && !layer.inputs.front().has_gradient) continue;
    if (operation == Operation::kBackwardFilter && !layer.trains_weights) continue;
    problem->operation = operation;
    const auto measured = store_.Read(*problem, platform_);
    std::optional<Configuration> best;
    if (measured.ok()) {
      std::vector<MicroConfiguration> rows;
      for (const planning::Measurement& row : measured->rows) rows.push_back(row.micro);
      best = planning::OptimizeWorkspaceReuse(rows, problem->n, LegalStep(*problem), limit_bytes_);
    }
    if (!best) return elsewhere_.Compute(layer, degrees);
    cost.ms += best->TimeMs();
    cost.workspace_bytes =
        std::max(cost.workspace_bytes, static_cast<int64_t>(best->WorkspaceBytes()));
  }
  return cost;
}

Result<ComputeTable> ComputeTable::Parse(std::string_view csv, const std::string& file,
                                         const ComputeModel& elsewhere) {
  UCUDNN_ASSIGN_OR_RETURN(
      const CsvTable rows,
      ParseCsv(csv, file, {{"layer", "time_ms"}, {"n", "c", "h", "w", "r", "workspace_bytes"}}));
  ComputeTable table(elsewhere);
  for (size_t row = 0; row < rows.rows(); ++row) {
    const std::string* const layer = rows.Field(row, "layer");
    const std::string* const time = rows.Field(row, "time_ms");
    if (layer == nullptr || time == nullptr) {
      return rows.Error(row, "expected a layer and its time_ms");
    }
    std::array<int, 5> degrees = {1, 1, 1, 1, 1};
    const std::array<const char*, 5> names = {"n", "c", "h", "w", "r"};
    for (size_t axis = 0; axis < degrees.size(); ++axis) {
      const std::string* const field = rows.Field(row, names[axis]);
      if (field != nullptr && (!ReadNumber(*field, degrees[axis]) || degrees[axis] < 1)) {
        return rows.Error(
            row, std::string(names[axis]) + " " + Quoted(*field) + "; expected 1 or more parts");
      }
    }
    Cost cost;
    cost.measured = true;
    if (!ReadNumber(*time, cost.ms) || !(cost.ms >= 0 && cost.ms <= 1e9)) {
      return rows.Error(row, "time_ms " + Quoted(*time) + "; expected 0 to 1e9");
    }
    const std::string* const workspace = rows.Field(row, "workspace_bytes");
    if (workspace != nullptr &&
        (!ReadNumber(*workspace, cost.workspace_bytes) || cost.workspace_bytes < 0)) {
      return rows.Error(row, "workspace_bytes " + Quoted(*workspace) + "; expected 0 or more");
    }
    const auto key = std::tuple(*layer, degrees[0], degrees[1], degrees[2], degrees[3], degrees[4]);
    if (!table.rows_.emplace(key, cost).second) {
      return rows.Error(row, Quoted(*layer) + " has these degrees already");
    }
  }
  return table;
}

ComputeModel::Cost ComputeTable::Compute(const PlannedLayer& layer, const Degrees& degrees) const {
  const auto row =
      rows_.find(std::tuple(layer.name, degrees.n, degrees.c, degrees.h, degrees.w, degrees.r));
  return row == rows_.end() ? elsewhere_.Compute(layer, degrees) : row->second;
}

}  // namespace ucudnn::planner
