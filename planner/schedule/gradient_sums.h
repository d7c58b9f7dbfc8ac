// Which gradients of a schedule are added up together, and what moves for that. Pure functions.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// The sums of all trained parameters that several devices hold, in the order in which the backward
// pass completes them: parameters of the same devices follow each other in one sum as long as that
// stays within the bounds of a bundle. A tensor that several nodes read is summed for the first
// one.
std::vector<GradientSum> SumsOf(const std::vector<ScheduledNode>& nodes);

// One device sends another an interval of the gradients that a sum adds up, which lie one behind
// the other.
struct SumMessage {
  int from = 0;
  int to = 0;
  Interval elements;
};

// What moves for one sum, in phases: each of the first half of them adds what arrives to the
// receiver's own, each of the last half replaces it. With kOwner (one level, whatever the
// machine's) there are two, with kHierarchical two for each level that the devices span. REQUIRES:
// `schedule` has one of these.
std::vector<std::vector<SumMessage>> PhasesOf(const Schedule& schedule, const GradientSum& sum);

}  // namespace ucudnn::planner
