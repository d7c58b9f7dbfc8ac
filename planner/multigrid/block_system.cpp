#include "planner/multigrid/block_system.h"

#include <algorithm>
#include <cmath>

namespace ucudnn::multigrid {
namespace {

// States of a lane: two that steps through a block alternate between, and what is compared.
constexpr int kScratch = 3;

}  // namespace

Result<BlockSystem> BlockSystem::Make(Propagator& propagator, const Hierarchy& hierarchy,
                                      Lanes& lanes, Storage storage, State first) {
  BlockSystem system(propagator, hierarchy, lanes, storage);
  const auto create = [&](std::vector<State>& states, size_t count) -> Status {
    states.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const State made, propagator.Create());
      states.push_back(made);
    }
    return Status::Ok();
  };
  system.grids_.resize(hierarchy.levels());
  for (int level = 0; level < hierarchy.levels(); ++level) {
    const Level& shape = hierarchy.level(level);
    Grid& grid = system.grids_[level];
    const size_t behind_first = system.KeepsF(level) ? shape.steps : shape.blocks() + 1;
    if (level > 0) grid.states.push_back(system.grids_[0].states[0]);
    UCUDNN_RETURN_IF_ERROR(create(grid.states, level > 0 ? behind_first : behind_first + 1));
    if (level == 0) continue;
    grid.source.push_back(nullptr);
    UCUDNN_RETURN_IF_ERROR(create(grid.source, shape.steps));
  }
  if (first != nullptr) UCUDNN_RETURN_IF_ERROR(system.SetFirst(first));
  system.scratch_.resize(lanes.count());
  for (auto& of_lane : system.scratch_) UCUDNN_RETURN_IF_ERROR(create(of_lane, kScratch));
  system.parts_.resize(static_cast<size_t>(hierarchy.level(0).steps) + 1);
  system.sizes_.resize(hierarchy.level(0).blocks());
  return system;
}

int64_t BlockSystem::StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage) {
  const Level& finest = hierarchy.level(0);
  int64_t states = storage == Storage::kAll ? finest.steps + 1 : finest.blocks() + 2;
  for (int level = 1; level < hierarchy.levels(); ++level) {
    states += int64_t{2} * hierarchy.level(level).steps;
  }
  return states + int64_t{kScratch} * lanes;
}

Status BlockSystem::SetFirst(State first) {
  UCUDNN_RETURN_IF_ERROR(propagator_->Combine(grids_[0].states[0], 0, 1, first, 0));
  return propagator_->Join();
}

Status BlockSystem::Broadcast() {
  std::vector<State>& states = grids_[0].states;
  return ForEach(static_cast<int>(states.size()) - 1, [&](int i, int lane) {
    return propagator_->Combine(states[i + 1], 0, 1, states[0], lane);
  });
}

Status BlockSystem::Step(int level, int step, State from, State to, Source source, int lane) {
  UCUDNN_RETURN_IF_ERROR(propagator_->Step(level, step, from, to, lane));
  if (level == 0 || source == Source::kNone) return Status::Ok();
  return propagator_->Combine(to, 1, 1, grids_[level].source[step + 1], lane);
}

Status BlockSystem::StepThrough(int block, int end, State to, int lane) {
  const int begin = block * hierarchy_->level(0).coarsening;
  State from = CPoint(0, block);
  for (int step = begin; step < end; ++step) {
    const State next = step + 1 == end ? to : scratch_[lane][(step - begin) % 2];
    UCUDNN_RETURN_IF_ERROR(propagator_->Step(0, step, from, next, lane));
    from = next;
  }
  return Status::Ok();
}

