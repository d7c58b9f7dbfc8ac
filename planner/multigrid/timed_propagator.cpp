#include "planner/multigrid/timed_propagator.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ucudnn::multigrid {
namespace {

// The first cycle includes the start, so the second cycle is recorded too, as a typical one.
constexpr int kNotedCycles = 2;

// Returns whether `step` of `level` follows the last step of `span` inside a block. On the coarsest
// level, which is solved one step after the other, any two consecutive steps follow each other.
bool Continues(const StepSpan& span, int level, int step, int coarsening) {
  if (span.level != level || span.first + span.steps != step) return false;
  return coarsening == 1 || (span.first % coarsening == 0 && step % coarsening + 1 < coarsening);
}

}  // namespace

double CycleTimeline::Milliseconds() const {
  double end = 0;
  for (const StepSpan& span : spans) end = std::max(end, span.end_ms);
  return end;
}

double CycleTimeline::MeanConcurrency() const {
  double busy = 0;
  for (const StepSpan& span : spans) busy += span.end_ms - span.begin_ms;
  const double length = Milliseconds();
  return length > 0 ? busy / length : 0;
}

TimedPropagator::TimedPropagator(Propagator& timed, const Hierarchy& hierarchy, int lanes)
    : timed_(timed), hierarchy_(hierarchy), lanes_(lanes) {}

void TimedPropagator::Begin() {
  cycle_ = 0;
  for (OfLane& lane : lanes_) {
    lane.noted.clear();
    lane.of_last.clear();
  }
}

Status TimedPropagator::EndCycle() {
  if (cycle_ == kNotedCycles) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(timed_.Wait());
  ++cycle_;
  for (OfLane& lane : lanes_) {
    std::swap(lane.noted, lane.of_last);
    lane.noted.clear();
  }
  return Status::Ok();
}

Status TimedPropagator::Step(int level, int step, State from, State to, int lane) {
  if (cycle_ == kNotedCycles) return timed_.Step(level, step, from, to, lane);
  std::deque<StepSpan>& noted = lanes_[lane].noted;
  const int coarsening = hierarchy_.level(level).coarsening;
  if (!noted.empty() && Continues(noted.back(), level, step, coarsening)) {
    ++noted.back().steps;
  } else {
    noted.push_back({lane, level, step, 1, 0, 0});
    UCUDNN_RETURN_IF_ERROR(timed_.Mark(lane, &noted.back().begin_ms));
  }
  UCUDNN_RETURN_IF_ERROR(timed_.Step(level, step, from, to, lane));
  return timed_.Mark(lane, &noted.back().end_ms);
}

CycleTimeline TimedPropagator::Timeline() const {
  CycleTimeline timeline = {.cycle = cycle_, .lanes = static_cast<int>(lanes_.size()), .spans = {}};
  double begin = std::numeric_limits<double>::infinity();
  for (const OfLane& lane : lanes_) {
    for (const StepSpan& span : lane.of_last) begin = std::min(begin, span.begin_ms);
  }
  for (const OfLane& lane : lanes_) {
    for (StepSpan span : lane.of_last) {
      span.begin_ms -= begin;
      span.end_ms -= begin;
      timeline.spans.push_back(span);
    }
  }
  return timeline;
}

}  // namespace ucudnn::multigrid
