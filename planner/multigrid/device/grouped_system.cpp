#include "planner/multigrid/device/grouped_system.h"

#include <utility>

#include "planner/multigrid/device/grouped_grid.h"

namespace ucudnn::multigrid {

GroupedSystem::GroupedSystem(std::shared_ptr<Run> run, GroupedSystem* states,
                             const PartTraits& traits)
    : run_(std::move(run)), states_(states), traits_(traits) {}
GroupedSystem::~GroupedSystem() = default;

StepRunner& GroupedSystem::runner() const { return *run_->runner; }
DeviceLane& GroupedSystem::lane() const { return run_->lanes->first(); }
const Level& GroupedSystem::LevelOf(int level) const {
  return runner().stage().hierarchy.level(level);
}
double GroupedSystem::UnitRoundoff() const { return runner().target().precision->unit_roundoff; }

Status GroupedSystem::Combine(double a, const StatesView& x, double b, const StatesView& y) {
  return runner().sums().Combine(lane(), a, x, b, y);
}

Result<StepPlan> GroupedSystem::PlanOf(int level, const std::vector<int>& steps) {
  const DeviceStage& stage = runner().stage();
  std::vector<LayerRange> ranges;
  for (const int step : steps) {
    ranges.push_back(LayersOf(stage.coarse, LevelOf(level), step, stage.h));
  }
  return runner().Plan(ranges);
}

Status GroupedSystem::MakeGrid(int level) {
  auto grid = std::make_unique<Grid>();
  grid->level = LevelOf(level);
  grid->tail = grid->level.steps - grid->level.last_c_point();
  const int blocks = grid->blocks();
  const bool has_gradients = runner().stage().has_gradients && level == 0;
  const Pass pass = !is_adjoint()   ? Pass::kForward
                    : has_gradients ? Pass::kGradient
                                    : Pass::kAdjoint;
  const auto memory = [&](int states) {
    return DeviceNumbers::Make(runner().target(), states * runner().StateSize() * runner().batch());
  };
  const auto add = [&](std::vector<DeviceNumbers>& to, int states) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, memory(states));
    to.push_back(std::move(made));
    return Status::Ok();
  };
  const auto plan = [&](std::vector<StepPlan>& to, const std::vector<int>& steps) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(StepPlan made, PlanOf(level, steps));
    UCUDNN_RETURN_IF_ERROR(runner().Prepare(made, {blocks + 1, blocks, 1}, pass));
    to.push_back(std::move(made));
    return Status::Ok();
  };
  for (std::optional<DeviceNumbers>* points : {&grid->c_points, &grid->advanced}) {
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, memory(blocks + 1));
    points->emplace(std::move(made));
  }
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers spare, memory(blocks));
  grid->spare.emplace(std::move(spare));
  for (int place = 0; place < grid->places(); ++place) {
    if (place > 0) UCUDNN_RETURN_IF_ERROR(add(grid->f_points, blocks));
    if (HasSources(level)) UCUDNN_RETURN_IF_ERROR(add(grid->sources, blocks));
    std::vector<int> steps;
    for (int block = 0; block < blocks; ++block) steps.push_back(block * grid->places() + place);
    UCUDNN_RETURN_IF_ERROR(plan(grid->plans, steps));
  }
  for (int place = 0; place < grid->tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(add(grid->tail_points, 1));
    if (HasSources(level)) UCUDNN_RETURN_IF_ERROR(add(grid->tail_sources, 1));
    UCUDNN_RETURN_IF_ERROR(plan(grid->tail_plans, {grid->level.last_c_point() + place}));
  }
  if (is_adjoint() && grid->level.span > 1) UCUDNN_RETURN_IF_ERROR(MakeLinear(*grid));
  grids_.push_back(std::move(grid));
  return Status::Ok();
}

