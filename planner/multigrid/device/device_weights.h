// The weights of a stage's steps on a device: each step's once, in their order, and again side by
// side for the steps that run at once; and their gradients. Thread-compatible.
#pragma once

#include <map>
#include <memory>
#include <optional>
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

// Memory for the numbers of the steps of an arrangement, laid out so.
struct ArrangedMemory {
  static Result<ArrangedMemory> Make(const DeviceTarget& target, const StageShapes& shapes,
                                     const Arrangement& arrangement);

  DeviceNumbers memory;
  ArrangedNumbers numbers;
};

// How the numbers of all steps of a stage lie in one block: kind by kind, the steps of a kind in
// their order.
class NumbersLayout {
 public:
  // What the arguments refer to outlives the layout.
  NumbersLayout(const DeviceTarget& target, const StagePart& stage, const StageShapes& shapes);

  int64_t count() const { return count_; }  // of the block, a multiple of kRow
  static constexpr int64_t kRow = 1024;
  // From step `number` of a kind on, in the block at `block`.
  ArrangedNumbers InOrder(Address block, int kind, int number) const;
  // Between a block, where groups lie apart, and `together`, one group behind the other.
  enum class Move { kGather, kScatter };
  Status Copy(DeviceLane& lane, Move move, Address block, const Arrangement& arrangement,
              const ArrangedNumbers& together) const;
  // The numbers of `layers` of the stage, in rising order, between a block and a message of
  // CountOf(layers) numbers, which is laid out alike on all ranks.
  Status CopyLayers(DeviceLane& lane, Move move, Address block, std::span<const int> layers,
                    Address message) const;
  int64_t CountOf(std::span<const int> layers) const;

  // The numbers of one layer's node in a block.
  struct Place {
    int step;
    planner::NodeId node;
    std::vector<double> NodeWeights::*member;
    int64_t begin, count;
  };
  const std::vector<Place>& places() const { return places_; }

 private:
  template <typename Visit>
  Status ForEachStretch(std::span<const int> layers, const Visit& visit) const;

  DeviceTarget target_;
  const StageShapes& shapes_;
  std::vector<int64_t> begins_;  // by kind
  int64_t count_ = 0;
  std::vector<Place> places_;
};

class DeviceWeights {
 public:
  static Result<std::unique_ptr<DeviceWeights>> Make(const DeviceTarget& target,
                                                     const StagePart& stage,
                                                     const StageShapes& shapes);

  // The numbers in that arrangement, as those of the last Upload or Arranged are: of what `lane` is
  // given from now on. They are the weights' and live as long.
  Result<const ArrangedNumbers*> Arrange(const Arrangement& arrangement, DeviceLane& lane);

  // Brings the parameters, as the host has them now, to the device; waits.
  Status Upload(DeviceLane& lane);
  // What is in order has changed on the device: so does what lies side by side.
  Status InOrderChanged(DeviceLane& lane);

  const NumbersLayout& layout() const { return layout_; }
  Address in_order() const { return in_order_->data(); }
  // The parameters, as the host has them now, as a block has them; 0 between them.
  std::vector<double> HostBlock() const;

 private:
  struct Arranged {
    ArrangedNumbers numbers;
    std::optional<ArrangedMemory> memory;  // of what is not contiguous
  };

  DeviceWeights(const DeviceTarget& target, const StagePart& stage, const StageShapes& shapes)
      : target_(target), stage_(stage), shapes_(shapes), layout_(target, stage, shapes) {}

  DeviceTarget target_;
  StagePart stage_;
  const StageShapes& shapes_;
  NumbersLayout layout_;
  std::optional<DeviceNumbers> in_order_;
  std::map<Arrangement, std::unique_ptr<Arranged>> arranged_;
};

}  // namespace ucudnn::multigrid
