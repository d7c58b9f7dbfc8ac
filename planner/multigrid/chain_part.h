// The states of a chain, or of the run of its blocks that one rank has: a LayerSystem whose states
// others can read and give. Numbers count in the direction of the chain: an adjoint's from its own
// first state on.
#pragma once

#include <span>

#include "base/status.h"
#include "planner/multigrid/layer_system.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Who brings the first states of blocks that begin where another system's end.
class Inlet {
 public:
  virtual ~Inlet() = default;
  // The first state of `level` is what it should be for what `lane` is given from now on. Called
  // before it is read, by whichever lane reads it, as late as other blocks give it work.
  virtual Status AwaitFirst(int level, int lane) = 0;
};

// What of a chain a system has, where it is not all of it.
struct PartTraits {
  // False: the first state is u0, the same on all levels. Else each level has one of its own, which
  // an Inlet brings (SetInlet).
  bool has_inlet = false;
  // Whether these are coarse levels, the finest of which has a right side, too: set from outside.
  bool has_source = false;
};

// What norms are made of: one number for each block, step or state, in their order.
enum class NormParts {
  kResidual,         // |A - U|^2 of each C-point behind the first
  kResidualByState,  // the same divided by |U|^2; 0 / 0 is 0
  kFullResidual,     // |Phi(U) - U|^2 of each step, or of several together
  kStates            // |U|^2 of u0, each C-point and the last state
};
// Norms as sums over parts.
class SummedNorms : public LayerSystem {
 public:
  // What norms are summed from. It holds until the next call.
  virtual Result<std::span<const double>> Parts(NormParts parts) = 0;

  Result<double> ResidualNorm() override;
  Result<double> ResidualNormByState() override;
  Result<double> FullResidualNorm() override;
  Result<StateNorms> Norms() override;
};

// Parts are those of its own blocks; with an inlet without its first state, which another has.
class ChainPart : public SummedNorms {
 public:
  // REQUIRES: a part with an inlet. It outlives the part; before the first solve.
  virtual void SetInlet(Inlet& inlet) = 0;
  // The first state becomes `first`, on all levels that share it.
  virtual Status SetFirst(State first) = 0;

  // States of the finest level; the last one is the chain's output.
  virtual State first() = 0;
  virtual State last() = 0;
  // The C-point behind block `number` - 1 of `level`, counted from 0.
  virtual State c_point(int level, int number) = 0;
  // State and right side of a step's end on `level`, which is not the finest of a chain.
  virtual State state(int level, int number) = 0;
  virtual State source(int level, int number) = 0;

  // `to` becomes `from`, of this part or another one of this rank, on lane 0.
  virtual Status Copy(State from, State to) = 0;
  // What lanes are given from now on is behind all that any of them was given.
  virtual Status Join() = 0;
};

}  // namespace ucudnn::multigrid
