// Tests how layers are distributed over ranks.
#include <gtest/gtest.h>

#include "planner/multigrid/distributed/partition.h"

namespace ucudnn::multigrid {
namespace {

TEST(Partition, CutsBetweenBlocksOfDistributedLevels) {
  const Hierarchy hierarchy = *Hierarchy::Make(70, {4}, 3);  // 70, 17 and 4 layers
  const std::vector<double> costs(70, 1.0);
  EXPECT_EQ(MakePartition(hierarchy, 3, costs, {}, 1)->begins, (std::vector<int>{0, 24, 48, 70}));
  EXPECT_EQ(MakePartition(hierarchy, 3, costs, {}, 2)->begins, (std::vector<int>{0, 32, 48, 70}));
  EXPECT_EQ(MakePartition(hierarchy, 4, costs, {}, 3)->begins,
            (std::vector<int>{0, 16, 32, 48, 70}));
}

TEST(Partition, BalancesWhatLayersCost) {
  const Hierarchy hierarchy = *Hierarchy::Make(16, {2}, 2);
  std::vector<double> costs(16, 1.0);
  costs[14] = costs[15] = 6;
  EXPECT_EQ(MakePartition(hierarchy, 2, costs, {}, 1)->begins, (std::vector<int>{0, 14, 16}));
}

TEST(Partition, DistributesCoarseLevelsWhereMessagesAreCheap) {
  const Hierarchy hierarchy = *Hierarchy::Make(64, {4}, 3);  // 64, 16 and 4 layers
  const std::vector<double> costs(64, 1.0);
  EXPECT_EQ(MakePartition(hierarchy, 4, costs, {}, std::nullopt)->distributed, 3);
  // Here it is cheaper to keep the coarse level on one device: a message to this device and one
  // back cost less than a message from each device to the next.
  EXPECT_EQ(MakePartition(hierarchy, 4, costs, {.message = 4}, std::nullopt)->distributed, 2);
  EXPECT_EQ(MakePartition(hierarchy, 4, costs, {.message = 100}, std::nullopt)->distributed, 1);
  // With 9 devices only level 0 is distributed, because the others have fewer than 9 blocks.
  EXPECT_EQ(MakePartition(hierarchy, 9, costs, {}, std::nullopt)->distributed, 1);
}

TEST(Hierarchies, TheMirroredOneHasTheSameCPoints) {
  const Hierarchy hierarchy = *Hierarchy::Make(70, {4, 3}, 3);
  const Hierarchy mirrored = hierarchy.Mirrored();
  for (int level = 0; level < hierarchy.levels(); ++level) {
    const Level& shape = hierarchy.level(level);
    const Level& reverse = mirrored.level(level);
    ASSERT_EQ(reverse.blocks(), shape.blocks());
    for (int block = 0; block <= shape.blocks(); ++block) {
      EXPECT_EQ(reverse.c_point(shape.blocks() - block), shape.steps - shape.c_point(block));
    }
  }
  EXPECT_EQ(mirrored.level(0).lead, 2);
  EXPECT_EQ(mirrored.level(1).lead, 2);
  EXPECT_EQ(mirrored.level(2).lead, 0);
}

}  // namespace
}  // namespace ucudnn::multigrid
