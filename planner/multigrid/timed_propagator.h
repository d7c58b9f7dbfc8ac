// A propagator that records when each lane runs which steps of a cycle, for a timeline of the
// cycle.
#pragma once

#include <deque>
#include <vector>

#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Consecutive steps of one level on one lane: the steps to the F-points of a block, or one step to
// a C-point.
struct StepSpan {
  int lane = 0;
  int level = 0;
  int first = 0;  // the first step's number, counted on its level
  int steps = 1;
  double begin_ms = 0;  // since the cycle's first step began
  double end_ms = 0;
};

// The steps of one cycle, and of the residual measured after the cycle. The first cycle includes
// the start and the residual of the start.
struct CycleTimeline {
  int cycle = 0;  // 1 or 2; 0 if no cycle has ended
  int lanes = 1;
  std::vector<StepSpan> spans;  // lane by lane, in the order of their begins

  double Milliseconds() const;  // from the begin of the first step to the end of the last
  // Returns the mean number of lanes that run a step, over Milliseconds().
  double MeanConcurrency() const;
};

class TimedPropagator final : public Propagator {
 public:
  // `timed` and `hierarchy` must outlive the object.
  TimedPropagator(Propagator& timed, const Hierarchy& hierarchy, int lanes);

  // Drops all records, before a solve begins.
  void Begin();
  // Ends a cycle; later steps belong to the next cycle. Only the first two cycles are recorded.
  Status EndCycle();
  // Returns the last recorded cycle.
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
  // The records of a lane. They are aligned, so that lanes that write at the same time share no
  // cache line. The spans are in deques, because a deque does not move them: Mark's times are
  // written into them later.
  struct alignas(64) OfLane {
    std::deque<StepSpan> noted;    // of the running cycle; times as Mark gives them
    std::deque<StepSpan> of_last;  // of the last cycle that has ended
  };

  Propagator& timed_;
  const Hierarchy& hierarchy_;
  std::vector<OfLane> lanes_;
  int cycle_ = 0;  // number of the last cycle that has ended
};

}  // namespace ucudnn::multigrid
