// How long a device takes for layers, one or many at once: modelled from their kernels, or
// measured. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/layer_kernels.h"

namespace ucudnn::multigrid {

// Layers of one kind that run at once: `groups` of them have inputs of their own, as the same layer
// of several blocks; `per_group` apply to one input, as the layers of a block do in the coarse
// operator `sum`. Both are 1 or more.
struct LayerBatch {
  int kind = 0;
  double groups = 1;
  double per_group = 1;
};

struct RunCost {
  double ms = 0;        // alone on the device
  double work_ms = 0;   // of that, what it would take of a device that it fills
  double launches = 0;  // calls that the host makes for it

  RunCost& operator+=(const RunCost& other) {
    ms += other.ms;
    work_ms += other.work_ms;
    launches += other.launches;
    return *this;
  }
  // Of the device, while it runs alone.
  double Share() const { return ms > 0 ? std::min(1.0, work_ms / ms) : 0; }
};

class LayerTimes {
 public:
  virtual ~LayerTimes() = default;
  virtual RunCost Cost(LayerPass pass, const LayerBatch& batch) const = 0;
};

// The least time of each kernel of one fp32 device. It takes kernel_us and then the longer of
//   its operations at the share of the peak that its threads can keep busy,
//   its bytes at the memory's bandwidth.
// A batch is one launch for each kernel of its kind, as grouped convolutions are.
class RooflineTimes : public LayerTimes {
 public:
  RooflineTimes(const planner::Device& device, const std::vector<LayerKind>& kinds)
      : device_(device), kinds_(kinds) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const planner::Device device_;
  const std::vector<LayerKind> kinds_;
};

// Times of single layers that were measured where one layer fills the device, as on one core of a
// processor: layers that run at once take as long as one after the other.
class MeasuredTimes : public LayerTimes {
 public:
  struct Kind {
    std::array<double, kLayerPasses> ms = {};
    // Of one layer among several of one input, as in the coarse operator `sum`; forward alone.
    double shared_ms = 0;
  };
  // One for each kind.
  explicit MeasuredTimes(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
};

// Times of steps that were measured on a device, one alone and several at once; of what was not
// measured a model's. Between them, and beyond, times grow by what one more step adds.
class MeasuredBatches : public LayerTimes {
 public:
  // Of `layers` steps at once.
  struct Batch {
    int layers = 2;
    double ms = 0;
  };
  struct Kind {
    bool is_measured = false;
    std::array<double, kLayerPasses> ms = {};           // of one; 0: not measured
    std::array<Batch, kLayerPasses> side_by_side = {};  // each with an input of its own
    Batch together;                                     // of one input, forward
  };
  // One for each kind; `model` outlives it.
  MeasuredBatches(std::vector<Kind> kinds, const LayerTimes& model)
      : kinds_(std::move(kinds)), model_(model) {}
  RunCost Cost(LayerPass pass, const LayerBatch& batch) const override;

 private:
  const std::vector<Kind> kinds_;
  const LayerTimes& model_;
};

}  // namespace ucudnn::multigrid
