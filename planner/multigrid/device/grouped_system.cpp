#include "planner/multigrid/device/grouped_system.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace ucudnn::multigrid {

// The states of one level, by their places in blocks. B blocks, c places.
struct GroupedSystem::Grid {
  Level level;
  int tail = 0;  // steps behind the last C-point
  // B + 1 C-points, and what Advance makes of them; both begin with u0.
  std::optional<DeviceNumbers> c_points, advanced;
  std::vector<DeviceNumbers> f_points;  // places 1 to c - 1, B states each
  std::optional<DeviceNumbers> spare;   // as many states as the widest use of it has
  std::vector<DeviceNumbers> tail_points;
  // The right side of each place's step: by place B states, and the tail's. Empty on the finest
  // level.
  std::vector<DeviceNumbers> sources, tail_sources;
  // What a step applies, by place and layer of the step, each in the order of blocks.
  std::vector<std::vector<std::unique_ptr<DeviceWeights>>> weights, tail_weights;
  // The same of all steps of the level in their order; not of the finest level.
  std::vector<std::unique_ptr<DeviceWeights>> all_weights;

  int blocks() const { return level.blocks(); }
  int places() const { return level.coarsening; }
};

namespace {

StatesView Offset(StatesView view, int64_t states, int64_t state, int count) {
  view.data += states * state;
  view.count = count;
  return view;
}

double SquaredNorm(const std::vector<float>& a, const std::vector<float>* b, size_t begin,
                   size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) {
    const double difference = double{a[i]} - (b != nullptr ? double{(*b)[i]} : 0.0);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

GroupedSystem::GroupedSystem(const DeviceTarget& target, const Hierarchy& hierarchy)
    : target_(target), hierarchy_(hierarchy) {}
GroupedSystem::~GroupedSystem() = default;

double GroupedSystem::UnitRoundoff() const { return std::numeric_limits<float>::epsilon() / 2; }

double GroupedSystem::FactorOf(int level) const {
  return coarse_ == CoarseOperator::kSum ? h_ : h_ * hierarchy_.level(level).span;
}

Result<std::vector<std::unique_ptr<DeviceWeights>>> GroupedSystem::WeightsOf(
    const DeviceStage& stage, int level, const std::vector<int>& steps) {
  const Level& shape = hierarchy_.level(level);
  const LayerRanges first = LayersOf(coarse_, shape, 0, h_);
  const int layers = first.parts[0].end - first.parts[0].begin;
  std::vector<std::unique_ptr<DeviceWeights>> all;
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<int> order;
    order.reserve(steps.size());
    for (const int step : steps) {
      order.push_back(LayersOf(coarse_, shape, step, h_).parts[0].begin + layer);
    }
    UCUDNN_ASSIGN_OR_RETURN(auto made, DeviceWeights::Make(target_, stage, order));
    all.push_back(std::move(made));
  }
  return all;
}

Status GroupedSystem::MakeGrid(const DeviceStage& stage, int level) {
  auto grid = std::make_unique<Grid>();
  grid->level = hierarchy_.level(level);
  grid->tail = grid->level.steps - grid->level.last_c_point();
  const int blocks = grid->blocks();
  const auto memory = [&](int states) {
    return DeviceNumbers::Make(target_, states * state_ * batch_);
  };
  const auto add = [&](std::vector<DeviceNumbers>& to, int states) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, memory(states));
    to.push_back(std::move(made));
    return Status::Ok();
  };
  for (std::optional<DeviceNumbers>* points : {&grid->c_points, &grid->advanced}) {
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers made, memory(blocks + 1));
    points->emplace(std::move(made));
  }
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers spare, memory(grid->level.steps));
  grid->spare.emplace(std::move(spare));
  for (int place = 0; place < grid->places(); ++place) {
    if (place > 0) UCUDNN_RETURN_IF_ERROR(add(grid->f_points, blocks));
    if (level > 0) UCUDNN_RETURN_IF_ERROR(add(grid->sources, blocks));
    std::vector<int> steps;
    for (int block = 0; block < blocks; ++block) steps.push_back(block * grid->places() + place);
    UCUDNN_ASSIGN_OR_RETURN(auto weights, WeightsOf(stage, level, steps));
    grid->weights.push_back(std::move(weights));
  }
  for (int place = 0; place < grid->tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(add(grid->tail_points, 1));
    if (level > 0) UCUDNN_RETURN_IF_ERROR(add(grid->tail_sources, 1));
    UCUDNN_ASSIGN_OR_RETURN(auto weights,
                            WeightsOf(stage, level, {grid->level.last_c_point() + place}));
    grid->tail_weights.push_back(std::move(weights));
  }
  if (level > 0) {
    std::vector<int> steps;
    for (int step = 0; step < grid->level.steps; ++step) steps.push_back(step);
    UCUDNN_ASSIGN_OR_RETURN(grid->all_weights, WeightsOf(stage, level, steps));
  }
  grids_.push_back(std::move(grid));
  return Status::Ok();
}

