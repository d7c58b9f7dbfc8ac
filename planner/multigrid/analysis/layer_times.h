// Tells how long a device takes for one layer or many at once: modelled from their kernels, or
// measured. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/layer_kernels.h"

namespace ucudnn::multigrid {

// Layers of one kind that run at once: `groups` inputs, and `per_group` layers applied to each.
// Several blocks that run the same layer are groups; the layers that a step of the coarse operator
// `sum` applies to one input are a group. Both numbers are 1 or more.
struct LayerBatch {
  int kind = 0;
  double groups = 1;
  double per_group = 1;
};

struct RunCost {
  double ms = 0;        // time if nothing else runs on the device
  double work_ms = 0;   // the time that the same work takes on a device that it fills
  double launches = 0;  // calls that the host makes

  RunCost& operator+=(const RunCost& other) {
    ms += other.ms;
    work_ms += other.work_ms;
    launches += other.launches;
    return *this;
  }
  // Returns the share of the device that the kernels use while they run alone.
  double Share() const { return ms > 0 ? std::min(1.0, work_ms / ms) : 0; }
};

class LayerTimes {
 public:
  virtual ~LayerTimes() = default;
  virtual RunCost Cost(LayerPass pass, const LayerBatch& batch) const = 0;
};

// Models the least time of each kernel of one fp32 device. A kernel takes kernel_us and then the
// longer of
//   its operations at the share of the peak that its threads can keep busy,
//   its bytes at the memory's bandwidth.
// A batch is one launch for each kernel of its kind, like a grouped convolution.
class RooflineTimes : public LayerTimes {
 public:
  RooflineTimes(const planner::Device& device, const std::vector<LayerKind>& kinds)
      : device_(device), kinds_(kinds) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const planner::Device device_;
  const std::vector<LayerKind> kinds_;
};

// Gives the measured times of single layers, on a device that one layer fills, such as one core of
// a processor: layers that run at once take as long as layers one after the other.
class MeasuredTimes : public LayerTimes {
 public:
  struct Kind {
    std::array<double, kLayerPasses> ms = {};
    // The time of one layer among several that share an input, as in the coarse operator `sum`.
    // Used for the forward pass only; 0: not measured.
    double shared_ms = 0;
  };
  // Takes one Kind for each LayerKind.
  explicit MeasuredTimes(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
};

// Gives the times of steps that were measured on a device, one alone and several at once, and a
// model's times for the others. Between and beyond the measured batch, each further step adds the
// same time.
class MeasuredBatches : public LayerTimes {
 public:
  // The time of `layers` steps at once.
  struct Batch {
    int layers = 2;
    double ms = 0;
  };
  struct Kind {
    bool is_measured = false;
    std::array<double, kLayerPasses> ms = {};           // of one step; 0: not measured
    std::array<Batch, kLayerPasses> side_by_side = {};  // of steps with an input each
    Batch together;                                     // of steps that share an input, forward
  };
  // Takes one Kind for each LayerKind. `model` outlives the object.
  MeasuredBatches(std::vector<Kind> kinds, const LayerTimes& model)
      : kinds_(std::move(kinds)), model_(model) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
  const LayerTimes& model_;
};

}  // namespace ucudnn::multigrid
