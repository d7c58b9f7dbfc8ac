// Makes chains and their weights for tests of multigrid, and solves the chains and their adjoints
// on the host. Most chains have one convolution in each step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planner/multigrid/block_system.h"
#include "planner/multigrid/host/propagators.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

// Draws numbers from N(0, deviation^2).
std::vector<double> DrawnNumbers(size_t count, double deviation, std::mt19937_64& random);

struct ChainShape {
  int steps = 64;
  int channels = 4;
  int extent = 8;
  int window = 3;
  planner::ActivationKind activation = planner::ActivationKind::kRelu;
};

// Makes a chain without opening and closing layers. steps[i] has the operators of step i. For
// example, the nodes of step 2 are step2.0, step2.1, ... and step2.add.
ResidualChain ChainOfSteps(const planner::Input& images,
                           const std::vector<std::vector<planner::Operator>>& steps);
// Makes a chain that applies u + act(K * u + b) `shape.steps` times.
ResidualChain PlainChain(const ChainShape& shape);

// A chain with its parameters and its first state u0.
struct WeightedChain {
  ResidualChain chain;
  Parameters parameters;  // by node
  std::vector<double> first;
  int batch = 1;

  const Stage& stage() const { return std::get<Stage>(chain.sections[0]); }
  NodeWeights& step(int number) { return parameters[stage().steps[number].transformation.front()]; }
  // Gives the first node of each step, in order, an equal part of `weights` and of `bias`.
  void SetSteps(const std::vector<double>& weights, const std::vector<double>& bias);
};

// Draws weights from N(0, gain^2 2 / (window^2 channels)), biases from N(0, 0.01) and the first
// state from N(0, 1). If `knots` is set, weights and biases are drawn for `knots` depths, and
// interpolated between these. Otherwise they are drawn for each step ("iid").
WeightedChain DrawnChain(const ChainShape& shape, std::mt19937_64& random, double gain = 1,
                         std::optional<int> knots = std::nullopt, int batch = 1);

// A drawn chain, and a drawn adjoint of its last state.
struct DrawnCase {
  WeightedChain chain;
  std::vector<double> last;
};
DrawnCase DrawCase(uint64_t seed, const ChainShape& shape, int batch = 1, double gain = 1);

// Interpolates between the rows of `knots`, of `width` numbers each, as numpy.interp does. Returns
// a row for each of `steps` steps.
std::vector<double> Interpolated(const std::vector<double>& knots, int width, int steps);

struct SolveSetting {
  std::vector<int> coarsening = {4};
  int levels = 2;
  CoarseOperator coarse = CoarseOperator::kInject;
  double h = 1;
  Storage storage = Storage::kAll;
  int lanes = 1;
};

// A forward solve of a chain on the host, with all objects that it needs. Must not be moved.
class HostSolve {
 public:
  // `chain` must outlive this object. If the solver cannot be made, ends the test.
  HostSolve(const WeightedChain& chain, const SolveSetting& setting);

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(*system_, hierarchy_, options);
  }
  std::vector<double> State(int number);  // returns a state of the finest level
  std::vector<double> Last() { return Copy(system_->last()); }
  // Returns u_0..u_N, computed by the stage alone, one layer after the other.
  std::vector<std::vector<double>> Serial();

  BlockSystem& system() { return *system_; }
  HostStage& stage() { return *stage_; }
  const Hierarchy& hierarchy() const { return hierarchy_; }
  const Hierarchy& mirrored() const { return mirrored_; }  // the adjoint's hierarchy
  Lanes& lanes() { return *lanes_; }
  HostChain& propagator() { return *propagator_; }

 private:
  std::vector<double> Copy(multigrid::State state) const;

  const WeightedChain& chain_;
  double h_;
  Hierarchy hierarchy_;
  Hierarchy mirrored_;
  std::optional<Lanes> lanes_;
  std::optional<HostStage> stage_;
  std::unique_ptr<HostChain> propagator_;
  std::optional<BlockSystem> system_;
};

// Solves for lambda_0..lambda_N at the states of `forward`, which must not change while this object
// is used. Must not be moved. REQUIRES: `setting` is valid for the chain of `forward`. This is not
// checked.
class AdjointSolve {
 public:
  // `setting` equals the setting of `forward`, except that the storage may differ. `last` is
  // lambda_N.
  AdjointSolve(HostSolve& forward, const SolveSetting& setting, const std::vector<double>& last);

  Result<Solution> Solve(const SolveOptions& options) {
    return multigrid::Solve(*system_, forward_.mirrored(), options);
  }
  BlockSystem& system() { return *system_; }
  std::vector<double> Lambda(int number);
  // Returns d(lambda_N . u_N) / d(weights) at the current states and adjoints.
  Parameters Gradient(const WeightedChain& chain);

 private:
  HostSolve& forward_;
  double h_;
  std::optional<Trajectory> trajectory_;
  std::unique_ptr<HostChain> adjoint_;
  std::optional<BlockSystem> system_;
};

// Returns all numbers of `parameters` in one vector.
std::vector<double> Flat(const Parameters& parameters);

// Returns |a - b| / |b| in the L2 norm.
double RelativeError(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ucudnn::multigrid