Result<std::unique_ptr<GroupedSystem>> GroupedSystem::Make(const DeviceTarget& target,
                                                           const DeviceStage& stage) {
  if (stage.coarse == CoarseOperator::kMean || stage.coarse == CoarseOperator::kSum2) {
    return Status::Error(std::string("the coarse operator ") + NameOf(stage.coarse) +
                         " does not run side by side; inject, mid or sum is expected");
  }
  std::unique_ptr<GroupedSystem> system(new GroupedSystem(target, stage.hierarchy));
  UCUDNN_ASSIGN_OR_RETURN(const StepShape shape, ShapeOfSteps(stage));
  system->coarse_ = stage.coarse;
  system->h_ = stage.h;
  system->batch_ = stage.batch;
  system->state_ = shape.StateSize();
  UCUDNN_ASSIGN_OR_RETURN(system->kernels_,
                          StepKernels::Make(target, shape, stage.batch, stage.workspace_limit));
  int widest = 1;
  for (int level = 0; level < stage.hierarchy.levels(); ++level) {
    UCUDNN_RETURN_IF_ERROR(system->MakeGrid(stage, level));
    const int blocks = system->grids_.back()->blocks();
    widest = std::max(widest, blocks);
    // From C-points or F-points to either, of all blocks and of one.
    for (const int count : {blocks, 1}) {
      for (const int from : {blocks + 1, blocks, 1}) {
        for (const int to : {blocks + 1, blocks, 1}) {
          UCUDNN_RETURN_IF_ERROR(system->kernels_->Prepare(count, from, to));
        }
      }
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(system->lane_,
                          DeviceLane::Make(target, widest * system->state_ * stage.batch,
                                           system->kernels_->workspace()));
  return system;
}

StatesView GroupedSystem::Place(int level, int place) const {
  const Grid& grid = *grids_[level];
  if (place == 0 || place == grid.places()) {
    const StatesView points = {grid.c_points->data(), grid.blocks(), grid.blocks() + 1};
    return Offset(points, place == 0 ? 0 : 1, state_, grid.blocks());
  }
  return {grid.f_points[place - 1].data(), grid.blocks(), grid.blocks()};
}

StatesView GroupedSystem::TailPlace(int level, int place) const {
  const Grid& grid = *grids_[level];
  if (place > 0) return {grid.tail_points[place - 1].data(), 1, 1};
  const StatesView points = {grid.c_points->data(), 1, grid.blocks() + 1};
  return Offset(points, grid.blocks(), state_, 1);
}

Status GroupedSystem::StepAll(const std::vector<std::unique_ptr<DeviceWeights>>& weights, int first,
                              const StatesView& x, const StatesView& out, double factor) {
  StepKernels::Operands operands = {.count = x.count,
                                    .x = x.data,
                                    .x_distance = static_cast<int>(x.image_distance),
                                    .factor = static_cast<float>(factor),
                                    .out = out.data,
                                    .out_distance = static_cast<int>(out.image_distance)};
  for (size_t layer = 0; layer < weights.size(); ++layer) {
    operands.weights = weights[layer]->weights(first);
    operands.bias = weights[layer]->bias(first);
    UCUDNN_RETURN_IF_ERROR(layer == 0 ? kernels_->Step(*lane_, operands)
                                      : kernels_->AddTransformed(*lane_, operands));
  }
  return Status::Ok();
}

Status GroupedSystem::SetFirst(const std::vector<double>& first) {
  const std::vector<float> narrow(first.begin(), first.end());
  UCUDNN_ASSIGN_OR_RETURN(const DeviceNumbers state,
                          DeviceNumbers::Make(target_, static_cast<int64_t>(narrow.size())));
  UCUDNN_RETURN_IF_ERROR(lane_->Upload(narrow.data(), state.data(), state.count()));
  for (const auto& grid : grids_) {
    for (const auto* points : {&grid->c_points, &grid->advanced}) {
      UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, 1, {state.data(), 1, 1}, 0,
                                               {(*points)->data(), 1, grid->blocks() + 1}));
    }
  }
  return lane_->Wait();
}