Status GroupedSystem::MakeLinear(Grid& grid) {
  const auto add = [&](std::vector<DeviceNumbers>& to, size_t places, int states) -> Status {
    for (size_t place = 0; place < places; ++place) {
      UCUDNN_ASSIGN_OR_RETURN(
          DeviceNumbers made,
          DeviceNumbers::Make(runner().target(), states * runner().StateSize() * runner().batch()));
      to.push_back(std::move(made));
    }
    return Status::Ok();
  };
  UCUDNN_RETURN_IF_ERROR(add(grid.linear, grid.plans.size(), grid.blocks()));
  return add(grid.tail_linear, grid.tail_plans.size(), 1);
}

Result<std::shared_ptr<GroupedSystem::Run>> GroupedSystem::MakeRun(
    const DeviceTarget& target, const DeviceStage& stage, std::shared_ptr<DeviceLanes> lanes) {
  auto run = std::make_shared<Run>();
  UCUDNN_ASSIGN_OR_RETURN(run->runner, StepRunner::Make(target, stage, 1));
  run->lanes = std::move(lanes);
  return run;
}

Result<std::unique_ptr<GroupedSystem>> GroupedSystem::Make(std::shared_ptr<Run> run,
                                                           const PartTraits& traits) {
  std::unique_ptr<GroupedSystem> system(new GroupedSystem(std::move(run), nullptr, traits));
  const int levels = system->runner().stage().hierarchy.levels();
  for (int level = 0; level < levels; ++level) {
    UCUDNN_RETURN_IF_ERROR(system->MakeGrid(level));
  }
  UCUDNN_RETURN_IF_ERROR(system->run_->lanes->Reserve(system->runner().needs()));
  UCUDNN_RETURN_IF_ERROR(LoadWeights(*system->run_));
  return system;
}

Result<std::unique_ptr<GroupedSystem>> GroupedSystem::MakeAdjoint(GroupedSystem& states,
                                                                  const PartTraits& traits) {
  std::unique_ptr<GroupedSystem> system(new GroupedSystem(states.run_, &states, traits));
  for (size_t level = 0; level < states.grids_.size(); ++level) {
    UCUDNN_RETURN_IF_ERROR(system->MakeGrid(static_cast<int>(level)));
  }
  UCUDNN_RETURN_IF_ERROR(system->run_->lanes->Reserve(system->runner().needs()));
  return system;
}

Status GroupedSystem::LoadWeights(Run& run) {
  DeviceLane& lane = run.lanes->first();
  UCUDNN_RETURN_IF_ERROR(lane.Wait());
  return run.runner->weights().Upload(lane);
}

Status GroupedSystem::Join() { return run_->lanes->Join(); }

State GroupedSystem::Handle(Kind kind, int level, int number, const StatesView& view) {
  std::unique_ptr<StatesView>& handle = handles_[{kind, level, number}];
  if (!handle) handle = std::make_unique<StatesView>(view);
  return handle.get();
}

StatesView GroupedSystem::StateView(int level, int number) const {
  const Grid& grid = *grids_[level];
  const int last_c_point = grid.level.last_c_point();
  if (number >= last_c_point) return TailPlace(level, number - last_c_point);
  return Part(Place(level, number % grid.places()), number / grid.places(), 1);
}

StatesView GroupedSystem::SourceView(int level, int step) const {
  const Grid& grid = *grids_[level];
  const int last_c_point = grid.level.last_c_point();
  if (step >= last_c_point) return {grid.tail_sources[step - last_c_point].data()};
  return Part({grid.sources[step % grid.places()].data(), 1, grid.blocks()}, step / grid.places(),
              1);
}

State GroupedSystem::ReadState(int number) {
  return Handle(Kind::kState, 0, number, StateView(0, number));
}

State GroupedSystem::state(int level, int number) {
  const int in_network = InNetwork(level, number);
  return Handle(Kind::kState, level, in_network, StateView(level, in_network));
}

State GroupedSystem::c_point(int level, int number) {
  const Grid& grid = *grids_[level];
  const int in_network = is_adjoint() ? grid.blocks() - number : number;
  return Handle(Kind::kState, level, in_network * grid.places(),
                Part({grid.c_points->data(), 1, grid.blocks() + 1}, in_network, 1));
}

