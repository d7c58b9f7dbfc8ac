// Compares update times with closed forms. Bandwidths in the formulas are in bytes per ms.
#include "planner/cost/update.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/planner/made_machine.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kBytes = 12'345'678;
const Machine kFlat = MadeMachine({{"bus", 16, 8, 10}});
constexpr double kFlatRate = 8e6;
constexpr double kFlatLatency = 0.01;
// Four nodes of four devices each.
const Machine kNodes = MadeMachine({{"inner", 4, 80, 5}, {"outer", 4, 10, 20}});

double Ms(const Machine& machine, UpdateModel model, const Degrees& degrees) {
  return UpdateMs(machine, model, {degrees, 0}, kBytes);
}

const UpdateModel kModels[] = {UpdateModel::kParameterServer, UpdateModel::kRing,
                               UpdateModel::kTree, UpdateModel::kHierarchical, UpdateModel::kOwner};

TEST(Update, OneReplicaNeedsNone) {
  for (const UpdateModel model : kModels) {
    EXPECT_EQ(Ms(kFlat, model, {1, 16}), 0);
    EXPECT_EQ(UpdateBytes(model, {1, 16}, kBytes), 0);
    EXPECT_EQ(UpdateMs(kFlat, model, {{16}, 0}, 0), 0);
  }
}

TEST(Update, OnOneLevel) {
  for (const int r : {2, 4, 8, 16}) {
    const double w = kBytes / kFlatRate;
    EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kParameterServer, {r}), 2 * r * w + 2 * kFlatLatency);
    EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kRing, {r}),
                     2.0 * (r - 1) / r * w + 2 * (r - 1) * kFlatLatency);
    EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kHierarchical, {r}),
                     Ms(kFlat, UpdateModel::kRing, {r}));
    EXPECT_NEAR(Ms(kFlat, UpdateModel::kTree, {r}), 2 * std::log2(r) * (w + kFlatLatency), 1e-9);
    EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kOwner, {r}), 2.0 * (r - 1) / r * w + 2 * kFlatLatency);
    EXPECT_EQ(UpdateBytes(UpdateModel::kParameterServer, {r}, kBytes), 2 * r * kBytes);
    EXPECT_EQ(UpdateBytes(UpdateModel::kOwner, {r}, kBytes), 2 * (r - 1) * kBytes);
    EXPECT_EQ(UpdateBytes(UpdateModel::kRing, {r}, kBytes), 2 * (r - 1) * kBytes);
  }
  const Machine six = MadeMachine({{"bus", 6, 8, 0}});
  EXPECT_DOUBLE_EQ(Ms(six, UpdateModel::kTree, {6}), 2 * 3 * kBytes / kFlatRate);
}

TEST(Update, ImagesAndRowsReplicateAndChannelsDivide) {
  for (const UpdateModel model : kModels) {
    EXPECT_DOUBLE_EQ(Ms(kFlat, model, {2, 1, 2, 2}), Ms(kFlat, model, {8}));
    EXPECT_EQ(UpdateBytes(model, {2, 1, 2, 2}, kBytes), UpdateBytes(model, {8}, kBytes));
    EXPECT_EQ(UpdateBytes(model, {4, 4}, kBytes), UpdateBytes(model, {4}, kBytes));
  }
  // Rings update the four parts of the channels at the same time, because they use different
  // ports. The paper's server updates one part after the other.
  EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kRing, {4, 4}),
                   2.0 * 3 / 4 * (kBytes / 4.0) / kFlatRate + 6 * kFlatLatency);
  EXPECT_DOUBLE_EQ(Ms(kFlat, UpdateModel::kParameterServer, {4, 4}),
                   Ms(kFlat, UpdateModel::kParameterServer, {4}));
}

TEST(Update, OverNodesThePortsOfTheNodesDecide) {
  const double inner = kBytes / 80e6;
  const double outer = kBytes / 10e6;
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kRing, {4}), 2.0 * 3 / 4 * inner + 6 * 0.005);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kRing, {16}), 2.0 * 15 / 16 * outer + 30 * 0.02);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kHierarchical, {16}),
                   2.0 * 3 / 4 * inner + 6 * 0.005 + 2.0 * 3 / 4 * outer + 6 * 0.02);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kTree, {16}),
                   2 * 2 * (inner + 0.005) + 2 * 2 * (outer + 0.02));
  // With kOwner, each device sends 12 of 16 parts to other nodes, and the four devices of a node
  // share its port.
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kOwner, {16}), 2 * 4 * 12.0 / 16 * outer + 2 * 0.02);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kParameterServer, {16}), 32 * outer + 2 * 0.02);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kParameterServer, {4}), 8 * inner + 2 * 0.005);
}

// Channels are divided over the devices of a node, and images over the nodes. So four rings share
// each node's port, and each ring sums a quarter of the parameters.
TEST(Update, RingsOfAllChannelsShareANodesPort) {
  const double outer = kBytes / 10e6;
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kRing, {4, 4}), 2.0 * 3 / 4 * outer + 6 * 0.02);
  EXPECT_DOUBLE_EQ(Ms(kNodes, UpdateModel::kHierarchical, {4, 4}),
                   Ms(kNodes, UpdateModel::kRing, {4, 4}));
}

TEST(Update, PlacementDecidesWhichPorts) {
  const double within = UpdateMs(kNodes, UpdateModel::kRing, {{2}, 4}, kBytes);
  const double across = UpdateMs(kNodes, UpdateModel::kRing, {{8}, 8}, kBytes);
  EXPECT_DOUBLE_EQ(within, kBytes / 80e6 + 2 * 0.005);
  EXPECT_DOUBLE_EQ(across, 2.0 * 7 / 8 * kBytes / 10e6 + 14 * 0.02);
}

}  // namespace
}  // namespace ucudnn::planner