Status GroupedSystem::Broadcast() {
  const Grid& grid = *grids_[0];
  const StatesView first = {grid.c_points->data(), 1, grid.blocks() + 1, 0};
  const auto fill = [&](const StatesView& to) {
    return kernels_->Combine(*lane_, 1, first, 0, to);
  };
  UCUDNN_RETURN_IF_ERROR(fill(Place(0, grid.places())));
  for (int place = 1; place < grid.places(); ++place) UCUDNN_RETURN_IF_ERROR(fill(Place(0, place)));
  for (int place = 1; place <= grid.tail; ++place)
    UCUDNN_RETURN_IF_ERROR(fill(TailPlace(0, place)));
  return Status::Ok();
}

Status GroupedSystem::RelaxTail(int level, bool adds) {
  const Grid& grid = *grids_[level];
  for (int place = 0; place < grid.tail; ++place) {
    const StatesView out = TailPlace(level, place + 1);
    UCUDNN_RETURN_IF_ERROR(
        StepAll(grid.tail_weights[place], 0, TailPlace(level, place), out, FactorOf(level)));
    if (!adds) continue;
    UCUDNN_RETURN_IF_ERROR(
        kernels_->Combine(*lane_, 1, {grid.tail_sources[place].data(), 1, 1}, 1, out));
  }
  return Status::Ok();
}

Status GroupedSystem::RelaxF(int level, Source source) {
  const Grid& grid = *grids_[level];
  const bool adds = level > 0 && source == Source::kRestricted;
  for (int place = 0; place + 1 < grid.places(); ++place) {
    const StatesView out = Place(level, place + 1);
    UCUDNN_RETURN_IF_ERROR(
        StepAll(grid.weights[place], 0, Place(level, place), out, FactorOf(level)));
    if (!adds) continue;
    UCUDNN_RETURN_IF_ERROR(kernels_->Combine(
        *lane_, 1, {grid.sources[place].data(), grid.blocks(), grid.blocks()}, 1, out));
  }
  return RelaxTail(level, adds);
}

Status GroupedSystem::Advance(int level) {
  const Grid& grid = *grids_[level];
  const int place = grid.places() - 1;
  const StatesView out =
      Offset({grid.advanced->data(), 1, grid.blocks() + 1}, 1, state_, grid.blocks());
  UCUDNN_RETURN_IF_ERROR(
      StepAll(grid.weights[place], 0, Place(level, place), out, FactorOf(level)));
  if (level == 0) return Status::Ok();
  return kernels_->Combine(*lane_, 1, {grid.sources[place].data(), grid.blocks(), grid.blocks()}, 1,
                           out);
}

Status GroupedSystem::RelaxC(int level, double weight) {
  Grid& grid = *grids_[level];
  if (weight == 1) {
    std::swap(grid.c_points, grid.advanced);
    return Status::Ok();
  }
  const StatesView from =
      Offset({grid.advanced->data(), 1, grid.blocks() + 1}, 1, state_, grid.blocks());
  return kernels_->Combine(*lane_, static_cast<float>(weight), from, static_cast<float>(1 - weight),
                           Place(level, grid.places()));
}

