// DeePa's term compute(c): how long the slowest worker of a layer computes in the forward and the
// backward pass. Thread-compatible.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "base/status.h"
#include "planner/cost/configuration.h"
#include "planner/machine/machine.h"
#include "planning/measurement_store.h"

namespace ucudnn::planner {

class ComputeModel {
 public:
  struct Cost {
    double ms = 0;
    int64_t workspace_bytes = 0;
    bool measured = false;  // whether `ms` is measured; else it is estimated
  };
  virtual ~ComputeModel() = default;
  virtual Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const = 0;
};

// Estimates a layer's time by a roofline of one device, in fp32. A pass (forward, gradient of the
// input, gradient of the weights) lasts as long as the longer of its arithmetic at peak speed and
// one read or write of every tensor involved. Each follower also reads and writes the output once
// in the forward and once in the backward pass. Gradients that the step does not need cost nothing,
// and neither does adding up partial sums.
class Roofline : public ComputeModel {
 public:
  explicit Roofline(const Device& device) : device_(device) {}
  Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;

 private:
  const Device device_;
};

// Looks up measured times in a CSV table. Its columns are layer, n, c, h, w, r (a degree that is
// absent or empty is 1), time_ms and, optionally, workspace_bytes. If the table has no row for a
// layer with these degrees, `elsewhere` computes the cost.
class ComputeTable : public ComputeModel {
 public:
  // An error names the file, the line and the value. `elsewhere` must outlive the table.
  static Result<ComputeTable> Parse(std::string_view csv, const std::string& file,
                                    const ComputeModel& elsewhere);
  Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;

 private:
  explicit ComputeTable(const ComputeModel& elsewhere) : elsewhere_(elsewhere) {}

  const ComputeModel& elsewhere_;
  std::map<std::tuple<std::string, int, int, int, int, int>, Cost> rows_;
};

// Computes the cost of a convolution from a store's measurements. The passes are forward and, where
// the step needs them, backward_data and backward_filter. In each pass a worker divides its share
// of the batch into micro-batches, as mu-cuDNN's WR does: the fastest division within `limit_bytes`
// of workspace gives the time. A worker's share of height and width is its share of the input,
// without halos. The store is asked for measurements of tensors aligned to `alignment` bytes.
//
// `elsewhere` computes the cost of all other operators. It also computes the cost of a convolution
// if a pass lacks measurements, or if the number of groups is more than 1 and not a multiple of
// degree c.
class MeasuredCompute : public ComputeModel {
 public:
  // Both references must outlive the model.
  MeasuredCompute(planning::MeasurementStore& store, planning::Platform platform,
                  size_t limit_bytes, const ComputeModel& elsewhere, int alignment = 1)
      : store_(store),
        platform_(std::move(platform)),
        limit_bytes_(limit_bytes),
        elsewhere_(elsewhere),
        alignment_(alignment) {}
  Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;

 private:
  planning::MeasurementStore& store_;
  const planning::Platform platform_;
  const size_t limit_bytes_;
  const ComputeModel& elsewhere_;
  const int alignment_;
};

// Returns the fraction of the layer's operations that its largest worker computes. It is the
// worker's fraction of the output's elements, times its fraction of the channels that each element
// sums over.
double LargestShare(const PlannedLayer& layer, const Degrees& degrees);

}  // namespace ucudnn::planner
