#include "layer_parallel/solver.h"

#include <algorithm>
#include <utility>

#include "base/signals_blocked.h"

namespace ucudnn::layer_parallel {

Answer Solver::Failure(const Status& status) {
  caller_.WaitAfterFailure();
  if (std::optional<Answer> failed = caller_.Failed()) return std::move(*failed);
  return BadParameter(status.message());
}

Status Solver::Prepare(Direction& direction, const multigrid::Hierarchy& hierarchy,
                       multigrid::StateReader* linearised) {
  direction.hierarchy = &hierarchy;
  CallerChain& chain = direction.chain.emplace(caller_, setting_, linearised);
  UCUDNN_ASSIGN_OR_RETURN(
      direction.system,
      multigrid::BlockSystem::Make(chain, hierarchy, lanes_, setting_.storage, nullptr));
  UCUDNN_ASSIGN_OR_RETURN(
      direction.trajectory,
      multigrid::Trajectory::Make(*direction.system, hierarchy, chain, setting_.lanes));
  return Status::Ok();
}

Status Solver::PrepareBoth() {
  UCUDNN_RETURN_IF_ERROR(Prepare(forward_, setting_.hierarchy, nullptr));
  if (caller_.callbacks().adjoint_step == nullptr) return Status::Ok();
  return Prepare(adjoint_, setting_.mirrored, &*forward_.trajectory);
}

Answer Solver::Make(const ucudnnLayerParallelCallbacks_t& callbacks, Setting setting,
                    std::unique_ptr<ucudnnLayerParallelSolver>& made) {
  const auto lanes = [&] {
    const SignalsBlocked blocked;
    return multigrid::Lanes::Start(setting.lanes, setting.threads);
  };
  auto started = lanes();
  if (!started.ok()) return {UCUDNN_LAYER_PARALLEL_ALLOC_FAILED, started.message()};
  auto solver = std::make_unique<ucudnnLayerParallelSolver>(callbacks, std::move(setting),
                                                            std::move(*started));
  if (const Status status = solver->PrepareBoth(); !status.ok()) return solver->Failure(status);
  made = std::move(solver);
  return {};
}

Answer Solver::Solve(Direction& direction, State first, const multigrid::SolveOptions& options) {
  if (options.start == multigrid::Start::kPrevious && !direction.has_states) {
    return NotSupported("start is the previous solve, and there is none that succeeded");
  }
  direction.has_states = false;
  direction.trajectory->Reset();
  caller_.Forget();
  if (const Status status = direction.system->SetFirst(first); !status.ok()) return Failure(status);
  auto solution = multigrid::Solve(*direction.system, *direction.hierarchy, options);
  if (!solution.ok()) return Failure(solution.status());
  if (const Status status = caller_.Wait(); !status.ok()) return Failure(status);
  direction.solution = std::move(*solution);
  direction.has_states = true;
  return {};
}

Answer Solver::SolveForward(State first, const multigrid::SolveOptions& options,
                            const multigrid::Solution*& solution) {
  adjoint_fits_ = false;
  solution = &forward_.solution;
  return Solve(forward_, first, options);
}

Answer Solver::SolveAdjoint(State last, const multigrid::SolveOptions& options,
                            const multigrid::Solution*& solution) {
  if (!adjoint_.system) return NotSupported("the callbacks have no adjoint_step");
  if (!forward_.has_states) return NotSupported("there are no states of a forward solve");
  adjoint_fits_ = false;
  solution = &adjoint_.solution;
  forward_.trajectory->Reset();
  Answer answer = Solve(adjoint_, last, options);
  adjoint_fits_ = answer.ok();
  return answer;
}

Answer Solver::CheckNumber(int number) const {
  if (number >= 0 && number <= setting_.layers()) return {};
  return BadParameter("number is " + std::to_string(number) + "; 0 to " +
                      std::to_string(setting_.layers()) + " are expected");
}

Answer Solver::Read(Direction& direction, int number, State& state) {
  caller_.Forget();
  auto read = direction.trajectory->At(number, 0);
  if (!read.ok()) return Failure(read.status());
  if (const Status status = caller_.Wait(); !status.ok()) return Failure(status);
  state = *read;
  return {};
}

Answer Solver::ReadState(int number, State& state) {
  if (Answer answer = CheckNumber(number); !answer.ok()) return answer;
  if (!forward_.has_states) return NotSupported("there are no states of a forward solve");
  return Read(forward_, number, state);
}

Answer Solver::ReadAdjoint(int number, State& adjoint) {
  if (Answer answer = CheckNumber(number); !answer.ok()) return answer;
  if (!adjoint_fits_) {
    return NotSupported("there are no adjoints of the states of the last forward solve");
  }
  return Read(adjoint_, setting_.layers() - number, adjoint);
}

Answer Solver::VisitLayers(Visit visit, void* user) {
  if (!forward_.has_states) return NotSupported("there are no states of a forward solve");
  caller_.Forget();
  const int layers = setting_.layers();
  const int block_size = setting_.hierarchy.level(0).coarsening;
  const int blocks = (layers + block_size - 1) / block_size;
  const Status status = lanes_.ForEach(blocks, [&](int block, int lane) -> Status {
    const int end = std::min((block + 1) * block_size, layers);
    for (int layer = block * block_size; layer < end; ++layer) {
      UCUDNN_ASSIGN_OR_RETURN(const State state, forward_.trajectory->At(layer, lane));
      State adjoint = nullptr;
      if (adjoint_fits_) {
        UCUDNN_ASSIGN_OR_RETURN(adjoint, adjoint_.trajectory->At(layers - layer - 1, lane));
      }
      UCUDNN_RETURN_IF_ERROR(caller_.Run("visit", {.first_layer = layer, .layers = 1}, lane,
                                         [&] { return visit(user, layer, state, adjoint, lane); }));
    }
    return Status::Ok();
  });
  if (!status.ok()) return Failure(status);
  const Status waited = caller_.Wait();
  return waited.ok() ? Answer() : Failure(waited);
}

}  // namespace ucudnn::layer_parallel