Status GroupedSystem::Restrict(int level) {
  const Grid& fine = *grids_[level];
  Grid& coarse = *grids_[level + 1];
  const int blocks = fine.blocks();
  // g[j] = A[j] - Phi_H(U[j - 1]) over the advanced C-points, of which nothing else is needed.
  const StatesView right_side = Offset({fine.advanced->data(), 1, blocks + 1}, 1, state_, blocks);
  const StatesView stepped = {coarse.spare->data(), blocks, blocks};
  UCUDNN_RETURN_IF_ERROR(
      StepAll(coarse.all_weights, 0, Place(level, 0), stepped, FactorOf(level + 1)));
  UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, -1, stepped, 1, right_side));
  // Into the coarse level's places.
  const auto spread = [&](StatesView from, int64_t begin, const StatesView& to) -> Status {
    from = Offset(from, begin, state_, to.count);
    from.distance = coarse.places();
    return kernels_->Combine(*lane_, 1, from, 0, to);
  };
  const StatesView states = {fine.c_points->data(), 1, blocks + 1};
  const StatesView sources = {right_side.data, 1, blocks + 1};
  UCUDNN_RETURN_IF_ERROR(
      spread(states, 0, {coarse.c_points->data(), coarse.blocks() + 1, coarse.blocks() + 1}));
  for (int place = 0; place < coarse.places(); ++place) {
    const int64_t count = coarse.blocks();
    UCUDNN_RETURN_IF_ERROR(
        spread(sources, place, {coarse.sources[place].data(), static_cast<int>(count), count}));
    if (place > 0) UCUDNN_RETURN_IF_ERROR(spread(states, place, Place(level + 1, place)));
  }
  for (int place = 0; place < coarse.tail; ++place) {
    const int64_t step = coarse.level.last_c_point() + place;
    UCUDNN_RETURN_IF_ERROR(spread(sources, step, {coarse.tail_sources[place].data(), 1, 1}));
    UCUDNN_RETURN_IF_ERROR(spread(states, step + 1, TailPlace(level + 1, place + 1)));
  }
  return Status::Ok();
}

Status GroupedSystem::SolveSerially(int level, Source source) {
  const Grid& grid = *grids_[level];
  const bool adds = level > 0 && source == Source::kRestricted;
  for (int step = 0; step < grid.level.last_c_point(); ++step) {
    const int block = step / grid.places();
    const int place = step % grid.places();
    const StatesView out = Offset(Place(level, place + 1), block, state_, 1);
    UCUDNN_RETURN_IF_ERROR(StepAll(grid.weights[place], block,
                                   Offset(Place(level, place), block, state_, 1), out,
                                   FactorOf(level)));
    if (!adds) continue;
    const StatesView right = {grid.sources[place].data(), 1, grid.blocks()};
    UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, 1, Offset(right, block, state_, 1), 1, out));
  }
  return RelaxTail(level, adds);
}

Status GroupedSystem::Correct(int level) {
  Grid& fine = *grids_[level];
  Grid& coarse = *grids_[level + 1];
  if (coarse.places() == 1) {
    // All states in their order, as the C-points.
    std::swap(fine.c_points, coarse.c_points);
    return Status::Ok();
  }
  StatesView to = {fine.c_points->data(), 1, fine.blocks() + 1};
  to.distance = coarse.places();
  for (int place = 1; place <= coarse.places(); ++place) {
    UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, 1, Place(level + 1, place), 0,
                                             Offset(to, place, state_, coarse.blocks())));
  }
  for (int place = 1; place <= coarse.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(
        kernels_->Combine(*lane_, 1, TailPlace(level + 1, place), 0,
                          Offset(to, coarse.level.last_c_point() + place, state_, 1)));
  }
  return Status::Ok();
}

