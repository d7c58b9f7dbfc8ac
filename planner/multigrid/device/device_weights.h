// The weights of a stage's steps on a device: one copy in the order of the steps, and copies side
// by side for steps that run at once. Also the layout of the weights' gradients. Thread-compatible.
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

// `count` groups of `fan` consecutive steps of one kind. The beginnings of successive groups are
// `distance` steps of that kind apart.
struct Arrangement {
  int kind = 0;
  int first = 0;
  int distance = 1;
  int count = 1;
  int fan = 1;

  bool operator<(const Arrangement& other) const;
  // Returns whether the groups are contiguous in the block of all steps, so that they need no copy.
  bool is_contiguous() const { return count == 1 || distance == fan; }
};

// By layer of the kind. The numbers of a layer are in the order of the groups and, within a group,
// of the steps.
using ArrangedNumbers = std::vector<LayerNumbers>;

// Memory for the numbers of an arrangement's steps, with the layout of ArrangedNumbers.
struct ArrangedMemory {
  static Result<ArrangedMemory> Make(const DeviceTarget& target, const StageShapes& shapes,
                                     const Arrangement& arrangement);

  DeviceNumbers memory;
  ArrangedNumbers numbers;
};

// The layout of the numbers of all steps of a stage in one block: kind after kind, and within a
// kind layer after layer. For each layer, the weights of all steps come first, and then the biases
// of all steps.
class NumbersLayout {
 public:
  // Everything to which the arguments refer must outlive the layout.
  NumbersLayout(const DeviceTarget& target, const StagePart& stage, const StageShapes& shapes);

  int64_t count() const { return count_; }  // numbers in a block, a multiple of kRow
  static constexpr int64_t kRow = 1024;
  // Returns the addresses of the numbers of a kind in the block at `block`, from step `number` on.
  ArrangedNumbers InOrder(Address block, int kind, int number) const;
  // Copies between a block, in which groups are apart, and `together`, in which they are
  // contiguous. kGather copies out of the block, kScatter into the block.
  enum class Move { kGather, kScatter };
  Status Copy(DeviceLane& lane, Move move, Address block, const Arrangement& arrangement,
              const ArrangedNumbers& together) const;
  // Copies the numbers of `layers`, which are in ascending order, between a block and a message of
  // CountOf(layers) numbers. The message has the same layout on all ranks.
  Status CopyLayers(DeviceLane& lane, Move move, Address block, std::span<const int> layers,
                    Address message) const;
  int64_t CountOf(std::span<const int> layers) const;

  // Where a block has the numbers of one node in one step.
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
  std::vector<int64_t> begins_;  // by kind: where the kind begins in a block
  int64_t count_ = 0;
  std::vector<Place> places_;
};

class DeviceWeights {
 public:
  static Result<std::unique_ptr<DeviceWeights>> Make(const DeviceTarget& target,
                                                     const StagePart& stage,
                                                     const StageShapes& shapes);

  // Returns the weights in `arrangement`, as of the last Upload or InOrderChanged. Later work of
  // `lane` may read them as long as this object exists.
  Result<const ArrangedNumbers*> Arrange(const Arrangement& arrangement, DeviceLane& lane);

  // Uploads the host's current parameters, and waits.
  Status Upload(DeviceLane& lane);
  // Copies the weights at in_order(), which have changed, into all arrangements.
  Status InOrderChanged(DeviceLane& lane);

  const NumbersLayout& layout() const { return layout_; }
  Address in_order() const { return in_order_->data(); }
  // Returns the host's current parameters in the layout of a block, with 0 in the gaps.
  std::vector<double> HostBlock() const;

 private:
  struct Arranged {
    ArrangedNumbers numbers;
    std::optional<ArrangedMemory> memory;  // none if the arrangement is contiguous in in_order_
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
