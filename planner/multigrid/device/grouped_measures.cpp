// Norms, states and gradients of a grouped system, which wait for the device.
#include <algorithm>

#include "planner/multigrid/device/grouped_grid.h"
#include "planner/multigrid/device/grouped_system.h"

namespace ucudnn::multigrid {
namespace {

double SumOfSquares(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double difference = a[i] - (b != nullptr ? b[i] : 0.0);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

Result<const std::vector<double>*> GroupedSystem::SquaredNorms(bool of_residuals) {
  const Grid& grid = *grids_[0];
  const int64_t size = grid.c_points->count();
  for (auto& numbers : downloaded_) numbers.resize(size);
  UCUDNN_RETURN_IF_ERROR(lane().Download(grid.c_points->data(), downloaded_[0].data(), size));
  if (of_residuals) {
    UCUDNN_RETURN_IF_ERROR(lane().Download(grid.advanced->data(), downloaded_[1].data(), size));
  }
  std::vector<double>& squares = of_residuals ? residual_squares_ : squares_;
  squares.assign(static_cast<size_t>(grid.blocks()) + 1, 0.0);
  const int64_t state = runner().StateSize();
  for (int image = 0; image < runner().batch(); ++image) {
    for (size_t point = 0; point < squares.size(); ++point) {
      const int64_t begin = static_cast<int64_t>(image * squares.size() + point) * state;
      squares[point] += SumOfSquares(downloaded_[0].data() + begin,
                                     of_residuals ? downloaded_[1].data() + begin : nullptr, state);
    }
  }
  return static_cast<const std::vector<double>*>(&squares);
}

// In the direction of the chain, without the given state's, which has none.
Status GroupedSystem::MeasureResidual(bool by_state) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double>* residuals, SquaredNorms(true));
  const std::vector<double>* states = nullptr;
  if (by_state) {
    UCUDNN_ASSIGN_OR_RETURN(states, SquaredNorms(false));
  }
  const int blocks = grids_[0]->blocks();
  for (int i = 1; i <= blocks; ++i) {
    const int point = is_adjoint() ? blocks - i : i;
    const double residual = (*residuals)[point];
    parts_.push_back(by_state && residual != 0 ? residual / (*states)[point] : residual);
  }
  return Status::Ok();
}

Result<double> GroupedSystem::SquaredNormOf(const StatesView& states) {
  std::vector<double>& numbers = downloaded_[0];
  numbers.resize(states.count * runner().StateSize() * runner().batch());
  UCUDNN_RETURN_IF_ERROR(
      lane().Download(states.data, numbers.data(), static_cast<int64_t>(numbers.size())));
  return SumOfSquares(numbers.data(), nullptr, static_cast<int64_t>(numbers.size()));
}

// Of the steps at one place together.
Status GroupedSystem::MeasureFullResidual() {
  const Grid& grid = *grids_[0];
  UCUDNN_RETURN_IF_ERROR(AwaitFirst(0));
  const auto compare = [&](const StatesView& stepped, const StatesView& next) -> Status {
    UCUDNN_RETURN_IF_ERROR(Combine(-1, next, 1, stepped));
    UCUDNN_ASSIGN_OR_RETURN(const double squares, SquaredNormOf(stepped));
    parts_.push_back(squares);
    return Status::Ok();
  };
  for (int place = 0; place < grid.places(); ++place) {
    const StatesView stepped = {grid.spare->data(), grid.blocks(), grid.blocks()};
    UCUDNN_RETURN_IF_ERROR(
        StepBlocks(0, place, Place(0, FromOf(place)), stepped, Grid::kAllBlocks));
    UCUDNN_RETURN_IF_ERROR(compare(stepped, Place(0, ToOf(place))));
  }
  for (int place = 0; place < grid.tail; ++place) {
    const StatesView stepped = {grid.spare->data()};
    UCUDNN_RETURN_IF_ERROR(StepTail(0, place, TailPlace(0, FromOf(place)), stepped));
    UCUDNN_RETURN_IF_ERROR(compare(stepped, TailPlace(0, ToOf(place))));
  }
  return Status::Ok();
}

// C-points, and at the end that is none the last state of the network.
Status GroupedSystem::MeasureStates() {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double>* squares, SquaredNorms(false));
  parts_ = *squares;
  const Grid& grid = *grids_[0];
  if (grid.tail > 0) {
    // It has no distance to that of the next image.
    UCUDNN_ASSIGN_OR_RETURN(const double last, SquaredNormOf(TailPlace(0, grid.tail)));
    parts_.push_back(last);
  }
  if (is_adjoint()) std::reverse(parts_.begin(), parts_.end());
  if (traits_.has_inlet) parts_.erase(parts_.begin());
  return Status::Ok();
}

Result<std::span<const double>> GroupedSystem::Parts(NormParts parts) {
  parts_.clear();
  switch (parts) {
    case NormParts::kResidual:
    case NormParts::kResidualByState:
      UCUDNN_RETURN_IF_ERROR(MeasureResidual(parts == NormParts::kResidualByState));
      break;
    case NormParts::kFullResidual:
      UCUDNN_RETURN_IF_ERROR(MeasureFullResidual());
      break;
    case NormParts::kStates:
      UCUDNN_RETURN_IF_ERROR(MeasureStates());
      break;
  }
  return std::span<const double>(parts_);
}

Status GroupedSystem::AddGradient(double factor, Parameters& gradient) {
  Grid& grid = *grids_[0];
  const StepRunner& steps = runner();
  const auto add = [&](const StepPlan& plan, const StatesView& states, const StatesView& adjoints,
                       std::vector<DeviceGradients>& gradients) -> Status {
    std::vector<ArrangedNumbers> numbers;
    for (size_t call = 0; call < plan.calls.size(); ++call) {
      if (gradients.size() == call) {
        UCUDNN_ASSIGN_OR_RETURN(
            DeviceGradients made,
            DeviceGradients::Make(steps.target(), steps.shapes(), plan.calls[call].steps));
        gradients.push_back(std::move(made));
      }
      numbers.push_back(gradients[call].numbers());
    }
    UCUDNN_RETURN_IF_ERROR(
        runner().Gradient(plan, Grid::StatesOf(states), Grid::StatesOf(adjoints), numbers, lane()));
    for (const DeviceGradients& of_call : gradients) {
      UCUDNN_RETURN_IF_ERROR(
          of_call.AddTo(lane(), steps.stage(), steps.shapes(), of_call.All(factor), gradient));
    }
    return Status::Ok();
  };
  grid.gradients.resize(grid.places());
  grid.tail_gradients.resize(grid.tail);
  // Layer n's gradient needs the state before it and the adjoint behind it.
  for (int place = 0; place < grid.places(); ++place) {
    UCUDNN_RETURN_IF_ERROR(add(grid.plans[place], states_->Place(0, place), Place(0, place + 1),
                               grid.gradients[place]));
  }
  for (int place = 0; place < grid.tail; ++place) {
    UCUDNN_RETURN_IF_ERROR(add(grid.tail_plans[place], states_->TailPlace(0, place),
                               TailPlace(0, place + 1), grid.tail_gradients[place]));
  }
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
