// What a system is told of the part of a chain that it has, and norms as sums over such parts.
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

// What the first state of the whole chain becomes, and what it is.
struct FirstStateChange {
  State to = nullptr;
  State from = nullptr;
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

}  // namespace ucudnn::multigrid
