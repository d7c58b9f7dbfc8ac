// A Chain is a program that solves its layers through the C API. A layer is u + h tanh(W_n u + b_n)
// with a dense matrix, and states are on the heap. The Chain counts the states that it creates and
// destroys, and its callbacks fail on request.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel_test {

using Vector = std::vector<double>;

constexpr auto kSuccess = UCUDNN_LAYER_PARALLEL_SUCCESS;
constexpr auto kNotSupported = UCUDNN_LAYER_PARALLEL_NOT_SUPPORTED;
constexpr auto kCallbackFailed = UCUDNN_LAYER_PARALLEL_CALLBACK_FAILED;

constexpr double kTolerance = 1e-11;
// A state's error is at most the residual times the amplification of the layers. For the tested
// gain of 1 over a time of 1, the amplification is e. The factor 10 is larger than e.
constexpr double kError = 10 * kTolerance;

// Keeps the work of lanes until Wait is called, and runs it in an order that shows missing joins.
class Queues {
 public:
  explicit Queues(int lanes) : given_(lanes) {}
  void Give(int lane, std::function<void()> work) { given_[lane].push_back({epoch_, work}); }
  void Join() { ++epoch_; }
  void Wait();
  bool AreEmpty() const;

 private:
  struct Work {
    int epoch;
    std::function<void()> run;
  };
  int epoch_ = 0;
  std::vector<std::deque<Work>> given_;  // by lane
};

class Chain {
 public:
  struct Shape {
    int layers = 64;
    double h = 1.0 / 64;
    double gain = 1;  // scale of the matrices
    unsigned seed = 1;
  };
  explicit Chain(const Shape& shape);

  // Returns callbacks for a solver of this chain; their `user` is this object.
  ucudnnLayerParallelCallbacks_t Callbacks(bool with_adjoint = true);
  // Returns callbacks that give their work to `queues`, which must outlive the solver.
  ucudnnLayerParallelCallbacks_t QueuedCallbacks(Queues& queues);

  int layers() const { return shape_.layers; }
  // Return the first state and the last adjoint.
  static Vector First() { return {1, 0.5, 0}; }
  static Vector Last() { return {0.25, 1.25, 2.25}; }
  // Adds `change` to every element of the matrices.
  void Change(double change);

  // Serial returns u_0 to u_N, and SerialAdjoint returns lambda_0 to lambda_N, linearised at
  // `states`. Both functions compute one layer after the other.
  std::vector<Vector> Serial(const Vector& first) const;
  std::vector<Vector> SerialAdjoint(const std::vector<Vector>& states, const Vector& last) const;
  Vector Step(int layer, const Vector& state) const;

  // The `call`-th call (from 1) of the callback with this name returns `code`, or throws if `code`
  // is 0.
  struct Fault {
    std::string callback;
    int call = 1;
    int code = 7;
    bool on_all_lanes = false;  // this and all later calls return 100 + lane instead of `code`
  };
  void Fail(const Fault& fault);
  void FailNothing() { Fail({"", 0}); }

  // If `records` is set, these get every range with which a step or an adjoint step is called, in
  // any order.
  std::vector<ucudnnLayerParallelRange_t> steps, adjoint_steps;
  bool records = false;

  std::atomic<int> created = 0, destroyed = 0;
  std::atomic<uint64_t> lanes_seen = 0;  // one bit for each lane
  std::atomic<int> misuses = 0;          // number of arguments that the header forbids

  static void* StateOf(const Vector& vector) { return const_cast<Vector*>(&vector); }
  static const Vector& VectorOf(const void* state) { return *static_cast<const Vector*>(state); }

 private:
  struct Call;
  int Enter(const char* callback, int lane);
  void Record(const ucudnnLayerParallelRange_t& range,
              std::vector<ucudnnLayerParallelRange_t>& ranges);
  Vector Activated(int layer, const Vector& state) const;  // tanh(W_n u + b_n)
  // AddLayer computes out += factor * h * F_layer(in); AddAdjoint uses the transposed Jacobian at
  // `state`.
  void AddLayer(int layer, double factor, const Vector& in, Vector& out) const;
  void AddAdjoint(int layer, double factor, const Vector& state, const Vector& in,
                  Vector& out) const;

