#include "planner/layout/owt.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

constexpr int64_t kFloat = 4;
constexpr double kUpdatePasses = 3;  // an update reads weight and gradient and writes the weight

}  // namespace

OwtExchange Exchange(OwtScheme scheme, int workers, int64_t batch_bytes, double bytes_per_ms,
                     double compute_ms, bool multicast) {
  OwtExchange exchange;
  const int others = workers - 1;
  const double batch_ms = static_cast<double>(batch_bytes) / bytes_per_ms;
  exchange.moved_bytes = 2 * int64_t{workers} * others * batch_bytes;
  if (scheme == OwtScheme::kAssemble) {
    exchange.exposed_ms = 2 * others * batch_ms;
    exchange.buffer_bytes = workers * batch_bytes;
    exchange.images = workers;
    return exchange;
  }
  double step_ms = 0;
  if (scheme == OwtScheme::kShares) {
    step_ms = batch_ms * others / workers;
  } else if (others > 0) {
    step_ms = batch_ms * (multicast ? 1 : others);
  }
  const double half_computation_ms = compute_ms / workers / 2;
  exchange.exposed_ms = 2 * (step_ms + others * std::max(0.0, step_ms - half_computation_ms));
  exchange.hidden_ms = 2 * workers * step_ms - exchange.exposed_ms;
  exchange.buffer_bytes = (others > 0 ? 2 : 1) * batch_bytes;
  exchange.images = 1;
  return exchange;
}

double SharedRate(const Machine& machine, int workers) {
  const int outermost = machine.JoiningLevel(0, workers - 1);
  double rate = machine.levels.front().gb_per_s;
  for (int level = 1; level <= outermost; ++level) {
    rate = std::min(
        rate, machine.levels[static_cast<size_t>(level)].gb_per_s / machine.PortDevices(level));
  }
  return rate * 1e6;
}

OwtStep StepOf(const OwtNetwork& network, const Machine& machine, int workers,
               const OwtOptions& options) {
  OwtStep step;
  const double rate = SharedRate(machine, workers);
  const double others = workers - 1;
  step.convolution_ms = options.images * network.convolution_ms;
  // The layer sees K B images, and each worker computes a K-th of its channels.
  step.connected_ms = options.images * network.connected_ms;
  step.exchange =
      Exchange(options.scheme, workers, options.images * network.last_activations * kFloat, rate,
               step.connected_ms, options.multicast);
  for (const int64_t outputs : network.hidden_outputs) {
    step.hidden_layers_ms +=
        2 * others * options.images * static_cast<double>(outputs * kFloat) / rate;
  }
  step.synchronization_ms =
      2 * others / workers * static_cast<double>(network.convolution_parameters * kFloat) / rate;
  if (options.variable_batch && options.scheme != OwtScheme::kAssemble) {
    step.extra_updates_ms = others * kUpdatePasses *
                            static_cast<double>(network.connected_parameters * kFloat) / workers /
                            (machine.device.memory_gb_per_s * 1e6);
  }
  step.total_ms = step.convolution_ms + step.connected_ms + step.exchange.exposed_ms +
                  step.hidden_layers_ms + step.synchronization_ms + step.extra_updates_ms;
  return step;
}

}  // namespace ucudnn::planner
