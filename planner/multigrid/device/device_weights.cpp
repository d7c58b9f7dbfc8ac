#include "planner/multigrid/device/device_weights.h"

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

using planner::Activation;
using planner::Convolution;

Result<StepShape> ShapeOfStep(const ResidualChain& chain, const Stage& stage,
                              const ResidualStep& step) {
  const std::vector<planner::Node>& nodes = chain.graph.nodes;
  const planner::Node& first = nodes[step.transformation.front()];
  const auto* convolution = std::get_if<Convolution>(&first.op);
  const auto* activation = step.transformation.size() == 2
                               ? std::get_if<Activation>(&nodes[step.transformation[1]].op)
                               : nullptr;
  const Spatial& window = convolution != nullptr ? convolution->window : Spatial{};
  const bool fits = activation != nullptr && convolution != nullptr && convolution->bias &&
                    stage.shape.spatial_rank == 2 && convolution->stride == Spatial{1, 1, 1} &&
                    convolution->dilation == Spatial{1, 1, 1} &&
                    convolution->extra_pad == Spatial{0, 0, 0} && window[1] % 2 == 1 &&
                    window[2] % 2 == 1;
  if (!fits) {
    return Status::Error(
        Quoted(first.name) +
        " begins a step that devices do not run: one convolution of odd windows "
        "with a bias, then relu or tanh, is expected; --backend cpu64 runs others");
  }
  return StepShape{.channels = stage.shape.c,
                   .rows = stage.shape.extents[1],
                   .columns = stage.shape.extents[2],
                   .kernel_rows = window[1],
                   .kernel_columns = window[2],
                   .groups = convolution->groups,
                   .is_tanh = activation->kind == planner::ActivationKind::kTanh};
}

}  // namespace

Result<StepShape> ShapeOfSteps(const ResidualChain& chain, const Stage& stage) {
  UCUDNN_ASSIGN_OR_RETURN(const StepShape shape, ShapeOfStep(chain, stage, stage.steps.front()));
  for (const ResidualStep& step : stage.steps) {
    UCUDNN_ASSIGN_OR_RETURN(const StepShape other, ShapeOfStep(chain, stage, step));
    if (!(other == shape)) {
      return Status::Error(Quoted(chain.graph.nodes[step.transformation.front()].name) +
                           " differs from the first step of its stage, whose steps devices run "
                           "side by side; --backend cpu64 runs others");
    }
  }
  return shape;
}

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::Make(const DeviceTarget& target,
                                                           const ResidualChain& chain,
                                                           const Stage& stage,
                                                           const Parameters& parameters,
                                                           const std::vector<int>& order) {
  std::unique_ptr<DeviceWeights> made(new DeviceWeights());
  UCUDNN_ASSIGN_OR_RETURN(made->shape_, ShapeOfSteps(chain, stage));
  made->steps_ = static_cast<int>(order.size());
  std::vector<float> weights, bias;
  weights.reserve(order.size() * static_cast<size_t>(made->shape_.WeightCount()));
  for (const int number : order) {
    const NodeWeights& step = parameters[stage.steps[number].transformation.front()];
    weights.insert(weights.end(), step.weights.begin(), step.weights.end());
    bias.insert(bias.end(), step.bias.begin(), step.bias.end());
  }
  const auto upload = [&](const std::vector<float>& from,
                          std::optional<DeviceNumbers>& to) -> Status {
    const auto count = static_cast<int64_t>(from.size());
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers memory, DeviceNumbers::Make(target, count));
    to.emplace(std::move(memory));
    const cuda::ContextScope scope(*target.driver, target.context);
    cuda::Stream stream(*target.driver);
    UCUDNN_RETURN_IF_ERROR(stream.Create());
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        *target.driver,
        target.driver->cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to->data()), from.data(),
                                         from.size() * sizeof(float), stream.get()),
        "cuMemcpyHtoDAsync"));
    return stream.Synchronize();
  };
  UCUDNN_RETURN_IF_ERROR(upload(weights, made->weights_));
  UCUDNN_RETURN_IF_ERROR(upload(bias, made->bias_));
  return made;
}

}  // namespace ucudnn::multigrid
