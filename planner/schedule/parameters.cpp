#include "planner/schedule/parameters.h"

#include <functional>
#include <numeric>
#include <string>

#include "planner/cost/partition.h"

namespace ucudnn::planner {
namespace {

// The channels of a layer that one device computes, sums over and keeps.
struct Channels {
  Interval computed;
  Interval summed;
  Interval kept;
};

// One interval per axis of the tensor; empty if the device's part is not a box.
using Ranges = std::vector<Interval>;

struct Division {
  std::string name;
  std::vector<int64_t> shape;
  std::function<Ranges(const Channels&)> ranges;
};

std::vector<int64_t> WithWindow(std::vector<int64_t> shape, const Spatial& window, int rank) {
  for (size_t axis = rank == 3 ? 0 : 1; axis < window.size(); ++axis) shape.push_back(window[axis]);
  return shape;
}

Division OfKept(const char* name, int64_t channels) {
  return {name, {channels}, [](const Channels& of) { return Ranges{of.kept}; }};
}

Division FilterOf(const Convolution& op, const Shape& input) {
  const int64_t inputs = input.c / op.groups;
  return {"weight", WithWindow({op.filters, inputs}, op.window, input.spatial_rank),
          [inputs, grouped = op.groups > 1](const Channels& of) {
            return Ranges{of.computed, grouped ? Interval{0, inputs} : of.summed};
          }};
}

// torch stores the filters of a transposed convolution as [input channel][output channel within its
// group].
Division FilterOf(const TransposedConvolution& op, const Shape& input) {
  const int64_t inputs = input.c / op.groups;
  const int64_t outputs = op.filters / op.groups;
  return {"weight", WithWindow({input.c, outputs}, op.window, input.spatial_rank),
          [inputs, outputs](const Channels& of) {
            const auto& [begin, end] = of.computed;
            const int64_t first = begin / outputs;
            const int64_t last = CeilDivide(end, outputs);
            const Interval groups = {first * inputs, last * inputs};
            if (last == first + 1) {
              return Ranges{groups, {begin - first * outputs, end - first * outputs}};
            }
            const bool whole = begin % outputs == 0 && end % outputs == 0;
            return whole ? Ranges{groups, {0, outputs}} : Ranges{};
          }};
}

Division MatrixOf(int64_t outputs, int64_t channels, int64_t positions) {
  return {"weight", {outputs, channels * positions}, [positions](const Channels& of) {
            return Ranges{of.computed, {of.summed.begin * positions, of.summed.end * positions}};
          }};
}

// Returns the parameters of the node's operator, weights first.
std::vector<Division> DivisionsOf(const Node& node, const Shape& input) {
  const Operator& op = node.op;
  std::vector<Division> divisions;
  const auto add = [&](bool has, Division division) {
    if (has) divisions.push_back(std::move(division));
  };
  if (const auto* convolution = std::get_if<Convolution>(&op)) {
    add(true, FilterOf(*convolution, input));
    add(convolution->bias, OfKept("bias", convolution->filters));
  } else if (const auto* transposed = std::get_if<TransposedConvolution>(&op)) {
    add(true, FilterOf(*transposed, input));
    add(transposed->bias, OfKept("bias", transposed->filters));
  } else if (const auto* connected = std::get_if<FullyConnected>(&op)) {
    add(true, MatrixOf(connected->outputs, input.c, input.Features() / input.c));
    add(connected->bias, OfKept("bias", connected->outputs));
  } else if (const auto* linear = std::get_if<Linear>(&op)) {
    add(true, MatrixOf(linear->outputs, input.c, 1));
    add(linear->bias, OfKept("bias", linear->outputs));
  } else if (const auto* norm = std::get_if<BatchNormalization>(&op)) {
    add(norm->scale_and_shift, OfKept("weight", input.c));
    add(norm->scale_and_shift, OfKept("bias", input.c));
  } else if (const auto* groups = std::get_if<GroupNormalization>(&op)) {
    add(groups->scale_and_shift, OfKept("weight", input.c));
    add(groups->scale_and_shift, OfKept("bias", input.c));
  } else if (const auto* scale = std::get_if<Scale>(&op)) {
    add(scale->scale, OfKept("weight", input.c));
    add(scale->shift, OfKept("bias", input.c));
  } else if (const auto* opaque = std::get_if<Opaque>(&op)) {
    const bool has = opaque->sums && node.parameters.size() == 2;
    add(has, OfKept("weight", input.c));
    add(has, OfKept("bias", input.c));
  }
  return divisions;
}

int64_t Product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

bool AreThoseOf(const std::vector<Parameter>& parameters, const std::vector<Division>& divisions) {
  if (parameters.size() != divisions.size()) return false;
  for (size_t at = 0; at < parameters.size(); ++at) {
    if (parameters[at].elements != Product(divisions[at].shape)) return false;
  }
  return true;
}

std::vector<Division> Undivided(const std::vector<Parameter>& parameters) {
  std::vector<Division> whole;
  for (const Parameter& parameter : parameters) {
    whole.push_back({"parameter" + std::to_string(whole.size()),
                     {parameter.elements},
                     [elements = parameter.elements](const Channels&) {
                       return Ranges{{0, elements}};
                     }});
  }
  return whole;
}

}  // namespace

Result<std::vector<ScheduledParameter>> DivideParameters(
    const Node& node, const Shape& input, const PlannedLayer& layer,
    const ParallelConfiguration& configuration) {
  const Degrees& degrees = configuration.degrees;
  std::vector<Division> divisions = DivisionsOf(node, input);
  if (!node.parameters.empty() && !AreThoseOf(node.parameters, divisions)) {
    if (degrees.WeightParts() > 1) {
      return Status::Error("its parameters are not those of its operator; expected " +
                           std::string("a configuration that divides neither c nor r"));
    }
    divisions = Undivided(node.parameters);
  }
  const Parts computed = ComputedParts(layer.output, degrees);
  const Parts kept = OutputParts(layer.output, degrees);
  std::vector<ScheduledParameter> parameters;
  for (const Division& division : divisions) {
    ScheduledParameter parameter{division.name, division.shape, {}};
    if (!node.parameters.empty()) {
      parameter.tensor = node.parameters[parameters.size()].tensor;
      parameter.trained = node.parameters[parameters.size()].trained;
    }
    for (int worker = 0; worker < degrees.Workers(); ++worker) {
      const int sum = worker / (degrees.h * degrees.w) % degrees.r;
      const Channels channels = {computed.Of(worker)[kAxisC], SummedPart(layer, degrees, sum),
                                 kept.Of(worker)[kAxisC]};
      ParameterPart part{configuration.first_device + worker, division.ranges(channels)};
      if (part.ranges.empty()) {
        return Status::Error("output channels " + std::to_string(channels.computed.begin) + " to " +
                             std::to_string(channels.computed.end) +
                             " cut its groups; expected parts of whole groups, or in one group");
      }
      if (Elements(parameter.shape, part) > 0) parameter.parts.push_back(std::move(part));
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

}  // namespace ucudnn::planner
