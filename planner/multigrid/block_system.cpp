#include "planner/multigrid/block_system.h"

#include <algorithm>

namespace ucudnn::multigrid {
namespace {

// Scratch states of each lane: steps through a block alternate between two of them, and the third
// holds a stepped state whose distance from a kept state is measured.
constexpr int kScratch = 3;

}  // namespace

Result<BlockSystem> BlockSystem::Make(Propagator& propagator, const Hierarchy& hierarchy,
                                      Lanes& lanes, Storage storage, State first) {
  UCUDNN_ASSIGN_OR_RETURN(BlockSystem system,
                          MakePart(propagator, hierarchy, lanes, storage, PartTraits()));
  if (first != nullptr) UCUDNN_RETURN_IF_ERROR(system.SetFirst(first));
  return system;
}

Result<BlockSystem> BlockSystem::MakePart(Propagator& propagator, const Hierarchy& hierarchy,
                                          Lanes& lanes, Storage storage, const PartTraits& traits) {
  BlockSystem system(propagator, hierarchy, lanes, storage, traits);
  system.grids_.resize(hierarchy.levels());
  for (int level = 0; level < hierarchy.levels(); ++level) {
    UCUDNN_RETURN_IF_ERROR(system.MakeGrid(level));
  }
  system.scratch_.resize(system.runs_side_by_side_ ? 0 : lanes.count());
  for (auto& of_lane : system.scratch_) {
    for (int i = 0; i < kScratch; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const State made, propagator.Create());
      of_lane.push_back(made);
    }
  }
  system.parts_.resize(static_cast<size_t>(hierarchy.level(0).steps) + 2);
  system.sizes_.resize(hierarchy.level(0).blocks());
  return system;
}

Status BlockSystem::MakeGrid(int level) {
  const Level& shape = hierarchy_->level(level);
  Grid& grid = grids_[level];
  const auto create = [&](std::vector<State>& states, StatePlace::Role role, int end) -> Status {
    states.reserve(end);
    for (int i = static_cast<int>(states.size()); i < end; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const State made, propagator_->CreateAt({level, role, i}));
      states.push_back(made);
    }
    return Status::Ok();
  };
  if (level > 0 && !HasOwnFirst()) grid.states.push_back(CPoint(level - 1, 0));
  const int behind_first =
      KeepsF(level) ? shape.steps : shape.blocks() + 1 + (shape.lead > 0 ? 1 : 0);
  UCUDNN_RETURN_IF_ERROR(create(grid.states, StatePlace::Role::kState, behind_first + 1));
  if (runs_side_by_side_) {
    UCUDNN_RETURN_IF_ERROR(create(grid.scratch, StatePlace::Role::kScratch, shape.steps));
  }
  if (level == 0 && !traits_.has_source) return Status::Ok();
  grid.source.push_back(nullptr);
  return create(grid.source, StatePlace::Role::kSource, shape.steps + 1);
}

int64_t BlockSystem::StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage) {
  const Level& finest = hierarchy.level(0);
  int64_t states =
      storage == Storage::kAll ? finest.steps + 1 : finest.blocks() + 2 + (finest.lead > 0 ? 1 : 0);
  for (int level = 1; level < hierarchy.levels(); ++level) {
    states += int64_t{2} * hierarchy.level(level).steps;
  }
  return states + int64_t{kScratch} * lanes;
}

Status BlockSystem::SetFirst(State first) {
  if (first == grids_[0].states[0]) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(propagator_->Combine(grids_[0].states[0], 0, 1, first, 0));
  return propagator_->Join();
}

Status BlockSystem::Broadcast() {
  std::vector<State>& states = grids_[0].states;
  return Run({kBroadcast}, static_cast<int>(states.size()) - 1, [&](int i, int lane) {
    return propagator_->Combine(states[i + 1], 0, 1, states[0], lane);
  });
}