Status BlockSystem::RelaxF(int level, Source source) {
  const Level& shape = hierarchy_->level(level);
  if (!KeepsF(level)) {
    // F-points follow when they are read; the last state is one of them or the last C-point.
    const int last = shape.blocks();
    if (shape.last_c_point() == shape.steps) {
      UCUDNN_RETURN_IF_ERROR(
          propagator_->Combine(grids_[0].states.back(), 0, 1, CPoint(0, last), 0));
      return propagator_->Join();
    }
    UCUDNN_RETURN_IF_ERROR(StepThrough(last, shape.steps, grids_[0].states.back(), 0));
    return propagator_->Join();
  }
  std::vector<State>& states = grids_[level].states;
  // The last block is the shorter one that no C-point ends.
  return ForEach(shape.blocks() + 1, [&](int block, int lane) -> Status {
    const int begin = block * shape.coarsening;
    const int end = std::min(begin + shape.coarsening - 1, shape.steps);
    for (int step = begin; step < end; ++step) {
      UCUDNN_RETURN_IF_ERROR(Step(level, step, states[step], states[step + 1], source, lane));
    }
    return Status::Ok();
  });
}

Status BlockSystem::Advance(int level) {
  const Level& shape = hierarchy_->level(level);
  std::vector<State>& advanced = grids_[level + 1].source;
  return ForEach(shape.blocks(), [&](int block, int lane) -> Status {
    const int end = (block + 1) * shape.coarsening;
    if (!KeepsF(level)) return StepThrough(block, end, advanced[block + 1], lane);
    return Step(level, end - 1, grids_[level].states[end - 1], advanced[block + 1],
                Source::kRestricted, lane);
  });
}

Status BlockSystem::RelaxC(int level, double weight) {
  std::vector<State>& advanced = grids_[level + 1].source;
  return ForEach(hierarchy_->level(level).blocks(), [&](int block, int lane) -> Status {
    State& point = CPoint(level, block + 1);
    if (weight == 1) {
      std::swap(point, advanced[block + 1]);
      return Status::Ok();
    }
    return propagator_->Combine(point, 1 - weight, weight, advanced[block + 1], lane);
  });
}

Status BlockSystem::Restrict(int level) {
  Grid& coarse = grids_[level + 1];
  const bool is_solved_next = level + 1 == hierarchy_->coarsest();
  return ForEach(hierarchy_->level(level).blocks(), [&](int block, int lane) -> Status {
    const State stepped = scratch_[lane].back();
    UCUDNN_RETURN_IF_ERROR(
        propagator_->Step(level + 1, block, CPoint(level, block), stepped, lane));
    UCUDNN_RETURN_IF_ERROR(propagator_->Combine(coarse.source[block + 1], 1, -1, stepped, lane));
    if (is_solved_next) return Status::Ok();  // from its first state on
    return propagator_->Combine(coarse.states[block + 1], 0, 1, CPoint(level, block + 1), lane);
  });
}

Status BlockSystem::SolveSerially(int level, Source source) {
  const Level& shape = hierarchy_->level(level);
  std::vector<State>& states = grids_[level].states;
  if (KeepsF(level)) {
    for (int step = 0; step < shape.steps; ++step) {
      UCUDNN_RETURN_IF_ERROR(Step(level, step, states[step], states[step + 1], source, 0));
    }
    return propagator_->Join();
  }
  for (int block = 0; block < shape.blocks(); ++block) {
    UCUDNN_RETURN_IF_ERROR(
        StepThrough(block, (block + 1) * shape.coarsening, CPoint(0, block + 1), 0));
  }
  return RelaxF(0, source);
}

Status BlockSystem::Correct(int level) {
  for (int block = 1; block <= hierarchy_->level(level).blocks(); ++block) {
    std::swap(CPoint(level, block), grids_[level + 1].states[block]);
  }
  return Status::Ok();
}

template <typename Part>
Result<double> BlockSystem::SumInOrder(int count, Part&& part) {
  UCUDNN_RETURN_IF_ERROR(
      ForEach(count, [&](int i, int lane) { return part(i, &parts_[i], lane); }));
  UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += parts_[i];
  return sum;
}

Result<double> BlockSystem::ResidualNorm() {
  UCUDNN_ASSIGN_OR_RETURN(
      const double squares,
      SumInOrder(hierarchy_->level(0).blocks(), [&](int block, double* result, int lane) {
        return propagator_->SquaredDistance(grids_[1].source[block + 1], CPoint(0, block + 1),
                                            result, lane);
      }));
  return std::sqrt(squares);
}

