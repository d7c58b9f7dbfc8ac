#include "planner/layout/owt_cost_model.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

bool IsOwt(const PlannedLayer& consumer, const ParallelConfiguration& from,
           const ParallelConfiguration& to) {
  const int workers = to.degrees.Workers();
  return std::holds_alternative<FullyConnected>(consumer.op) && workers > 1 &&
         to.degrees.c == workers && from.degrees == Degrees{workers} &&
         from.first_device == to.first_device;
}

}  // namespace

double OwtCostModel::PiecewiseMs(OwtScheme scheme, const PlannedLayer& consumer, int input,
                                 const ParallelConfiguration& to) const {
  const int workers = to.degrees.Workers();
  const Shape& tensor = consumer.inputs[static_cast<size_t>(input)].shape;
  const int64_t batch_bytes = tensor.n / workers * tensor.Features() * kElementBytes;
  const int outermost = machine_.JoiningLevel(to.first_device, to.first_device + workers - 1);
  const double latency_ms = machine_.levels[static_cast<size_t>(outermost)].latency_us * 1e-3;
  return Exchange(scheme, workers, batch_bytes, SharedRate(machine_, workers),
                  model_.Compute(consumer, to.degrees).ms, false)
             .exposed_ms +
         2 * workers * latency_ms;
}

TransferTables OwtCostModel::Transfer(const PlannedLayer& consumer, int input,
                                      std::span<const ParallelConfiguration> from,
                                      std::span<const ParallelConfiguration> to) const {
  TransferTables tables = model_.Transfer(consumer, input, from, to);
  for (size_t u = 0; u < from.size(); ++u) {
    for (size_t v = 0; v < to.size(); ++v) {
      if (!IsOwt(consumer, from[u], to[v])) continue;
      double& ms = tables.ms[u * to.size() + v];
      for (const OwtScheme scheme : {OwtScheme::kTurns, OwtScheme::kShares}) {
        ms = std::min(ms, PiecewiseMs(scheme, consumer, input, to[v]));
      }
    }
  }
  return tables;
}

std::optional<OwtScheme> OwtCostModel::Scheme(const PlannedLayer& consumer, int input,
                                              const ParallelConfiguration& from,
                                              const ParallelConfiguration& to) const {
  if (!IsOwt(consumer, from, to)) return std::nullopt;
  OwtScheme fastest = OwtScheme::kAssemble;
  double least_ms = model_.Transfer(consumer, input, {&from, 1}, {&to, 1}).ms.front();
  for (const OwtScheme scheme : {OwtScheme::kTurns, OwtScheme::kShares}) {
    const double ms = PiecewiseMs(scheme, consumer, input, to);
    if (ms < least_ms) {
      least_ms = ms;
      fastest = scheme;
    }
  }
  return fastest;
}

}  // namespace ucudnn::planner