// Of the step that gives the state.
State GroupedSystem::source(int level, int number) {
  const int step = is_adjoint() ? LevelOf(level).steps - number : number - 1;
  return Handle(Kind::kSource, level, step, SourceView(level, step));
}

Status GroupedSystem::RecordCycles() {
  UCUDNN_ASSIGN_OR_RETURN(CycleGraphs graphs, CycleGraphs::Make(runner().target()));
  graphs_.emplace(std::move(graphs));
  return Status::Ok();
}

Status GroupedSystem::RunCycle(int kind, const std::function<Status()>& cycle) {
  return graphs_ ? graphs_->Run(kind, *run_->lanes, cycle) : cycle();
}

StatesView GroupedSystem::Part(const StatesView& view, int64_t states, int count) const {
  StatesView part = view;
  part.data = runner().target().Behind(view.data, states * view.distance * runner().StateSize());
  part.count = count;
  return part;
}

StatesView GroupedSystem::Place(int level, int place) const {
  const Grid& grid = *grids_[level];
  if (place == 0 || place == grid.places()) {
    const StatesView points = {grid.c_points->data(), grid.blocks(), grid.blocks() + 1};
    return Part(points, place == 0 ? 0 : 1, grid.blocks());
  }
  return {grid.f_points[place - 1].data(), grid.blocks(), grid.blocks()};
}

StatesView GroupedSystem::TailPlace(int level, int place) const {
  const Grid& grid = *grids_[level];
  if (place > 0) return {grid.tail_points[place - 1].data(), 1, 1};
  const StatesView points = {grid.c_points->data(), 1, grid.blocks() + 1};
  return Part(points, grid.blocks(), 1);
}

StatesView GroupedSystem::Computed(int level, const DeviceNumbers& points) const {
  const int blocks = grids_[level]->blocks();
  const StatesView all = {points.data(), blocks, blocks + 1};
  return Part(all, is_adjoint() ? 0 : 1, blocks);
}

StatesView GroupedSystem::Given(int level) const {
  const Grid& grid = *grids_[level];
  if (is_adjoint()) return TailPlace(level, grid.tail);
  return {grid.c_points->data(), 1, grid.blocks() + 1};
}

StatesView GroupedSystem::LinearOf(int level, int place) const {
  if (!is_adjoint()) return {};
  const Grid& grid = *grids_[level];
  if (grid.level.span == 1) return states_->Place(0, place);
  return {grid.linear[place].data(), grid.blocks(), grid.blocks()};
}

StatesView GroupedSystem::LinearOfTail(int level, int place) const {
  if (!is_adjoint()) return {};
  if (LevelOf(level).span == 1) return states_->TailPlace(0, place);
  return {grids_[level]->tail_linear[place].data()};
}

Status GroupedSystem::StepPlanned(const StepPlan& plan, const StepRunner::Positions& positions,
                                  const StatesView& linearised, const StatesView& from,
                                  const StatesView& out) {
  if (!is_adjoint()) {
    return runner().Step(plan, positions, Grid::StatesOf(from), Grid::StatesOf(out), lane());
  }
  const StatesView states = Part(linearised, positions.begin, positions.end - positions.begin);
  return runner().AdjointStep(
      plan, positions, {Grid::StatesOf(states), Grid::StatesOf(from), Grid::StatesOf(out)}, lane());
}

Status GroupedSystem::StepBlocks(int level, int place, const StatesView& from,
                                 const StatesView& out, int block) {
  const Grid& grid = *grids_[level];
  const bool is_all = block == Grid::kAllBlocks;
  const StepRunner::Positions positions = {is_all ? 0 : block, is_all ? grid.blocks() : block + 1};
  const auto part = [&](const StatesView& view) {
    return Part(view, positions.begin, positions.end - positions.begin);
  };
  return StepPlanned(grid.plans[place], positions, LinearOf(level, place), part(from), part(out));
}

Status GroupedSystem::StepTail(int level, int place, const StatesView& from,
                               const StatesView& out) {
  return StepPlanned(grids_[level]->tail_plans[place], {}, LinearOfTail(level, place), from, out);
}

