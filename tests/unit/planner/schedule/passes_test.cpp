// Tests schedules of the schemes (a), (b) and (c) of section 4 of Krizhevsky's "One weird trick".
#include "planner/schedule/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/schedule/elements.h"
#include "tests/unit/planner/schedule/made_schedules.h"

namespace ucudnn::planner {
namespace {

constexpr int kWorkers = 4;
constexpr int kImages = 8;  // per worker

Result<Schedule> AlexNet(char scheme, int passes = 0, Strategy strategy = Strategy::kOwt) {
  Planned planned = Pose(*BuildNetwork("alexnet"), kWorkers * kImages, FlatMachine(kWorkers));
  const auto layout = MakeLayout(planned.problem, kWorkers, strategy);
  if (!layout.ok()) return layout.status();
  planned.assignment = layout->assignment;
  ScheduleOptions options;
  options.scheme = scheme;
  options.passes = passes;
  return planned.Scheduled(options);
}

const ScheduledExchange& Feeding(const Schedule& schedule) {
  return *std::find_if(
      schedule.exchanges.begin(), schedule.exchanges.end(),
      [&](const ScheduledExchange& exchange) { return FeedsPasses(schedule, exchange); });
}

TEST(Passes, RunTheFullyConnectedLayersAndAllBehindThem) {
  const Result<Schedule> schedule = AlexNet('b');
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  std::vector<std::string> nodes;
  for (const NodeId node : schedule->passes.nodes) nodes.push_back(NodeOf(*schedule, node).name);
  EXPECT_EQ(nodes, (std::vector<std::string>{"fc6", "relu6", "drop6", "fc7", "relu7", "drop7",
                                             "fc8", "prob"}));
  EXPECT_EQ(AlexNet('a')->passes.Count(), 0);
}

TEST(Passes, TakeOneWorkersImagesAfterTheOtherOrAShareOfEach) {
  const Result<Schedule> turns = AlexNet('b');
  const Result<Schedule> shares = AlexNet('c');
  ASSERT_TRUE(turns.ok() && shares.ok()) << turns.message() << shares.message();
  EXPECT_EQ(turns->passes.images[2], (std::vector<Interval>{{16, 24}}));
  EXPECT_EQ(shares->passes.images[2],
            (std::vector<Interval>{{4, 6}, {12, 14}, {20, 22}, {28, 30}}));
  for (const auto& schedule : {turns, shares}) {
    std::vector<int> times(kWorkers * kImages);
    for (const auto& images : schedule->passes.images) {
      for (const Interval& interval : images) {
        for (int64_t at = interval.begin; at < interval.end; ++at) ++times[static_cast<size_t>(at)];
      }
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  }
  EXPECT_EQ(AlexNet('c', 8)->passes.Count(), 8);
  EXPECT_EQ(AlexNet('c', 3)->passes.images[2][0], (Interval{6, 8}));
}

// In a pass of (b), one worker sends its batch to the K - 1 others. In a pass of (c), each worker
// sends a K-th of that number of elements. In all passes of (b) or (c) together, each worker sends
// K - 1 batches and receives K - 1.
TEST(Passes, TheBusiestPortIsTheSendersInTurnsAndAllAreAlikeInShares) {
  for (const char scheme : {'b', 'c'}) {
    const Result<Schedule> schedule = AlexNet(scheme);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    const ScheduledExchange& feeding = Feeding(*schedule);
    const int64_t features = NodeOf(*schedule, feeding.node).shape.Features();
    std::vector<int64_t> step(kWorkers);
    for (int pass = 0; pass < kWorkers; ++pass) {
      std::vector<int64_t> sent(kWorkers);
      for (const Transfer& one : TransfersOf(*schedule, feeding, pass)) {
        sent[static_cast<size_t>(one.from)] += Elements(one.box);
        step[static_cast<size_t>(one.from)] += Elements(one.box);
        step[static_cast<size_t>(one.to)] += Elements(one.box);
      }
      const int64_t batch = kImages * features;
      EXPECT_EQ(*std::max_element(sent.begin(), sent.end()),
                scheme == 'b' ? (kWorkers - 1) * batch : (kWorkers - 1) * batch / kWorkers);
    }
    for (const int64_t moved : step) EXPECT_EQ(moved, 2 * (kWorkers - 1) * kImages * features);
  }
}

TEST(Passes, MoveWhatOnePassMovesAndKeepLess) {
  const Result<Schedule> once = AlexNet('a');
  ASSERT_TRUE(once.ok()) << once.message();
  const ScheduleElements whole = ElementsOf(*once);
  for (const char scheme : {'b', 'c'}) {
    const Result<Schedule> schedule = AlexNet(scheme);
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    const ScheduleElements elements = ElementsOf(*schedule);
    EXPECT_EQ(elements.transfer, whole.transfer);
    EXPECT_EQ(elements.update, whole.update);
    const int64_t features = NodeOf(*schedule, Feeding(*schedule).node).shape.Features();
    const int64_t hidden = 2 * 4096;  // inputs of fc7 and fc8, of which a worker computes a K-th
    for (int device = 0; device < kWorkers; ++device) {
      const auto at = static_cast<size_t>(device);
      EXPECT_EQ(whole.devices[at].copies, (kWorkers - 1) * kImages * (features + hidden));
      // A device holds the inputs of two passes. In (b) these are the batches of two other workers,
      // in (c) two K-ths of the batches of all other workers.
      const int64_t fed = scheme == 'b' ? 2 * kImages * features
                                        : 2 * (kWorkers - 1) * kImages / kWorkers * features;
      EXPECT_EQ(elements.devices[at].copies, fed + (kWorkers - 1) * kImages / kWorkers * hidden);
      EXPECT_LT(elements.devices[at].outputs, whole.devices[at].outputs);
    }
  }
}

// The images of the next pass must be sent before a pass computes, so that they move meanwhile.
TEST(Passes, TheNextPassIsFedWhileOneComputes) {
  const Result<Schedule> schedule = AlexNet('b');
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  const auto position = [&](StepKind kind, int of, int pass) {
    const auto found = std::find_if(
        schedule->order.begin(), schedule->order.end(), [&](const ScheduledStep& step) {
          return step.kind == kind && step.of == of && step.pass == pass;
        });
    EXPECT_NE(found, schedule->order.end());
    return found - schedule->order.begin();
  };
  const auto feeding = static_cast<int>(&Feeding(*schedule) - schedule->exchanges.data());
  const NodeId first = schedule->passes.nodes.front();
  for (int pass = 0; pass < kWorkers; ++pass) {
    const auto forward = position(StepKind::kForward, first, pass);
    const auto backward = position(StepKind::kBackward, pass, -1);
    EXPECT_LT(position(StepKind::kExchange, feeding, pass),
              position(StepKind::kWait, feeding, pass));
    EXPECT_LT(position(StepKind::kWait, feeding, pass), forward);
    EXPECT_LT(forward, backward);
    if (pass + 1 == kWorkers) continue;
    EXPECT_LT(position(StepKind::kExchange, feeding, pass + 1), forward);
    EXPECT_LT(backward, position(StepKind::kForward, first, pass + 1));
  }
}

TEST(Passes, WhatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(AlexNet('c', 9).message(),
            "scheme c: 9 passes; expected 1 to 8, the images of one worker");
  EXPECT_EQ(AlexNet('b', 33).message(), "scheme b: 33 passes; expected 1 to 32, the images");
  EXPECT_EQ(AlexNet('b', 0, Strategy::kImage).message(),
            "scheme b: layer 'fc6' with {n=4, c=1, h=1, w=1} is in the fully connected part; "
            "expected n of 1");
  EXPECT_EQ(AlexNet('b', 0, Strategy::kModel).message(),
            "scheme b: layer 'pool5' with {n=1, c=4, h=1, w=1} feeds the fully connected part; "
            "expected one divided along the images alone");
  GraphBuilder net("normalized");
  const NodeId conv = net.Add("conv", Convolution{4}, {net.Add("data", Input{4, {1, 2, 2}}, {})});
  net.Add("norm", BatchNormalization{}, {net.Add("fc", FullyConnected{8}, {conv})});
  Planned normalized = Pose(*net.Build(), 4, FlatMachine(4), {.pins = {{"fc", {1, 4}}}});
  normalized.assignment = {0, 0};
  ScheduleOptions in_passes;
  in_passes.scheme = 'c';
  EXPECT_EQ(normalized.Scheduled(in_passes).message(),
            "scheme c: layer 'fc' with {n=1, c=4, h=1, w=1}: batch normalization 'norm' would see "
            "the images of one pass alone; expected none in the fully connected part");
  Planned planned = Pose(*BuildNetwork("unet"), 4, FlatMachine(4));
  planned.assignment.assign(planned.problem.graph.layers.size(), 0);
  ScheduleOptions options;
  options.scheme = 'b';
  EXPECT_EQ(planned.Scheduled(options).message(), "scheme b: unet has no fully connected layer");
}

}  // namespace
}  // namespace ucudnn::planner
