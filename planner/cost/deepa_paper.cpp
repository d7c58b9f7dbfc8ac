#include "planner/cost/deepa_paper.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/transfer.h"
#include "planner/machine/presets.h"

namespace ucudnn::planner {
namespace {

constexpr double kPaperMiB = 1024 * 1024;
constexpr double kConnectedBytesPerMs = 15.0 / 7 * kPaperMiB;
constexpr double kTransferBytesPerMs = 5 * kPaperMiB;
constexpr double kUpdateBytesPerMs = 45.0 / 14 * kPaperMiB;

// The paper's batch. The two times below are times of one layer on one device at this batch.
constexpr double kMeasuredBatch = 512;
constexpr double kConnectedMs = 20.4;             // Table 2, {n=1, c=1}
constexpr double kConvolutionMs = 2 * 127.4 / 3;  // Table 3, {n=2}: three layers on two devices
// Table 3: the time of {h=2, w=2}, which halves both height and width, divided by the time of
// {n=4}.
constexpr double kImageGain = 54.7 / 63.7;

bool IsConnected(const PlannedLayer& layer) {
  return std::holds_alternative<FullyConnected>(layer.op);
}

bool IsTable2(const PlannedLayer& layer) {
  return IsConnected(layer) && layer.inputs.front().shape.Features() == 9216 &&
         layer.output.c == 4096;
}

bool IsTable3(const PlannedLayer& layer) {
  const auto* const convolution = std::get_if<Convolution>(&layer.op);
  const Spatial image = {1, 14, 14};
  return convolution != nullptr && convolution->groups == 1 &&
         convolution->window == Spatial{1, 3, 3} && layer.inputs.front().shape.c == 512 &&
         layer.output.c == 512 && layer.inputs.front().shape.extents == image &&
         layer.output.extents == image;
}

// Returns the factor by which dividing height and width changes the time. The paper gives it only
// for {h=2, w=2}, which is two halvings. For one halving this function returns the square root of
// that factor. More than two halvings count as two.
double ImageGain(const Degrees& degrees) {
  return std::pow(kImageGain, std::min(2.0, std::log2(degrees.h * degrees.w)) / 2);
}

double TransferMsOf(const Shape& tensor, const PlannedLayer& layer) {
  return static_cast<double>(tensor.n) * static_cast<double>(tensor.Features()) * kElementBytes /
         (IsConnected(layer) ? kConnectedBytesPerMs : kTransferBytesPerMs);
}

double Sum(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += static_cast<double>(interval.Length());
  return sum;
}

}  // namespace

DeePaPaperModel::DeePaPaperModel() : roofline_(MachineByName("k80x16")->device) {}

ComputeModel::Cost DeePaPaperModel::Compute(const PlannedLayer& layer,
                                            const Degrees& degrees) const {
  const double work = layer.output.n / kMeasuredBatch * LargestShare(layer, degrees);
  if (IsTable2(layer)) return {kConnectedMs * work, 0, true};
  if (IsTable3(layer)) return {kConvolutionMs * work * ImageGain(degrees), 0, true};
  return roofline_.Compute(layer, degrees);
}

double DeePaPaperModel::UpdateMs(const PlannedLayer& layer,
                                 const ParallelConfiguration& configuration) const {
  const Degrees& degrees = configuration.degrees;
  const int replicas = degrees.n * degrees.h * degrees.w;
  if (replicas < 2 || !layer.trains_weights) return 0;
  return static_cast<double>(layer.weights) * kElementBytes * replicas /
         (IsConnected(layer) ? kConnectedBytesPerMs : kUpdateBytesPerMs);
}

double DeePaPaperModel::ReductionMs(const PlannedLayer& layer,
                                    const ParallelConfiguration& configuration) const {
  const int sums = configuration.degrees.r;
  return sums > 1 ? sums * TransferMsOf(layer.output, layer) : 0;
}

TransferTables DeePaPaperModel::Transfer(const PlannedLayer& consumer, int input,
                                         std::span<const ParallelConfiguration> from,
                                         std::span<const ParallelConfiguration> to) const {
  const Shape& tensor = consumer.inputs[static_cast<size_t>(input)].shape;
  const double tensor_ms = TransferMsOf(tensor, consumer);
  // By configuration of `to`: the sum over all workers of the channels that a worker needs, divided
  // by the tensor's channels. It is more than 1 if several workers need the same channels.
  std::vector<double> copies;
  for (const ParallelConfiguration& target : to) {
    copies.push_back(Sum(NeededParts(consumer, input, target.degrees).axes[1]) / tensor.c);
  }
  // The counts of elements do not depend on the links of the machine, so any machine with enough
  // devices will do.
  int devices = 1;
  for (const auto& configurations : {from, to}) {
    for (const ParallelConfiguration& each : configurations) {
      devices = std::max(devices, each.first_device + each.degrees.Workers());
    }
  }
  const Machine machine = FlatMachine(devices);
  TransferTables tables;
  TrafficCounter counter(machine);
  for (const ParallelConfiguration& source : from) {
    const Parts held = OutputParts(tensor, source.degrees);
    for (size_t v = 0; v < to.size(); ++v) {
      const Traffic& traffic =
          counter.Count(held, source.first_device, NeededParts(consumer, input, to[v].degrees),
                        to[v].first_device);
      const bool reduces = source.degrees.r > 1 || to[v].degrees.r > 1;
      const bool resident = (source == to[v] && copies[v] <= 1) || (reduces && traffic.moved == 0);
      tables.ms.push_back(resident ? 0 : copies[v] * tensor_ms);
      tables.copied_bytes.push_back(traffic.most_received * kElementBytes);
    }
  }
  return tables;
}

}  // namespace ucudnn::planner