Status BlockSystem::CarryOver(const FirstStateChange& change) {
  std::vector<State>& states = grids_[0].states;
  const int count = static_cast<int>(states.size()) - (KeepsF(0) ? 0 : 1);
  return Run({kCarry}, count, [&](int i, int lane) -> Status {
    if (states[i] == change.from) return Status::Ok();
    UCUDNN_RETURN_IF_ERROR(propagator_->Combine(states[i], 1, 1, change.to, lane));
    return propagator_->Combine(states[i], 1, -1, change.from, lane);
  });
}

template <typename Chain>
Status BlockSystem::RunBlocks(const RunKey& key, int blocks, const Chain& chain) {
  if (runs_side_by_side_) UCUDNN_RETURN_IF_ERROR(AwaitFirst(key.level, 0));
  return Run(key, blocks, [&](int task, int lane) -> Status {
    const int block = traits_.has_inlet ? (task + 1) % blocks : task;
    if (block == 0) UCUDNN_RETURN_IF_ERROR(AwaitFirst(key.level, lane));
    return chain(block, lane);
  });
}

Status BlockSystem::Step(int level, int step, State from, State to, Source source, int lane) {
  UCUDNN_RETURN_IF_ERROR(propagator_->Step(level, step, from, to, lane));
  if (!Adds(level, source)) return Status::Ok();
  return propagator_->Combine(to, 1, 1, grids_[level].source[step + 1], lane);
}

Status BlockSystem::RunSteps(int level, int begin, int end, Source source, int lane) {
  std::vector<State>& states = grids_[level].states;
  for (int step = begin; step < end; ++step) {
    UCUDNN_RETURN_IF_ERROR(Step(level, step, states[step], states[step + 1], source, lane));
  }
  return Status::Ok();
}

Status BlockSystem::StepThrough(int block, int end, State to, int lane) {
  const int begin = hierarchy_->level(0).FirstStateOf(block);
  State from = block < 0 ? first() : CPoint(0, block);
  for (int step = begin; step < end; ++step) {
    const State next = step + 1 == end ? to : scratch_[lane][(step - begin) % 2];
    UCUDNN_RETURN_IF_ERROR(propagator_->Step(0, step, from, next, lane));
    from = next;
  }
  return Status::Ok();
}

Status BlockSystem::StepLead(int level, Source source) {
  const int lead = hierarchy_->level(level).lead;
  // If level + 1 has no first state of its own, its first state is the first C-point of this level.
  // Correct(level - 1) may have swapped that C-point for another state, so it is set again.
  const bool is_shared = level < hierarchy_->coarsest() && !traits_.has_inlet;
  if (is_shared && !HasOwnFirst()) grids_[level + 1].states[0] = CPoint(level, 0);
  // If level + 1 has its own first state, Restrict sets it. A nested start has no Restrict, so the
  // first C-point is copied here.
  const bool copies = is_shared && HasOwnFirst() && source == Source::kNone;
  if (lead == 0 && !copies) return Status::Ok();
  return Run({kLead, level, Adds(level, source)}, 1, [&](int, int lane) -> Status {
    UCUDNN_RETURN_IF_ERROR(KeepsF(level) ? RunSteps(level, 0, lead, source, lane)
                                         : StepThrough(-1, lead, CPoint(0, 0), lane));
    if (!copies) return Status::Ok();
    return propagator_->Combine(grids_[level + 1].states[0], 0, 1, CPoint(level, 0), lane);
  });
}

Status BlockSystem::RelaxF(int level, Source source) {
  const Level& shape = hierarchy_->level(level);
  if (!KeepsF(level)) {
    // The F-points are computed when they are read. Only the last state is kept: it is the last
    // F-point, or a copy of the last C-point.
    const int last = shape.blocks();
    UCUDNN_RETURN_IF_ERROR(shape.last_c_point() == shape.steps
                               ? propagator_->Combine(this->last(), 0, 1, CPoint(0, last), 0)
                               : StepThrough(last, shape.steps, this->last(), 0));
    return propagator_->Join();
  }
  // The last block is shorter than the others, and no C-point follows it.
  return RunBlocks({kRelaxF, level, Adds(level, source)}, shape.blocks() + 1,
                   [&](int block, int lane) {
                     const int begin = shape.c_point(block);
                     const int end = std::min(begin + shape.coarsening - 1, shape.steps);
                     return RunSteps(level, begin, end, source, lane);
                   });
}