Status GroupedSystem::GatherPoints(const Grid& from, const DeviceNumbers& points, int begin,
                                   int distance, const StatesView& to) {
  const StatesView all = {points.data(), 1, from.blocks() + 1};
  StatesView apart = Part(all, begin, to.count);
  apart.distance = distance;
  return Combine(1, apart, 0, to);
}

Status GroupedSystem::GatherStates(int begin, int distance, const StatesView& to) {
  const int coarsening = LevelOf(0).coarsening;
  StatesView apart = Part(states_->Place(0, begin % coarsening), begin / coarsening, to.count);
  // Coarse steps begin whole blocks apart.
  apart.distance = distance / coarsening;
  return Combine(1, apart, 0, to);
}

Status GroupedSystem::Linearise() {
  for (size_t level = 1; level < grids_.size(); ++level) {
    const Grid& grid = *grids_[level];
    const int distance = grid.places() * grid.level.span;
    for (size_t place = 0; place < grid.linear.size(); ++place) {
      UCUDNN_RETURN_IF_ERROR(
          GatherStates(grid.plans[place].begin, distance,
                       {grid.linear[place].data(), grid.blocks(), grid.blocks()}));
    }
    for (size_t place = 0; place < grid.tail_linear.size(); ++place) {
      UCUDNN_RETURN_IF_ERROR(
          GatherStates(grid.tail_plans[place].begin, distance, {grid.tail_linear[place].data()}));
    }
  }
  return Status::Ok();
}

Status GroupedSystem::LineariseOnOthers(StateReader& states) {
  const auto copy = [&](int number, const DeviceNumbers& to, int block, int count) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(const State state, states.At(number, 0));
    return Combine(1, ViewOf(state), 0, Part({to.data(), 1, count}, block, 1));
  };
  for (const auto& grid : grids_) {
    const int distance = grid->places() * grid->level.span;
    for (size_t place = 0; place < grid->linear.size(); ++place) {
      for (int block = 0; block < grid->blocks(); ++block) {
        UCUDNN_RETURN_IF_ERROR(copy(grid->plans[place].begin + block * distance,
                                    grid->linear[place], block, grid->blocks()));
      }
    }
    for (size_t place = 0; place < grid->tail_linear.size(); ++place) {
      UCUDNN_RETURN_IF_ERROR(copy(grid->tail_plans[place].begin, grid->tail_linear[place], 0, 1));
    }
  }
  return Status::Ok();
}

Status GroupedSystem::LineariseAt(StateReader* states) {
  return states != nullptr ? LineariseOnOthers(*states) : Linearise();
}

Status GroupedSystem::CarryOver(const FirstStateChange& change) {
  const Grid& grid = *grids_[0];
  StatesView to = ViewOf(change.to), from = ViewOf(change.from);
  to.distance = from.distance = 0;
  const auto add = [&](const StatesView& states) -> Status {
    UCUDNN_RETURN_IF_ERROR(Combine(1, to, 1, states));
    return Combine(-1, from, 1, states);
  };
  for (int i = 0; i < grid.places(); ++i) UCUDNN_RETURN_IF_ERROR(add(Place(0, ToOf(i))));
  // Another rank's last state, here.
  if (traits_.has_inlet) UCUDNN_RETURN_IF_ERROR(add(Given(0)));
  if (is_adjoint()) return Status::Ok();  // whose tail is stepped before
  for (int place = 1; place <= grid.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(add(TailPlace(0, place)));
  }
  return Status::Ok();
}

Status GroupedSystem::SetFirst(State first) {
  const StatesView& given = ViewOf(first);
  if (given.data != Given(0).data) UCUDNN_RETURN_IF_ERROR(Combine(1, given, 0, Given(0)));
  if (is_adjoint()) return Join();
  for (int level = 0; level < static_cast<int>(grids_.size()); ++level) {
    const Grid& grid = *grids_[level];
    if (level > 0) UCUDNN_RETURN_IF_ERROR(Combine(1, given, 0, Given(level)));
    UCUDNN_RETURN_IF_ERROR(Combine(1, given, 0, {grid.advanced->data(), 1, grid.blocks() + 1}));
  }
  return Join();
}

