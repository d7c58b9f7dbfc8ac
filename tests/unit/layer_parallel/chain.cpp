#include "unit/layer_parallel/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace ucudnn::layer_parallel_test {
namespace {

constexpr int kSize = 3;  // numbers in a state

}  // namespace

Chain::Chain(const Shape& shape) : shape_(shape) {
  std::mt19937_64 random(shape.seed);
  std::normal_distribution<double> normal(0, shape.gain / std::sqrt(kSize));
  weights_.resize(size_t{kSize} * kSize * shape.layers);
  biases_.resize(size_t{kSize} * shape.layers);
  for (double& number : weights_) number = normal(random);
  for (double& number : biases_) number = normal(random);
}

void Chain::Change(double change) {
  for (double& weight : weights_) weight += change;
}

Vector Chain::Activated(int layer, const Vector& state) const {
  Vector activated(kSize);
  for (int row = 0; row < kSize; ++row) {
    double sum = biases_[layer * kSize + row];
    for (int i = 0; i < kSize; ++i) sum += weights_[(layer * kSize + row) * kSize + i] * state[i];
    activated[row] = std::tanh(sum);
  }
  return activated;
}

void Chain::AddLayer(int layer, double factor, const Vector& in, Vector& out) const {
  const Vector activated = Activated(layer, in);
  for (int row = 0; row < kSize; ++row) out[row] += factor * shape_.h * activated[row];
}

void Chain::AddAdjoint(int layer, double factor, const Vector& state, const Vector& in,
                       Vector& out) const {
  const Vector activated = Activated(layer, state);
  for (int row = 0; row < kSize; ++row) {
    const double inner = shape_.h * (1 - activated[row] * activated[row]) * in[row];
    for (int i = 0; i < kSize; ++i) {
      out[i] += factor * weights_[(layer * kSize + row) * kSize + i] * inner;
    }
  }
}

std::vector<Vector> Chain::Serial(const Vector& first) const {
  std::vector<Vector> states = {first};
  for (int layer = 0; layer < shape_.layers; ++layer) {
    states.push_back(Step(layer, states[layer]));
  }
  return states;
}

Vector Chain::Step(int layer, const Vector& state) const {
  Vector next = state;
  AddLayer(layer, 1, state, next);
  return next;
}

std::vector<Vector> Chain::SerialAdjoint(const std::vector<Vector>& states,
                                         const Vector& last) const {
  std::vector<Vector> adjoints(states.size(), last);
  for (int layer = shape_.layers - 1; layer >= 0; --layer) {
    adjoints[layer] = adjoints[layer + 1];
    AddAdjoint(layer, 1, states[layer], adjoints[layer + 1], adjoints[layer]);
  }
  return adjoints;
}

void Chain::Fail(const Fault& fault) {
  fault_ = fault;
  calls_of_faulty_ = 0;
}

int Chain::Enter(const char* callback, int lane) {
  if (lane < 0 || lane >= 64) {
    ++misuses;
  } else {
    lanes_seen |= uint64_t{1} << lane;
  }
  if (fault_.callback != callback) return 0;
  const int call = ++calls_of_faulty_;
  if (call < fault_.call || (call > fault_.call && !fault_.on_all_lanes)) return 0;
  if (fault_.on_all_lanes) return 100 + lane;
  if (fault_.code == 0) throw std::runtime_error("a callback of a test");
  return fault_.code;
}

// Holds the callbacks as C functions.
struct Chain::Call {
  static Chain& Of(void* user) { return *static_cast<Chain*>(user); }
  static Vector& Written(void* state) { return *static_cast<Vector*>(state); }

  static int Create(void* user, void** state) {
    Chain& chain = Of(user);
    if (const int code = chain.Enter("create", 0)) return code;
    if (chain.fault_.callback == "null") return 0;
    ++chain.created;
    // A state that is read before it is written shows as NaN.
    *state = new Vector(kSize, std::numeric_limits<double>::quiet_NaN());
    return 0;
  }
  static void Destroy(void* user, void* state) {
    ++Of(user).destroyed;
    delete &Written(state);
  }
  static int Combine(void* user, double a, const void* x, double b, void* y, int lane) {
    Chain& chain = Of(user);
    if (const int code = chain.Enter("combine", lane)) return code;
    if (x == nullptr || y == nullptr) ++chain.misuses;
    return chain.Do(lane, [=] {
      const Vector& from = VectorOf(x);
      Vector& to = Written(y);
      for (size_t i = 0; i < to.size(); ++i) to[i] = a * from[i] + (b == 0 ? 0 : b * to[i]);
    });
  }
  static int SquaredDistance(void* user, const void* x, const void* y, int lane, double* square) {
    Chain& chain = Of(user);
    if (const int code = chain.Enter("squared_distance", lane)) return code;
    return chain.Do(lane, [=] {
      const Vector& first = VectorOf(x);
      double squares = 0;
      for (size_t i = 0; i < first.size(); ++i) {
        const double difference = y == nullptr ? first[i] : first[i] - VectorOf(y)[i];
        squares += difference * difference;
      }
      *square = squares;
    });
  }
  static int Step(void* user, const ucudnnLayerParallelRange_t* range, const void* from, void* to,
                  int lane) {
    Chain& chain = Of(user);
    if (const int code = chain.Enter("step", lane)) return code;
    if (from == to) ++chain.misuses;
    chain.Record(*range, chain.steps);
    return chain.Do(lane, [&chain, range = *range, from, to] {
      Written(to) = VectorOf(from);
      for (int i = 0; i < range.layers; ++i) {
        chain.AddLayer(range.first_layer + i, range.factor, VectorOf(from), Written(to));
      }
    });
  }
  static int AdjointStep(void* user, const ucudnnLayerParallelRange_t* range, const void* state,
                         const void* from, void* to, int lane) {
    Chain& chain = Of(user);
    if (const int code = chain.Enter("adjoint_step", lane)) return code;
    if (from == to || state == to || state == from) ++chain.misuses;
    chain.Record(*range, chain.adjoint_steps);
    return chain.Do(lane, [&chain, range = *range, state, from, to] {
      Written(to) = VectorOf(from);
      for (int i = 0; i < range.layers; ++i) {
        chain.AddAdjoint(range.first_layer + i, range.factor, VectorOf(state), VectorOf(from),
                         Written(to));
      }
    });
  }
  static int Join(void* user) {
    if (const int code = Of(user).Enter("join", 0)) return code;
    Of(user).queues_->Join();
    return 0;
  }
  static int Wait(void* user) {
    const int code = Of(user).Enter("wait", 0);
    Of(user).queues_->Wait();
    return code;
  }
};

