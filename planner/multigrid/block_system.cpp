#include "planner/multigrid/block_system.h"

#include <algorithm>

namespace ucudnn::multigrid {
namespace {

// States of a lane: two that steps through a block alternate between, and what is compared.
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
    const size_t behind_first =
        system.KeepsF(level) ? shape.steps : shape.blocks() + 1 + (shape.lead > 0 ? 1 : 0);
    const bool has_first = level == 0 || traits.has_inlet;
    if (!has_first) grid.states.push_back(system.CPoint(level - 1, 0));
    UCUDNN_RETURN_IF_ERROR(create(grid.states, has_first ? behind_first + 1 : behind_first));
    if (level == 0 && !traits.has_source) continue;
    grid.source.push_back(nullptr);
    UCUDNN_RETURN_IF_ERROR(create(grid.source, shape.steps));
  }
  system.scratch_.resize(lanes.count());
  for (auto& of_lane : system.scratch_) UCUDNN_RETURN_IF_ERROR(create(of_lane, kScratch));
  system.parts_.resize(static_cast<size_t>(hierarchy.level(0).steps) + 2);
  system.sizes_.resize(hierarchy.level(0).blocks());
  return system;
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
  return ForEach(static_cast<int>(states.size()) - 1, [&](int i, int lane) {
    return propagator_->Combine(states[i + 1], 0, 1, states[0], lane);
  });
}

Status BlockSystem::Step(int level, int step, State from, State to, Source source, int lane) {
  UCUDNN_RETURN_IF_ERROR(propagator_->Step(level, step, from, to, lane));
  if (source == Source::kNone || grids_[level].source.empty()) return Status::Ok();
  return propagator_->Combine(to, 1, 1, grids_[level].source[step + 1], lane);
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
  // Corrections exchange states between levels, the first C-point of a level among them.
  if (level < hierarchy_->coarsest() && !traits_.has_inlet) {
    grids_[level + 1].states[0] = CPoint(level, 0);
  }
  const int lead = hierarchy_->level(level).lead;
  if (lead == 0) return Status::Ok();
  if (KeepsF(level)) {
    std::vector<State>& states = grids_[level].states;
    for (int step = 0; step < lead; ++step) {
      UCUDNN_RETURN_IF_ERROR(Step(level, step, states[step], states[step + 1], source, 0));
    }
  } else {
    UCUDNN_RETURN_IF_ERROR(StepThrough(-1, lead, CPoint(0, 0), 0));
  }
  return propagator_->Join();
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
  const int blocks = shape.blocks() + 1;
  return ForEach(blocks, [&](int task, int lane) -> Status {
    const int block = BlockAt(task, blocks);
    UCUDNN_RETURN_IF_ERROR(AwaitFirst(level, block, lane));
    const int begin = shape.c_point(block);
    const int end = std::min(begin + shape.coarsening - 1, shape.steps);
    for (int step = begin; step < end; ++step) {
      UCUDNN_RETURN_IF_ERROR(Step(level, step, states[step], states[step + 1], source, lane));
    }
    return Status::Ok();
  });
}

Status BlockSystem::AdvanceBlock(int level, int block, int lane) {
  const int end = hierarchy_->level(level).c_point(block + 1);
  const State advanced = grids_[level + 1].source[block + 1];
  if (KeepsF(level)) {
    return Step(level, end - 1, grids_[level].states[end - 1], advanced, Source::kRestricted, lane);
  }
  UCUDNN_RETURN_IF_ERROR(AwaitFirst(level, block, lane));
  return StepThrough(block, end, advanced, lane);
}

Status BlockSystem::Advance(int level) {
  const int blocks = hierarchy_->level(level).blocks();
  return ForEach(
      blocks, [&](int task, int lane) { return AdvanceBlock(level, BlockAt(task, blocks), lane); });
}

Status BlockSystem::RelaxC(int level) {
  std::vector<State>& advanced = grids_[level + 1].source;
  return ForEach(hierarchy_->level(level).blocks(), [&](int block, int lane) {
    return propagator_->Take(CPoint(level, block + 1), advanced[block + 1], lane);
  });
}