Result<double> BlockSystem::ResidualNormByState() {
  const int blocks = hierarchy_->level(0).blocks();
  UCUDNN_RETURN_IF_ERROR(ForEach(blocks, [&](int block, int lane) -> Status {
    const State point = CPoint(0, block + 1);
    UCUDNN_RETURN_IF_ERROR(
        propagator_->SquaredDistance(grids_[1].source[block + 1], point, &parts_[block], lane));
    return propagator_->SquaredDistance(point, nullptr, &sizes_[block], lane);
  }));
  UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  double sum = 0;
  for (int i = 0; i < blocks; ++i) {
    if (parts_[i] != 0) sum += parts_[i] / sizes_[i];
  }
  return std::sqrt(sum);
}

Result<double> BlockSystem::FullResidualNorm() {
  const Level& shape = hierarchy_->level(0);
  // With C-points alone the states between them follow from them, and so have no residual.
  const int steps = KeepsF(0) ? 1 : shape.coarsening;  // of a part
  const int parts = shape.steps / steps;
  // A lane compares in its scratch, which holds until the next Wait.
  for (int begin = 0; begin < parts; begin += lanes_->count()) {
    const int count = std::min(lanes_->count(), parts - begin);
    UCUDNN_RETURN_IF_ERROR(ForEach(count, [&](int task, int lane) -> Status {
      const int part = begin + task;
      const State stepped = scratch_[lane].back();
      if (KeepsF(0)) {
        std::vector<State>& states = grids_[0].states;
        UCUDNN_RETURN_IF_ERROR(propagator_->Step(0, part, states[part], stepped, lane));
        return propagator_->SquaredDistance(stepped, states[part + 1], &parts_[part], lane);
      }
      UCUDNN_RETURN_IF_ERROR(StepThrough(part, (part + 1) * steps, stepped, lane));
      return propagator_->SquaredDistance(stepped, CPoint(0, part + 1), &parts_[part], lane);
    }));
    UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  }
  double sum = 0;
  for (int i = 0; i < parts; ++i) sum += parts_[i];
  return std::sqrt(sum);
}

Result<LayerSystem::StateNorms> BlockSystem::Norms() {
  const Level& shape = hierarchy_->level(0);
  const int c_points = shape.blocks() + 1;
  const int count = c_points + (shape.last_c_point() == shape.steps ? 0 : 1);
  UCUDNN_ASSIGN_OR_RETURN(const double squares,
                          SumInOrder(count, [&](int i, double* result, int lane) {
                            const State state = i < c_points ? CPoint(0, i) : last();
                            return propagator_->SquaredDistance(state, nullptr, result, lane);
                          }));
  StateNorms norms;
  norms.first = std::sqrt(parts_[0]);
  norms.all = std::sqrt(squares);
  double largest = 0;
  for (int i = 0; i < count; ++i) {
    // Not std::max: a NaN stays.
    if (!(parts_[i] <= largest)) largest = parts_[i];
    if (std::isnan(largest)) break;
  }
  norms.largest = std::sqrt(largest);
  return norms;
}

Status BlockSystem::ReadBlock(int block, const std::vector<State>& scratch, int lane,
                              std::vector<State>& states) {
  const Level& shape = hierarchy_->level(0);
  const int behind = shape.steps + 1 - block * shape.coarsening;
  states.clear();
  return ReadOn(block, std::min(shape.coarsening, behind), scratch, lane, states);
}

Status BlockSystem::ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                           std::vector<State>& states) {
  const int begin = block * hierarchy_->level(0).coarsening;
  if (states.empty()) states.push_back(CPoint(0, block));
  for (int i = static_cast<int>(states.size()); i < count; ++i) {
    if (KeepsF(0)) {
      states.push_back(grids_[0].states[begin + i]);
      continue;
    }
    UCUDNN_RETURN_IF_ERROR(
        propagator_->Step(0, begin + i - 1, states.back(), scratch[i - 1], lane));
    states.push_back(scratch[i - 1]);
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