// Of the adjoint: its tail is what its blocks follow from.
Status GroupedSystem::StepLead(int level, Source source) {
  if (!is_adjoint() || traits_.has_inlet) return Status::Ok();
  const Grid& grid = *grids_[level];
  UCUDNN_RETURN_IF_ERROR(RelaxTail(level, HasSources(level) && source == Source::kRestricted));
  const StatesView first = TailPlace(level, 0);
  // Its residual is none.
  const StatesView advanced = {grid.advanced->data(), 1, grid.blocks() + 1};
  UCUDNN_RETURN_IF_ERROR(Combine(1, first, 0, Part(advanced, grid.blocks(), 1)));
  // A coarse level begins where the first C-point of the finer one is.
  if (level + 1 == static_cast<int>(grids_.size())) return Status::Ok();
  return Combine(1, first, 0, Given(level + 1));
}

Status GroupedSystem::Broadcast() {
  const Grid& grid = *grids_[0];
  StatesView first = Given(0);
  first.distance = 0;
  for (int i = 0; i < grid.places(); ++i) {
    UCUDNN_RETURN_IF_ERROR(Combine(1, first, 0, Place(0, ToOf(i))));
  }
  if (is_adjoint()) return Status::Ok();  // whose tail is stepped before
  for (int place = 1; place <= grid.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(Combine(1, first, 0, TailPlace(0, place)));
  }
  return Status::Ok();
}

Status GroupedSystem::RelaxTail(int level, bool adds) {
  const Grid& grid = *grids_[level];
  for (int i = 0; i < grid.tail; ++i) {
    const int place = is_adjoint() ? grid.tail - 1 - i : i;
    const StatesView out = TailPlace(level, ToOf(place));
    UCUDNN_RETURN_IF_ERROR(StepTail(level, place, TailPlace(level, FromOf(place)), out));
    if (adds) UCUDNN_RETURN_IF_ERROR(Combine(1, {grid.tail_sources[place].data()}, 1, out));
  }
  return Status::Ok();
}

Status GroupedSystem::RelaxF(int level, Source source) {
  const Grid& grid = *grids_[level];
  const bool adds = HasSources(level) && source == Source::kRestricted;
  UCUDNN_RETURN_IF_ERROR(AwaitFirst(level));
  for (int i = 0; i + 1 < grid.places(); ++i) {
    const int place = is_adjoint() ? grid.places() - 1 - i : i;
    const StatesView out = Place(level, ToOf(place));
    UCUDNN_RETURN_IF_ERROR(
        StepBlocks(level, place, Place(level, FromOf(place)), out, Grid::kAllBlocks));
    if (!adds) continue;
    UCUDNN_RETURN_IF_ERROR(
        Combine(1, {grid.sources[place].data(), grid.blocks(), grid.blocks()}, 1, out));
  }
  return is_adjoint() ? Status::Ok() : RelaxTail(level, adds);
}

Status GroupedSystem::Advance(int level) {
  const Grid& grid = *grids_[level];
  const int place = is_adjoint() ? 0 : grid.places() - 1;
  const StatesView out = Computed(level, *grid.advanced);
  UCUDNN_RETURN_IF_ERROR(AwaitFirst(level));
  UCUDNN_RETURN_IF_ERROR(
      StepBlocks(level, place, Place(level, FromOf(place)), out, Grid::kAllBlocks));
  if (!HasSources(level)) return Status::Ok();
  return Combine(1, {grid.sources[place].data(), grid.blocks(), grid.blocks()}, 1, out);
}

Status GroupedSystem::RelaxC(int level) {
  const Grid& grid = *grids_[level];
  return Combine(1, Computed(level, *grid.advanced), 0, Computed(level, *grid.c_points));
}

