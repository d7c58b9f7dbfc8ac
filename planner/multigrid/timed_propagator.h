// A propagator that notes when each lane runs which steps of a cycle, for a timeline of it.
#pragma once

#include <deque>
#include <vector>

#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Steps of one level, one behind the other on one lane without another in between: the F-points of
// a block, or one step to a C-point.
struct StepSpan {
  int lane = 0;
  int level = 0;
  int first = 0;  // step of the level
  int steps = 1;
  double begin_ms = 0;  // since the cycle's first step began
  double end_ms = 0;
};

// What ran in one cycle. The residual that is measured behind it belongs to it, and so do, of the
// first, what made the start and its residual.
struct CycleTimeline {
  int cycle = 0;  // 1 or 2; 0: none has ended
  int lanes = 1;
  std::vector<StepSpan> spans;  // lane by lane, as they began

  double Milliseconds() const;  // from the first step's begin to the last one's end
  // The mean over that time of the number of lanes that run a step.
  double MeanConcurrency() const;
};

class TimedPropagator final : public Propagator {
 public:
  // `timed` and `hierarchy` outlive it.
  TimedPropagator(Propagator& timed, const Hierarchy& hierarchy, int lanes);

  // Forgets what was noted: a solve begins.
  void Begin();
  // A cycle has ended; what follows is of the next one. The first two are noted.
  Status EndCycle();
  // The last of those noted.
  CycleTimeline Timeline() const;

  Result<State> Create() override { return timed_.Create(); }
  Status Step(int level, int step, State from, State to, int lane) override;
  Status Combine(State to, double b, double a, State x, int lane) override {
    return timed_.Combine(to, b, a, x, lane);
  }
  Status SquaredDistance(State x, State y, double* result, int lane) override {
    return timed_.SquaredDistance(x, y, result, lane);
  }
  Status Mark(int lane, double* ms) override { return timed_.Mark(lane, ms); }
  Status Take(State& to, State& from, int lane) override { return timed_.Take(to, from, lane); }
  Status RunCycle(int kind, const std::function<Status()>& cycle) override {
    return timed_.RunCycle(kind, cycle);
  }
  Status Join() override { return timed_.Join(); }
  Status Wait() override { return timed_.Wait(); }
  double UnitRoundoff() const override { return timed_.UnitRoundoff(); }

 private:
  // Lanes write at the same time. Spans stay where they are while their marks are to come.
  struct alignas(64) OfLane {
    std::deque<StepSpan> noted;    // of the cycle that runs, since the marks' epoch
    std::deque<StepSpan> of_last;  // of the last one that ended
  };

  Propagator& timed_;
  const Hierarchy& hierarchy_;
  std::vector<OfLane> lanes_;
  int cycle_ = 0;  // the last one that ended
};

}  // namespace ucudnn::multigrid