Status BlockSystem::Advance(int level) {
  const Level& shape = hierarchy_->level(level);
  return RunBlocks({kAdvance, level}, shape.blocks(), [&](int block, int lane) {
    const int end = shape.c_point(block + 1);
    const State advanced = grids_[level + 1].source[block + 1];
    if (!KeepsF(level)) return StepThrough(block, end, advanced, lane);
    return Step(level, end - 1, grids_[level].states[end - 1], advanced, Source::kRestricted, lane);
  });
}

Status BlockSystem::RelaxC(int level) {
  std::vector<State>& advanced = grids_[level + 1].source;
  return Run({kRelaxC, level}, hierarchy_->level(level).blocks(), [&](int block, int lane) {
    return propagator_->Take(CPoint(level, block + 1), advanced[block + 1], lane);
  });
}

Status BlockSystem::Restrict(int level) {
  Grid& coarse = grids_[level + 1];
  // SolveSerially reads only the first state of the coarsest level, so the other states of that
  // level are not copied.
  const bool copies = runs_side_by_side_ || level + 1 < hierarchy_->coarsest();
  const int blocks = hierarchy_->level(level).blocks();
  return RunBlocks({kRestrict, level}, blocks + 1, [&](int block, int lane) -> Status {
    State from = CPoint(level, block);
    if (copies && (block > 0 || HasOwnFirst())) {
      UCUDNN_RETURN_IF_ERROR(propagator_->Combine(coarse.states[block], 0, 1, from, lane));
    }
    if (block == blocks) return Status::Ok();
    // If blocks run side by side, the step reads the coarse level's own copy, which lies next to
    // the other states of that level.
    if (runs_side_by_side_) from = coarse.states[block];
    const State stepped = Scratch(level + 1, block, lane);
    UCUDNN_RETURN_IF_ERROR(propagator_->Step(level + 1, block, from, stepped, lane));
    return propagator_->Combine(coarse.source[block + 1], 1, -1, stepped, lane);
  });
}

Status BlockSystem::SolveSerially(int level, Source source) {
  const Level& shape = hierarchy_->level(level);
  if (KeepsF(level)) {
    return Run({kSerial, level, Adds(level, source)}, 1,
               [&](int, int lane) { return RunSteps(level, 0, shape.steps, source, lane); });
  }
  UCUDNN_RETURN_IF_ERROR(StepLead(0, source));
  for (int block = 0; block < shape.blocks(); ++block) {
    UCUDNN_RETURN_IF_ERROR(StepThrough(block, shape.c_point(block + 1), CPoint(0, block + 1), 0));
  }
  return RelaxF(0, source);
}

Status BlockSystem::Correct(int level) {
  const int first = traits_.has_inlet ? 0 : 1;
  return Run(
      {kCorrect, level}, hierarchy_->level(level).blocks() + 1 - first, [&](int task, int lane) {
        const int block = first + task;
        return propagator_->Take(CPoint(level, block), grids_[level + 1].states[block], lane);
      });
}

Status BlockSystem::RunPhases() {
  UCUDNN_RETURN_IF_ERROR(Broadcast());
  for (int level = 0; level < hierarchy_->levels(); ++level) {
    const bool is_coarsest = level == hierarchy_->coarsest();
    for (const Source source : {Source::kNone, Source::kRestricted}) {
      UCUDNN_RETURN_IF_ERROR(StepLead(level, source));
      UCUDNN_RETURN_IF_ERROR(is_coarsest ? SolveSerially(level, source) : RelaxF(level, source));
    }
    if (is_coarsest) return Status::Ok();
    UCUDNN_RETURN_IF_ERROR(Advance(level));
    UCUDNN_RETURN_IF_ERROR(RelaxC(level));
    UCUDNN_RETURN_IF_ERROR(Restrict(level));
    UCUDNN_RETURN_IF_ERROR(Correct(level));
  }
  return Status::Ok();
}

