// compute(c): how long a layer's slowest worker computes, forward and backward. Thread-compatible.
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
    bool measured = false;  // else estimated
  };
  virtual ~ComputeModel() = default;
  virtual Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const = 0;
};

// The least time a device can take, in fp32: per pass (forward, gradient of the input, gradient of
// the weights) the longer of arithmetic at its peak and one reading or writing of every tensor
// involved. Each follower reads and writes the output once more in both directions; adding partial
// sums up takes no time beside their transfer. A layer that
// reads only the network's input needs no gradient of it.
class Roofline : public ComputeModel {
 public:
  explicit Roofline(const Device& device) : device_(device) {}
  Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;

 private:
  const Device device_;
};

// Times someone measured: CSV with the columns layer, n, c, h, w, r (degrees, 1 where absent) and
// time_ms, and optionally workspace_bytes. Where the table has no row, `elsewhere` answers.
class ComputeTable : public ComputeModel {
 public:
  // An error names file, line and value. `elsewhere` outlives the table.
  static Result<ComputeTable> Parse(std::string_view csv, const std::string& file,
                                    const ComputeModel& elsewhere);
  Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;

 private:
  explicit ComputeTable(const ComputeModel& elsewhere) : elsewhere_(elsewhere) {}

  const ComputeModel& elsewhere_;
  std::map<std::tuple<std::string, int, int, int, int, int>, Cost> rows_;
};

// Convolutions from a measurement store: the fastest division of each worker's share of the batch
// (mu-cuDNN's WR) that needs at most `limit_bytes` of workspace, forward, backward_data and
// backward_filter. Where one of them lacks measurements, and for other operators, `elsewhere`
// answers. A worker's share of height and width is that of the input it holds: halos are left out.
// `alignment` (bytes) is that under which the measurements were made.
class MeasuredCompute : public ComputeModel {
 public:
  // Both references outlive the model.
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

// The largest worker's share of the operations: of the output's elements, and of the channels that
// each sums over.
double LargestShare(const PlannedLayer& layer, const Degrees& degrees);

}  // namespace ucudnn::planner
