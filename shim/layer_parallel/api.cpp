// Implements the functions of <ucudnn/layer_parallel.h>. Each checks its arguments, lets no
// exception pass, and stores a message if it fails.
#include <algorithm>
#include <string_view>

#include "base/version.h"
#include "layer_parallel/answer.h"
#include "layer_parallel/arguments.h"
#include "layer_parallel/solver.h"
#include "ucudnn/layer_parallel.h"

namespace ucudnn::layer_parallel {
namespace {

// The size is fixed, so that storing a message needs no memory, which may have run out.
thread_local char last_message[512] = "";
thread_local int last_callback_code = 0;

void Keep(std::string_view message, int callback_code) noexcept {
  const size_t length = std::min(message.size(), sizeof last_message - 1);
  std::copy_n(message.data(), length, last_message);
  last_message[length] = '\0';
  last_callback_code = callback_code;
}

// Returns the status of inside(). If it is an error, stores the message for the API function named
// `function`.
template <typename Inside>
ucudnnLayerParallelStatus_t Answered(const char* function, Inside inside) noexcept {
  try {
    const Answer answer = inside();
    if (answer.ok()) return UCUDNN_LAYER_PARALLEL_SUCCESS;
    Keep(std::string(function) + ": " + answer.message, answer.callback_code);
    return answer.status;
  } catch (...) {
    Keep("out of host memory", 0);
    return UCUDNN_LAYER_PARALLEL_ALLOC_FAILED;
  }
}

// Marks a solver as used by a call. Only one call at a time may use a solver.
class Use {
 public:
  explicit Use(Solver& solver)
      : in_use_(solver.in_use()), has_it_(!in_use_.exchange(true, std::memory_order_acquire)) {}
  ~Use() {
    if (has_it_) in_use_.store(false, std::memory_order_release);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  explicit operator bool() const { return has_it_; }

 private:
  std::atomic<bool>& in_use_;
  const bool has_it_;
};

constexpr const char* kInUse =
    "the solver is in use: by another thread, or by the call whose "
    "callback this is";

// Returns the status of inside(solver), or an error if another call uses the solver.
template <typename Inside>
ucudnnLayerParallelStatus_t WithSolver(const char* function, ucudnnLayerParallelSolver_t solver,
                                       Inside inside) noexcept {
  return Answered(function, [&]() -> Answer {
    if (solver == nullptr) return BadParameter("the solver is a null pointer");
    const Use use(*solver);
    return use ? inside(*solver) : NotSupported(kInUse);
  });
}

using Solve = Answer (Solver::*)(State, const multigrid::SolveOptions&,
                                 const multigrid::Solution*&);

Answer CheckedSolve(Solver& solver, Solve solve, const void* from,
                    const ucudnnLayerParallelSolveOptions_t* options,
                    ucudnnLayerParallelResult_t* result) {
  if (const Status status = CheckResult(result); !status.ok()) {
    return BadParameter(status.message());
  }
  const auto read = ReadSolveOptions(options);
  if (!read.ok()) return BadParameter(read.message());
  const multigrid::Solution* solution = nullptr;
  Answer answer = (solver.*solve)(const_cast<State>(from), *read, solution);
  if (answer.ok()) WriteResult(*solution, result);
  return answer;
}

}  // namespace
}  // namespace ucudnn::layer_parallel

using namespace ucudnn::layer_parallel;

extern "C" {

const char* ucudnnLayerParallelGetVersionString(void) { return ucudnn::kVersion; }

const char* ucudnnLayerParallelGetLastError(void) { return last_message; }

int ucudnnLayerParallelGetCallbackCode(void) { return last_callback_code; }

ucudnnLayerParallelStatus_t ucudnnLayerParallelCreate(
    ucudnnLayerParallelSolver_t* solver, int layers,
    const ucudnnLayerParallelCallbacks_t* callbacks, const ucudnnLayerParallelOptions_t* options) {
  return Answered("ucudnnLayerParallelCreate", [&]() -> Answer {
    if (solver == nullptr) return BadParameter("there is nowhere to write the solver");
    *solver = nullptr;
    const auto read = ReadCallbacks(callbacks);
    if (!read.ok()) return BadParameter(read.message());
    auto setting = ReadOptions(layers, options);
    if (!setting.ok()) return BadParameter(setting.message());
    std::unique_ptr<ucudnnLayerParallelSolver> made;
    Answer answer = Solver::Make(*read, std::move(*setting), made);
    *solver = made.release();
    return answer;
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelDestroy(ucudnnLayerParallelSolver_t solver) {
  return Answered("ucudnnLayerParallelDestroy", [&]() -> Answer {
    if (solver == nullptr) return {};
    if (solver->in_use().exchange(true, std::memory_order_acquire)) return NotSupported(kInUse);
    delete solver;
    return {};
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelGetStateCount(
    int layers, const ucudnnLayerParallelOptions_t* options, int with_adjoint, int64_t* states) {
  return Answered("ucudnnLayerParallelGetStateCount", [&]() -> Answer {
    if (states == nullptr) return BadParameter("there is nowhere to write the number");
    const auto setting = ReadOptions(layers, options);
    if (!setting.ok()) return BadParameter(setting.message());
    *states = StatesOf(*setting, setting->hierarchy) +
              (with_adjoint != 0 ? StatesOf(*setting, setting->mirrored) : 0);
    return {};
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveForward(
    ucudnnLayerParallelSolver_t solver, const void* first,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result) {
  return WithSolver("ucudnnLayerParallelSolveForward", solver, [&](Solver& own) -> Answer {
    if (first == nullptr) return BadParameter("the first state is a null pointer");
    return CheckedSolve(own, &Solver::SolveForward, first, options, result);
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelSolveAdjoint(
    ucudnnLayerParallelSolver_t solver, const void* last,
    const ucudnnLayerParallelSolveOptions_t* options, ucudnnLayerParallelResult_t* result) {
  return WithSolver("ucudnnLayerParallelSolveAdjoint", solver, [&](Solver& own) -> Answer {
    if (last == nullptr) return BadParameter("the last adjoint is a null pointer");
    return CheckedSolve(own, &Solver::SolveAdjoint, last, options, result);
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelGetState(ucudnnLayerParallelSolver_t solver,
                                                        int number, const void** state) {
  return WithSolver("ucudnnLayerParallelGetState", solver, [&](Solver& own) -> Answer {
    if (state == nullptr) return BadParameter("there is nowhere to write the state's pointer");
    State read = nullptr;
    Answer answer = own.ReadState(number, read);
    if (answer.ok()) *state = read;
    return answer;
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelGetAdjoint(ucudnnLayerParallelSolver_t solver,
                                                          int number, const void** adjoint) {
  return WithSolver("ucudnnLayerParallelGetAdjoint", solver, [&](Solver& own) -> Answer {
    if (adjoint == nullptr) return BadParameter("there is nowhere to write the adjoint's pointer");
    State read = nullptr;
    Answer answer = own.ReadAdjoint(number, read);
    if (answer.ok()) *adjoint = read;
    return answer;
  });
}

ucudnnLayerParallelStatus_t ucudnnLayerParallelVisitLayers(
    ucudnnLayerParallelSolver_t solver,
    int (*visit)(void* user, int layer, const void* state, const void* adjoint, int lane),
    void* user) {
  return WithSolver("ucudnnLayerParallelVisitLayers", solver, [&](Solver& own) -> Answer {
    if (visit == nullptr) return BadParameter("visit is a null pointer");
    return own.VisitLayers(visit, user);
  });
}

}  // extern "C"
