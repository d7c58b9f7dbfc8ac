// The time that a device takes for one or several layers at once, either modelled from the layers'
// CUDA kernels or measured. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/layer_kernels.h"

namespace ucudnn::multigrid {

// Layers of one kind that run at once: there are `groups` inputs, and `per_group` layers are
// applied to each. If several blocks run the same layer, each block is a group. If a step of the
// coarse operator `sum` applies several layers to one input, these are one group. Both numbers are
// 1 or more.
struct LayerBatch {
  int kind = 0;
  double groups = 1;
  double per_group = 1;
};

struct RunCost {
  double ms = 0;        // time on a device that runs nothing else
  double work_ms = 0;   // time that this work would take if it kept the whole device busy
  double launches = 0;  // number of calls that the host makes

  RunCost& operator+=(const RunCost& other) {
    ms += other.ms;
    work_ms += other.work_ms;
    launches += other.launches;
    return *this;
  }
  // Returns the share of the device that the CUDA kernels use when nothing else runs.
  double Share() const { return ms > 0 ? std::min(1.0, work_ms / ms) : 0; }
};

class LayerTimes {
 public:
  virtual ~LayerTimes() = default;
  virtual RunCost Cost(LayerPass pass, const LayerBatch& batch) const = 0;
};

// Models the least time of each CUDA kernel on one fp32 device. A CUDA kernel takes kernel_us and
// then the longer of
//   the time of its operations, at the share of the peak that its threads can keep busy, and
//   the time of its bytes, at the memory's bandwidth.
// A batch has one launch for each CUDA kernel of its kind, as a grouped convolution has.
class RooflineTimes : public LayerTimes {
 public:
  RooflineTimes(const planner::Device& device, const std::vector<LayerKind>& kinds)
      : device_(device), kinds_(kinds) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const planner::Device device_;
  const std::vector<LayerKind> kinds_;
};

// Gives the measured times of single layers on a device that one layer fills, such as one core of a
// processor. Layers that run at once therefore take as long as layers one after the other.
class MeasuredTimes : public LayerTimes {
 public:
  struct Kind {
    std::array<double, kLayerPasses> ms = {};
    // The time of one layer among several that share an input, as with the coarse operator `sum`.
    // Only the forward pass uses it; 0 means that it is not measured.
    double shared_ms = 0;
  };
  // Takes one Kind for each LayerKind.
  explicit MeasuredTimes(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
};

// Gives the measured times of steps on a device, one step alone and several at once; `model` gives
// the times of kinds that were not measured. Every step beyond the first adds the same time, which
// follows from the measured batch. For several groups of several steps, multiplies the factor for
// the number of groups by the factor for the steps of a group.
class MeasuredBatches : public LayerTimes {
 public:
  // The time of `layers` steps that run at once.
  struct Batch {
    int layers = 2;
    double ms = 0;
  };
  struct Kind {
    bool is_measured = false;
    std::array<double, kLayerPasses> ms = {};  // by pass: time of one step; 0: not measured
    std::array<Batch, kLayerPasses> side_by_side = {};  // by pass: steps that have an input each
    Batch together;  // the forward pass of steps that share an input
  };
  // Takes one Kind for each LayerKind. `model` must outlive the object.
  MeasuredBatches(std::vector<Kind> kinds, const LayerTimes& model)
      : kinds_(std::move(kinds)), model_(model) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
  const LayerTimes& model_;
};

}  // namespace ucudnn::multigrid