  // Runs `work` now, or gives it to the lane's queue.
  int Do(int lane, std::function<void()> work);

  Shape shape_;
  Queues* queues_ = nullptr;
  std::vector<double> weights_;  // [layer, row, column]
  std::vector<double> biases_;   // [layer, row]
  Fault fault_;
  std::atomic<int> calls_of_faulty_ = 0;
  std::mutex mutex_;  // guards `steps` and `adjoint_steps`
};

// These return structs with struct_size and the defaults.
inline ucudnnLayerParallelOptions_t Options() {
  return {.struct_size = sizeof(ucudnnLayerParallelOptions_t)};
}
inline ucudnnLayerParallelSolveOptions_t SolveOptions(double tolerance = 0) {
  return {.struct_size = sizeof(ucudnnLayerParallelSolveOptions_t), .tolerance = tolerance};
}

// Owns a solver of a chain. Ends the test if the solver cannot be made.
class Solver {
 public:
  using VisitFunction = int (*)(void* user, int layer, const void* state, const void* adjoint,
                                int lane);

  Solver(Chain& chain, ucudnnLayerParallelOptions_t options, bool with_adjoint = true);
  Solver(Chain& chain, ucudnnLayerParallelOptions_t options,
         const ucudnnLayerParallelCallbacks_t& callbacks);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  ucudnnLayerParallelSolver_t get() const { return solver_; }

  // TryForward returns the status of a solve from Chain::First(), and TryAdjoint that of an adjoint
  // solve from Chain::Last().
  ucudnnLayerParallelStatus_t TryForward(const ucudnnLayerParallelSolveOptions_t* options = nullptr,
                                         ucudnnLayerParallelResult_t* result = nullptr) {
    return ucudnnLayerParallelSolveForward(solver_, Chain::StateOf(chain_.First()), options,
                                           result);
  }
  ucudnnLayerParallelStatus_t TryAdjoint(
      const ucudnnLayerParallelSolveOptions_t* options = nullptr) {
    return ucudnnLayerParallelSolveAdjoint(solver_, Chain::StateOf(chain_.Last()), options,
                                           nullptr);
  }

  // Each of these fails the test if its call does not succeed.
  ucudnnLayerParallelResult_t Forward(const Vector& first,
                                      ucudnnLayerParallelSolveOptions_t options = SolveOptions()) {
    return Solve(&ucudnnLayerParallelSolveForward, first, options);
  }
  ucudnnLayerParallelResult_t Adjoint(const Vector& last,
                                      ucudnnLayerParallelSolveOptions_t options = SolveOptions()) {
    return Solve(&ucudnnLayerParallelSolveAdjoint, last, options);
  }
  Vector State(int number) { return Read(&ucudnnLayerParallelGetState, number); }
  Vector AdjointState(int number) { return Read(&ucudnnLayerParallelGetAdjoint, number); }
  // These return u_0 to u_N, and lambda_0 to lambda_N.
  std::vector<Vector> States() { return ReadAll(&ucudnnLayerParallelGetState); }
  std::vector<Vector> AdjointStates() { return ReadAll(&ucudnnLayerParallelGetAdjoint); }
  void Visit(VisitFunction visit, void* user);

 private:
  using SolveFunction = decltype(ucudnnLayerParallelSolveForward)*;
  using ReadFunction = decltype(ucudnnLayerParallelGetState)*;

  ucudnnLayerParallelResult_t Solve(SolveFunction solve, const Vector& from,
                                    ucudnnLayerParallelSolveOptions_t options);
  Vector Read(ReadFunction read, int number);
  std::vector<Vector> ReadAll(ReadFunction read);

  Chain& chain_;
  ucudnnLayerParallelSolver_t solver_ = nullptr;
};

// Returns the number of states that a solver with these options keeps.
int64_t StateCount(int layers, const ucudnnLayerParallelOptions_t& options, bool with_adjoint);

// Returns the largest difference of an element of `a` and the same element of `b`.
double Difference(const std::vector<Vector>& a, const std::vector<Vector>& b);

}  // namespace ucudnn::layer_parallel_test