Status BlockSystem::MeasureResidual(bool by_state) {
  const int blocks = hierarchy_->level(0).blocks();
  UCUDNN_RETURN_IF_ERROR(lanes_->ForEach(blocks, [&](int block, int lane) -> Status {
    const State point = CPoint(0, block + 1);
    UCUDNN_RETURN_IF_ERROR(
        propagator_->SquaredDistance(grids_[1].source[block + 1], point, &parts_[block], lane));
    if (!by_state) return Status::Ok();
    return propagator_->SquaredDistance(point, nullptr, &sizes_[block], lane);
  }));
  UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  if (!by_state) return Status::Ok();
  for (int i = 0; i < blocks; ++i) {
    if (parts_[i] != 0) parts_[i] /= sizes_[i];
  }
  return Status::Ok();
}

Status BlockSystem::MeasureFullResidual(int parts) {
  const Level& shape = hierarchy_->level(0);
  // A lane's scratch must keep the stepped state until the next Wait. So only as many parts run at
  // once as there are lanes. If blocks run side by side, each step has its own scratch.
  const int distance = runs_side_by_side_ ? shape.coarsening : 1;
  const int at_once = runs_side_by_side_ ? parts : lanes_->count();
  if (runs_side_by_side_) UCUDNN_RETURN_IF_ERROR(AwaitFirst(0, 0));
  for (int place = 0; place < distance; ++place) {
    for (int begin = place; begin < parts; begin += at_once * distance) {
      const int count = std::min(at_once, (parts - begin + distance - 1) / distance);
      const auto part_of = [&](int task) { return begin + task * distance; };
      UCUDNN_RETURN_IF_ERROR(Run({kMeasure, 0, place}, count, [&](int task, int lane) -> Status {
        const int part = part_of(task);
        if (part == 0) UCUDNN_RETURN_IF_ERROR(AwaitFirst(0, lane));
        const State stepped = Scratch(0, part, lane);
        if (!KeepsF(0)) return StepThrough(part, shape.c_point(part + 1), stepped, lane);
        return propagator_->Step(0, part, grids_[0].states[part], stepped, lane);
      }));
      UCUDNN_RETURN_IF_ERROR(lanes_->ForEach(count, [&](int task, int lane) {
        const int part = part_of(task);
        const State state = KeepsF(0) ? grids_[0].states[part + 1] : CPoint(0, part + 1);
        return propagator_->SquaredDistance(Scratch(0, part, lane), state, &parts_[part], lane);
      }));
      UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
    }
  }
  return Status::Ok();
}

Result<std::span<const double>> BlockSystem::Parts(NormParts parts) {
  const Level& shape = hierarchy_->level(0);
  if (parts == NormParts::kResidual || parts == NormParts::kResidualByState) {
    UCUDNN_RETURN_IF_ERROR(MeasureResidual(parts == NormParts::kResidualByState));
    return std::span<const double>(parts_.data(), shape.blocks());
  }
  if (parts == NormParts::kFullResidual) {
    // With Storage::kCPoints only the C-points have residuals, because the F-points are computed
    // from these.
    const int count = KeepsF(0) ? shape.steps : shape.blocks();
    UCUDNN_RETURN_IF_ERROR(MeasureFullResidual(count));
    return std::span<const double>(parts_.data(), count);
  }
  const int in_front = StatesInFront();
  const int c_points = shape.blocks() + 1;
  const int count = in_front + c_points + (shape.last_c_point() == shape.steps ? 0 : 1);
  UCUDNN_RETURN_IF_ERROR(lanes_->ForEach(count, [&](int i, int lane) {
    const int number = i - in_front;
    const State state = number < 0 ? first() : number < c_points ? CPoint(0, number) : last();
    return propagator_->SquaredDistance(state, nullptr, &parts_[i], lane);
  }));
  UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  const int skipped = traits_.has_inlet ? 1 : 0;
  return std::span<const double>(parts_.data() + skipped, count - skipped);
}

Status BlockSystem::ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                           std::vector<State>& states) {
  const int begin = hierarchy_->level(0).FirstStateOf(block);
  if (states.empty()) states.push_back(block < 0 ? first() : CPoint(0, block));
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
