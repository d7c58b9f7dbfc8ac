// The weights of a stage's steps on a device: each step's once, in their order, and again side by
// side for the steps that run at once. Thread-compatible.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/device/step_shape.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// What a chain on a device is made of. All outlive what is made of it.
struct DeviceStage {
  const ResidualChain& chain;
  const Stage& stage;
  const Parameters& parameters;
  const Hierarchy& hierarchy;
  CoarseOperator coarse = CoarseOperator::kInject;
  double h = 1;
  int batch = 1;
  size_t workspace_limit = 0;  // bytes
  // The layers that the levels call for, where those are not all; only they have parameters.
  std::span<const int> used = {};
  bool has_gradients = true;  // of the steps' numbers
};

DeviceStage OnDevice(const StagePart& part, size_t workspace_limit);

// `count` groups of `fan` steps of one kind that follow each other; a group begins `distance` steps
// of that kind behind the one before.
struct Arrangement {
  int kind = 0;
  int first = 0;
  int distance = 1;
  int count = 1;
  int fan = 1;

  bool operator<(const Arrangement& other) const;
  // Whether the groups lie one behind the other as they are.
  bool is_contiguous() const { return count == 1 || distance == fan; }
};

// By layer of the kind; the numbers of a group's steps one behind the other, and so the groups.
using ArrangedNumbers = std::vector<LayerNumbers>;

class DeviceWeights {
 public:
  static Result<std::unique_ptr<DeviceWeights>> Make(const DeviceTarget& target,
                                                     const DeviceStage& stage,
                                                     const StageShapes& shapes);

  // The numbers in that arrangement, as those of the last Upload are: of what `lane` is given from
  // now on. They are the weights' and live as long.
  Result<const ArrangedNumbers*> Arrange(const Arrangement& arrangement, DeviceLane& lane);

  // Brings the parameters, as they are now, to the device; waits.
  Status Upload(DeviceLane& lane);

 private:
  struct Arranged {
    ArrangedNumbers numbers;
    std::vector<DeviceNumbers> memory;  // of what is not contiguous
  };

  DeviceWeights(const DeviceTarget& target, const DeviceStage& stage, const StageShapes& shapes)
      : target_(target), stage_(stage), shapes_(shapes) {}
  // One behind the other as the arrangement has them, by the device.
  Status Gather(DeviceLane& lane, const Arrangement& arrangement, Arranged& arranged) const;

  DeviceTarget target_;
  DeviceStage stage_;
  const StageShapes& shapes_;
  std::vector<DeviceNumbers> memory_;
  std::vector<ArrangedNumbers> in_order_;  // by kind
  std::map<Arrangement, std::unique_ptr<Arranged>> arranged_;
  std::vector<double> staging_;
};

// Gradients of the steps of an arrangement with fan 1, laid out as its numbers.
class DeviceGradients {
 public:
  // `shapes` outlive them.
  static Result<DeviceGradients> Make(const DeviceTarget& target, const StageShapes& shapes,
                                      const Arrangement& arrangement);

  const ArrangedNumbers& numbers() const { return numbers_; }
  // From step `number` of the arrangement on.
  ArrangedNumbers Behind(int number) const;
  // Steps begin..end - 1 of the arrangement, times `factor`.
  struct Share {
    int begin = 0;
    int end = 0;
    double factor = 1;
  };
  Share All(double factor) const { return {0, arrangement_.count, factor}; }
  // gradient of each step's nodes += factor * what is on the device; waits.
  Status AddTo(DeviceLane& lane, const DeviceStage& stage, const StageShapes& shapes,
               const Share& share, Parameters& gradient) const;

 private:
  DeviceGradients(const DeviceTarget& target, const StepShape& shape,
                  const Arrangement& arrangement)
      : target_(target), shape_(&shape), arrangement_(arrangement) {}

  DeviceTarget target_;
  const StepShape* shape_;
  Arrangement arrangement_;
  std::vector<DeviceNumbers> memory_;
  ArrangedNumbers numbers_;
};

}  // namespace ucudnn::multigrid