Result<std::vector<double>> GroupedSystem::SquaredNorms(bool of_residuals) const {
  const Grid& grid = *grids_[0];
  const auto size = static_cast<size_t>(grid.c_points->count());
  std::vector<float> states(size), advanced(of_residuals ? size : 0);
  UCUDNN_RETURN_IF_ERROR(lane_->Download(grid.c_points->data(), states.data(), states.size()));
  if (of_residuals) {
    UCUDNN_RETURN_IF_ERROR(
        lane_->Download(grid.advanced->data(), advanced.data(), advanced.size()));
  }
  std::vector<double> squares(grid.blocks() + 1);
  for (int image = 0; image < batch_; ++image) {
    for (size_t point = 0; point < squares.size(); ++point) {
      const auto begin = (image * squares.size() + point) * static_cast<size_t>(state_);
      squares[point] += SquaredNorm(states, of_residuals ? &advanced : nullptr, begin,
                                    begin + static_cast<size_t>(state_));
    }
  }
  return squares;
}

// Both begin with u0, whose residual is 0.
Result<double> GroupedSystem::ResidualNorm() {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> squares, SquaredNorms(true));
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

Result<double> GroupedSystem::ResidualNormByState() {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> residuals, SquaredNorms(true));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> states, SquaredNorms(false));
  double sum = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (residuals[i] != 0) sum += residuals[i] / states[i];
  }
  return std::sqrt(sum);
}

Result<double> GroupedSystem::FullResidualNorm() {
  Grid& grid = *grids_[0];
  double sum = 0;
  const auto compare = [&](const std::vector<std::unique_ptr<DeviceWeights>>& weights,
                           const StatesView& x, const StatesView& next) -> Status {
    const StatesView stepped = {grid.spare->data(), x.count, x.count};
    UCUDNN_RETURN_IF_ERROR(StepAll(weights, 0, x, stepped, FactorOf(0)));
    UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, -1, next, 1, stepped));
    std::vector<float> difference(static_cast<size_t>(x.count * state_ * batch_));
    UCUDNN_RETURN_IF_ERROR(lane_->Download(stepped.data, difference.data(), difference.size()));
    sum += SquaredNorm(difference, nullptr, 0, difference.size());
    return Status::Ok();
  };
  for (int place = 0; place < grid.places(); ++place) {
    UCUDNN_RETURN_IF_ERROR(compare(grid.weights[place], Place(0, place), Place(0, place + 1)));
  }
  for (int place = 0; place < grid.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(
        compare(grid.tail_weights[place], TailPlace(0, place), TailPlace(0, place + 1)));
  }
  return std::sqrt(sum);
}

Result<LayerSystem::StateNorms> GroupedSystem::Norms() {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<double> squares, SquaredNorms(false));
  if (grids_[0]->tail > 0) {
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> last, ReadState(grids_[0]->level.steps));
    squares.push_back(std::inner_product(last.begin(), last.end(), last.begin(), 0.0));
  }
  StateNorms norms = {.first = std::sqrt(squares.front())};
  for (const double of_state : squares) {
    norms.all += of_state;
    // Not std::max: a NaN stays.
    if (!(of_state <= norms.largest) && !std::isnan(norms.largest)) norms.largest = of_state;
  }
  norms.all = std::sqrt(norms.all);
  norms.largest = std::sqrt(norms.largest);
  return norms;
}

Result<std::vector<double>> GroupedSystem::ReadState(int number) {
  const Grid& grid = *grids_[0];
  const int block = number / grid.places();
  const bool is_tail = number > grid.level.last_c_point();
  const StatesView from = is_tail ? TailPlace(0, number - grid.level.last_c_point())
                          : block == grid.blocks()
                              ? TailPlace(0, 0)
                              : Offset(Place(0, number % grid.places()), block, state_, 1);
  const StatesView packed = {lane_->room(), 1, 1};
  UCUDNN_RETURN_IF_ERROR(kernels_->Combine(*lane_, 1, from, 0, packed));
  std::vector<float> narrow(static_cast<size_t>(state_ * batch_));
  UCUDNN_RETURN_IF_ERROR(lane_->Download(packed.data, narrow.data(), narrow.size()));
  return std::vector<double>(narrow.begin(), narrow.end());
}

}  // namespace ucudnn::multigrid