// g = A - Phi_H(U) of the steps at a place, over what is restricted already.
Status GroupedSystem::MakeSource(int level, int place, bool is_tail) {
  const Grid& fine = *grids_[level];
  const Grid& coarse = *grids_[level + 1];
  const int count = is_tail ? 1 : coarse.blocks();
  const int step = is_tail ? coarse.level.last_c_point() + place : place;
  const StatesView source = {
      is_tail ? coarse.tail_sources[place].data() : coarse.sources[place].data(), count, count};
  const StatesView stepped = {coarse.spare->data(), count, count};
  UCUDNN_RETURN_IF_ERROR(GatherPoints(fine, *fine.advanced, ToOf(step), coarse.places(), source));
  UCUDNN_RETURN_IF_ERROR(
      is_tail ? StepTail(level + 1, place, TailPlace(level + 1, FromOf(place)), stepped)
              : StepBlocks(level + 1, place, Place(level + 1, FromOf(place)), stepped,
                           Grid::kAllBlocks));
  return Combine(-1, stepped, 1, source);
}

Status GroupedSystem::Restrict(int level) {
  const Grid& fine = *grids_[level];
  const Grid& coarse = *grids_[level + 1];
  const int places = coarse.places();
  UCUDNN_RETURN_IF_ERROR(AwaitFirst(level));
  const auto restrict_to = [&](int begin, const StatesView& to) {
    return GatherPoints(fine, *fine.c_points, begin, places, to);
  };
  UCUDNN_RETURN_IF_ERROR(
      restrict_to(0, {coarse.c_points->data(), coarse.blocks() + 1, coarse.blocks() + 1}));
  for (int place = 1; place < places; ++place) {
    UCUDNN_RETURN_IF_ERROR(restrict_to(place, Place(level + 1, place)));
  }
  for (int place = 1; place <= coarse.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(
        restrict_to(coarse.level.last_c_point() + place, TailPlace(level + 1, place)));
  }
  for (int place = 0; place < places; ++place) {
    UCUDNN_RETURN_IF_ERROR(MakeSource(level, place, false));
  }
  for (int place = 0; place < coarse.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(MakeSource(level, place, true));
  }
  return Status::Ok();
}

Status GroupedSystem::SolveSerially(int level, Source source) {
  const Grid& grid = *grids_[level];
  const bool adds = HasSources(level) && source == Source::kRestricted;
  if (is_adjoint()) UCUDNN_RETURN_IF_ERROR(RelaxTail(level, adds));
  const int steps = grid.level.last_c_point();
  for (int i = 0; i < steps; ++i) {
    const int step = is_adjoint() ? steps - 1 - i : i;
    const int block = step / grid.places();
    const int place = step % grid.places();
    const StatesView out = Place(level, ToOf(place));
    UCUDNN_RETURN_IF_ERROR(StepBlocks(level, place, Place(level, FromOf(place)), out, block));
    if (!adds) continue;
    const auto alone = [&](const StatesView& view) { return Part(view, block, 1); };
    UCUDNN_RETURN_IF_ERROR(
        Combine(1, alone({grid.sources[place].data(), 1, grid.blocks()}), 1, alone(out)));
  }
  return is_adjoint() ? Status::Ok() : RelaxTail(level, adds);
}

Status GroupedSystem::Correct(int level) {
  const Grid& fine = *grids_[level];
  const Grid& coarse = *grids_[level + 1];
  const StatesView points = {fine.c_points->data(), 1, fine.blocks() + 1};
  if (traits_.has_inlet) UCUDNN_RETURN_IF_ERROR(Combine(1, Given(level + 1), 0, Given(level)));
  const auto correct = [&](const StatesView& from, int begin) {
    StatesView to = Part(points, begin, from.count);
    to.distance = coarse.places();
    return Combine(1, from, 0, to);
  };
  for (int i = 0; i < coarse.places(); ++i) {
    UCUDNN_RETURN_IF_ERROR(correct(Place(level + 1, ToOf(i)), ToOf(i)));
  }
  for (int i = 0; i < coarse.tail; ++i) {
    UCUDNN_RETURN_IF_ERROR(
        correct(TailPlace(level + 1, ToOf(i)), coarse.level.last_c_point() + ToOf(i)));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