Status BlockSystem::Restrict(int level) {
  Grid& coarse = grids_[level + 1];
  const bool is_solved_next = level + 1 == hierarchy_->coarsest();
  const int blocks = hierarchy_->level(level).blocks();
  return ForEach(blocks, [&](int task, int lane) -> Status {
    const int block = BlockAt(task, blocks);
    UCUDNN_RETURN_IF_ERROR(AwaitFirst(level, block, lane));
    const State stepped = scratch_[lane].back();
    UCUDNN_RETURN_IF_ERROR(
        propagator_->Step(level + 1, block, CPoint(level, block), stepped, lane));
    UCUDNN_RETURN_IF_ERROR(propagator_->Combine(coarse.source[block + 1], 1, -1, stepped, lane));
    if (is_solved_next) return Status::Ok();  // from its first state on
    if (traits_.has_inlet && block == 0) {
      UCUDNN_RETURN_IF_ERROR(propagator_->Combine(coarse.states[0], 0, 1, CPoint(level, 0), lane));
    }
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
  UCUDNN_RETURN_IF_ERROR(StepLead(0, source));
  for (int block = 0; block < shape.blocks(); ++block) {
    UCUDNN_RETURN_IF_ERROR(StepThrough(block, shape.c_point(block + 1), CPoint(0, block + 1), 0));
  }
  return RelaxF(0, source);
}

Status BlockSystem::Correct(int level) {
  const int first = traits_.has_inlet ? 0 : 1;
  for (int block = first; block <= hierarchy_->level(level).blocks(); ++block) {
    UCUDNN_RETURN_IF_ERROR(
        propagator_->Take(CPoint(level, block), grids_[level + 1].states[block], 0));
  }
  return propagator_->Join();
}

Status BlockSystem::MeasureResidual(bool by_state) {
  const int blocks = hierarchy_->level(0).blocks();
  UCUDNN_RETURN_IF_ERROR(ForEach(blocks, [&](int block, int lane) -> Status {
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
  // A lane compares in its scratch, which holds until the next Wait.
  for (int begin = 0; begin < parts; begin += lanes_->count()) {
    const int count = std::min(lanes_->count(), parts - begin);
    UCUDNN_RETURN_IF_ERROR(ForEach(count, [&](int task, int lane) -> Status {
      const int part = begin + task;
      UCUDNN_RETURN_IF_ERROR(AwaitFirst(0, part, lane));
      const State stepped = scratch_[lane].back();
      if (KeepsF(0)) {
        std::vector<State>& states = grids_[0].states;
        UCUDNN_RETURN_IF_ERROR(propagator_->Step(0, part, states[part], stepped, lane));
        return propagator_->SquaredDistance(stepped, states[part + 1], &parts_[part], lane);
      }
      UCUDNN_RETURN_IF_ERROR(StepThrough(part, shape.c_point(part + 1), stepped, lane));
      return propagator_->SquaredDistance(stepped, CPoint(0, part + 1), &parts_[part], lane);
    }));
    UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
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
    // With C-points alone the states between them follow from them, and so have no residual.
    const int count = KeepsF(0) ? shape.steps : shape.blocks();
    UCUDNN_RETURN_IF_ERROR(MeasureFullResidual(count));
    return std::span<const double>(parts_.data(), count);
  }
  const int in_front = StatesInFront();
  const int c_points = shape.blocks() + 1;
  const int count = in_front + c_points + (shape.last_c_point() == shape.steps ? 0 : 1);
  UCUDNN_RETURN_IF_ERROR(ForEach(count, [&](int i, int lane) {
    const int number = i - in_front;
    const State state = number < 0 ? first() : number < c_points ? CPoint(0, number) : last();
    return propagator_->SquaredDistance(state, nullptr, &parts_[i], lane);
  }));
  UCUDNN_RETURN_IF_ERROR(propagator_->Wait());
  const int skipped = traits_.has_inlet ? 1 : 0;
  return std::span<const double>(parts_.data() + skipped, count - skipped);
}

Status BlockSystem::ReadBlock(int block, const std::vector<State>& scratch, int lane,
                              std::vector<State>& states) {
  const Level& shape = hierarchy_->level(0);
  const int begin = shape.FirstStateOf(block);
  const int end = block < 0 ? shape.lead : std::min(begin + shape.coarsening, shape.steps + 1);
  states.clear();
  return ReadOn(block, end - begin, scratch, lane, states);
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
