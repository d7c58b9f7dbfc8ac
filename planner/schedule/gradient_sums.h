// Which gradients of a schedule are added up together, and what moves for that. Pure functions.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Returns the sums of all trained parameters that several devices hold, in the order in which the
// backward pass completes them. Parameters of the same devices follow each other in one sum within
// the bounds of a bundle. A tensor that several nodes read is summed for the first node.
std::vector<GradientSum> SumsOf(const std::vector<ScheduledNode>& nodes);

// A message with an interval of a sum's gradients, which lie one behind the other.
struct SumMessage {
  int from = 0;
  int to = 0;
  Interval elements;
};

// Returns what moves for one sum, in phases. In the first half of the phases each message is added
// to the receiver's own numbers; in the last half it replaces them. kOwner (one level, whatever the
// machine has) has two phases; kHierarchical has two for each level that the devices span.
// REQUIRES: `schedule` has one of these.
std::vector<std::vector<SumMessage>> PhasesOf(const Schedule& schedule, const GradientSum& sum);

}  // namespace ucudnn::planner
