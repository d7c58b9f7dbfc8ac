#include "planner/layout/device_boxes.h"

#include <algorithm>

#include "planner/cost/update.h"

namespace ucudnn::planner {
namespace {

Halo HaloOf(const Interval& needed, const Interval& part) {
  return {std::max<int64_t>(0, part.begin - needed.begin),
          std::max<int64_t>(0, needed.end - part.end)};
}

std::vector<DeviceBox> BoxesOf(const Parts& parts, int first_device) {
  std::vector<DeviceBox> boxes;
  for (int worker = 0; worker < parts.Workers(); ++worker) {
    const Box box = parts.Of(worker);
    if (Elements(box) > 0) boxes.push_back({first_device + worker, box});
  }
  return boxes;
}

}  // namespace

std::vector<DeviceBox> OutputBoxes(const PlannedLayer& layer,
                                   const ParallelConfiguration& configuration) {
  return BoxesOf(OutputParts(layer.output, configuration.degrees), configuration.first_device);
}

std::vector<PartialBox> PartialBoxes(const PlannedLayer& layer,
                                     const ParallelConfiguration& configuration) {
  const auto& [degrees, first_device] = configuration;
  std::vector<PartialBox> partial;
  if (degrees.r == 1) return partial;
  for (const DeviceBox& one : BoxesOf(ComputedParts(layer.output, degrees), first_device)) {
    const int part = (one.device - first_device) / (degrees.h * degrees.w) % degrees.r;
    partial.push_back({one.device, one.box, SummedPart(layer, degrees, part)});
  }
  return partial;
}

std::vector<Transfer> ReductionTransfers(const PlannedLayer& layer,
                                         const ParallelConfiguration& configuration) {
  std::vector<Transfer> transfers;
  const std::vector<DeviceBox> kept = OutputBoxes(layer, configuration);
  for (const PartialBox& sums : PartialBoxes(layer, configuration)) {
    for (const DeviceBox& to : kept) {
      const Box box = Intersection(sums.box, to.box);
      if (to.device != sums.device && Elements(box) > 0) {
        transfers.push_back({sums.device, to.device, box});
      }
    }
  }
  return transfers;
}

std::vector<NeededBox> NeededBoxes(const PlannedLayer& layer, int input,
                                   const ParallelConfiguration& configuration) {
  const Degrees& degrees = configuration.degrees;
  const Parts parts =
      OutputParts(layer.inputs[static_cast<size_t>(input)].shape, {1, 1, degrees.h, degrees.w});
  std::vector<NeededBox> needed;
  for (const DeviceBox& one :
       BoxesOf(NeededParts(layer, input, degrees), configuration.first_device)) {
    const int image = (one.device - configuration.first_device) % (degrees.h * degrees.w);
    const Box part = parts.Of(image);
    NeededBox box{one.device, one.box, {}, {}};
    if (degrees.h > 1) box.h = HaloOf(one.box[kAxisH], part[kAxisH]);
    if (degrees.w > 1) box.w = HaloOf(one.box[kAxisW], part[kAxisW]);
    needed.push_back(box);
  }
  return needed;
}

std::vector<Transfer> Transfers(const PlannedLayer& consumer, int input,
                                const ParallelConfiguration& from,
                                const ParallelConfiguration& to) {
  const std::vector<DeviceBox> held =
      BoxesOf(OutputParts(consumer.inputs[static_cast<size_t>(input)].shape, from.degrees),
              from.first_device);
  std::vector<Transfer> transfers;
  for (const DeviceBox& needed :
       BoxesOf(NeededParts(consumer, input, to.degrees), to.first_device)) {
    for (const DeviceBox& have : held) {
      const Box box = Intersection(needed.box, have.box);
      if (have.device != needed.device && Elements(box) > 0) {
        transfers.push_back({have.device, needed.device, box});
      }
    }
  }
  return transfers;
}

std::vector<ReplicaGroup> ReplicaGroups(const PlannedLayer& layer,
                                        const ParallelConfiguration& configuration) {
  const Degrees& degrees = configuration.degrees;
  std::vector<ReplicaGroup> groups;
  if (layer.parameters == 0 || degrees.Workers() == degrees.WeightParts()) return groups;
  for (std::vector<int>& devices : ReplicaDevices(configuration)) {
    const auto at = static_cast<int>(groups.size());
    groups.push_back({std::move(devices), Part(layer.output.c, degrees.c, at / degrees.r),
                      SummedPart(layer, degrees, at % degrees.r)});
  }
  return groups;
}

}  // namespace ucudnn::planner
