// The chain of a stage and the chain's adjoint, as propagators of states on the host.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// The chain Phi(u) = u + h F(u) with its coarse versions, or the chain's adjoint. States are arrays
// of doubles.
class HostChain : public Propagator {
 public:
  // `stage` and `hierarchy` must outlive the chain. The hierarchy of an adjoint is mirrored.
  HostChain(const HostStage& stage, const Hierarchy& hierarchy, CoarseOperator coarse, double h)
      : stage_(stage), hierarchy_(hierarchy), coarse_(coarse), h_(h), size_(stage.state_size()) {}

  // Makes the object the adjoint chain w[j] = lambda[N - j]: Phi(w) = w + h J_F(u)^T w, linearised
  // at the states u of `states`, which must outlive later solves.
  void LineariseAt(StateReader& states) { linearised_ = &states; }

  Result<State> Create() override;
  Status Step(int level, int step, State from, State to, int lane) override;
  Status Combine(State to, double b, double a, State x, int lane) override;
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  double UnitRoundoff() const override;

  static double* Numbers(State state) { return static_cast<double*>(state); }

 private:
  const HostStage& stage_;
  const Hierarchy& hierarchy_;
  CoarseOperator coarse_;
  double h_;
  int64_t size_;                       // numbers in a state
  StateReader* linearised_ = nullptr;  // null if the object is no adjoint
  std::vector<std::unique_ptr<double[]>> states_;
};

}  // namespace ucudnn::multigrid