int Chain::Do(int lane, std::function<void()> work) {
  if (queues_ == nullptr) {
    work();
  } else {
    queues_->Give(lane, std::move(work));
  }
  return 0;
}

ucudnnLayerParallelCallbacks_t Chain::QueuedCallbacks(Queues& queues) {
  queues_ = &queues;
  ucudnnLayerParallelCallbacks_t callbacks = Callbacks();
  callbacks.join = &Call::Join;
  callbacks.wait = &Call::Wait;
  return callbacks;
}

void Queues::Wait() {
  // The last lane runs first, as far as joins allow, so that work which should have waited for
  // another lane reads wrong values.
  for (int epoch = 0; epoch <= epoch_; ++epoch) {
    for (size_t lane = given_.size(); lane-- > 0;) {
      std::deque<Work>& work = given_[lane];
      for (; !work.empty() && work.front().epoch == epoch; work.pop_front()) work.front().run();
    }
  }
  epoch_ = 0;
}

bool Queues::AreEmpty() const {
  return std::all_of(given_.begin(), given_.end(), [](const auto& work) { return work.empty(); });
}

void Chain::Record(const ucudnnLayerParallelRange_t& range,
                   std::vector<ucudnnLayerParallelRange_t>& ranges) {
  if (range.struct_size != sizeof range || range.layers < 1) ++misuses;
  if (!records) return;
  const std::lock_guard lock(mutex_);
  ranges.push_back(range);
}

ucudnnLayerParallelCallbacks_t Chain::Callbacks(bool with_adjoint) {
  return {sizeof(ucudnnLayerParallelCallbacks_t),
          this,
          &Call::Create,
          &Call::Destroy,
          &Call::Combine,
          &Call::SquaredDistance,
          &Call::Step,
          with_adjoint ? &Call::AdjointStep : nullptr,
          nullptr,
          nullptr};
}

Solver::Solver(Chain& chain, ucudnnLayerParallelOptions_t options, bool with_adjoint)
    : Solver(chain, options, chain.Callbacks(with_adjoint)) {}

Solver::Solver(Chain& chain, ucudnnLayerParallelOptions_t options,
               const ucudnnLayerParallelCallbacks_t& callbacks)
    : chain_(chain) {
  const auto status = ucudnnLayerParallelCreate(&solver_, chain.layers(), &callbacks, &options);
  EXPECT_EQ(status, kSuccess) << ucudnnLayerParallelGetLastError();
  if (solver_ == nullptr) throw std::runtime_error("no solver");
}

Solver::~Solver() {
  EXPECT_EQ(ucudnnLayerParallelDestroy(solver_), kSuccess);
  EXPECT_EQ(chain_.misuses, 0);
}

ucudnnLayerParallelResult_t Solver::Solve(SolveFunction solve, const Vector& from,
                                          ucudnnLayerParallelSolveOptions_t options) {
  ucudnnLayerParallelResult_t result = {.struct_size = sizeof result};
  EXPECT_EQ(solve(solver_, Chain::StateOf(from), &options, &result), kSuccess)
      << ucudnnLayerParallelGetLastError();
  return result;
}

Vector Solver::Read(ReadFunction read, int number) {
  const void* state = nullptr;
  EXPECT_EQ(read(solver_, number, &state), kSuccess) << ucudnnLayerParallelGetLastError();
  return state == nullptr ? Vector() : Chain::VectorOf(state);
}

std::vector<Vector> Solver::ReadAll(ReadFunction read) {
  std::vector<Vector> states;
  for (int i = 0; i <= chain_.layers(); ++i) states.push_back(Read(read, i));
  return states;
}

void Solver::Visit(VisitFunction visit, void* user) {
  EXPECT_EQ(ucudnnLayerParallelVisitLayers(solver_, visit, user), kSuccess);
}

int64_t StateCount(int layers, const ucudnnLayerParallelOptions_t& options, bool with_adjoint) {
  int64_t states = -1;
  EXPECT_EQ(ucudnnLayerParallelGetStateCount(layers, &options, with_adjoint ? 1 : 0, &states),
            kSuccess);
  return states;
}

double Difference(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) {
      const double difference = std::abs(a[i][j] - b[i][j]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

}  // namespace ucudnn::layer_parallel_test
