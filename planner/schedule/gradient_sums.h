// The gradients of a schedule that are added up together, and the messages of each sum. Pure
// functions.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Returns the sums of all trained parameters that several devices hold, in the order in which the
// backward pass completes them. Parameters of the same devices share a sum up to the size of a
// bundle (kMostBundled). The gradient of a tensor that several nodes read is summed for the first
// of these nodes.
std::vector<GradientSum> SumsOf(const std::vector<ScheduledNode>& nodes);

// A message with an interval of a sum's elements. The gradients of the sum's parameters follow one
// another without gaps.
struct SumMessage {
  int from = 0;
  int to = 0;
  Interval elements;
};

// Returns the messages of one sum, in phases that follow each other. In the first half of the
// phases the receiver adds each message to its own numbers. In the second half the message replaces
// the receiver's numbers. kOwner has two phases, whatever levels the machine has. kHierarchical has
// two phases for each level on which the devices have several ports. REQUIRES: schedule.update is
// kOwner or kHierarchical.
std::vector<std::vector<SumMessage>> PhasesOf(const Schedule& schedule, const GradientSum& sum);

}  // namespace ucudnn::planner
