#include "planner/schedule/elements.h"

#include <algorithm>
#include <set>

#include "planner/schedule/gradient_sums.h"

namespace ucudnn::planner {
namespace {

class Counter {
 public:
  explicit Counter(const Schedule& schedule) : schedule_(schedule) {
    all_.devices.resize(static_cast<size_t>(schedule.devices));
  }

  ScheduleElements Count() {
    CountTransfers();
    CountSums();
    CountStatistics();
    for (const LabelMessage& one : schedule_.labels) {
      Move(&DeviceElements::labels, one.from, one.to, one.images.Length());
      all_.labels += one.images.Length();
    }
    CountParameters();
    CountOutputs();
    return std::move(all_);
  }

 private:
  DeviceElements& Of(int device) { return all_.devices[static_cast<size_t>(device)]; }

  void Move(MovedElements DeviceElements::*kind, int from, int to, int64_t elements) {
    (Of(from).*kind).sent += elements;
    (Of(to).*kind).received += elements;
  }

  // Returns by device the elements that arrive in one pass.
  std::vector<int64_t> Arriving(const ScheduledExchange& exchange, int pass) const {
    std::vector<int64_t> arriving(static_cast<size_t>(schedule_.devices));
    for (const Transfer& one : TransfersOf(schedule_, exchange, pass)) {
      arriving[static_cast<size_t>(one.to)] += Elements(one.box);
    }
    return arriving;
  }

  void CountTransfers() {
    for (const ScheduledExchange& exchange : schedule_.exchanges) {
      const bool has_gradient = NodeOf(schedule_, exchange.node).has_gradient;
      for (const Transfer& one : TransfersOf(schedule_, exchange)) {
        const int64_t elements = Elements(one.box);
        Move(&DeviceElements::transfer, one.from, one.to, elements);
        all_.transfer += elements;
        if (!has_gradient) continue;
        Move(&DeviceElements::transfer, one.to, one.from, elements);
        all_.transfer += elements;
      }
      if (exchange.input != kPartialSums) CountCopies(exchange);
    }
  }

  void CountCopies(const ScheduledExchange& exchange) {
    const std::vector<NodeId>& nodes = schedule_.passes.nodes;
    const bool in_passes = std::binary_search(nodes.begin(), nodes.end(), exchange.consumer);
    std::vector<std::vector<int64_t>> passes;
    for (int pass = 0; pass < (in_passes ? schedule_.passes.Count() : 1); ++pass) {
      passes.push_back(Arriving(exchange, in_passes ? pass : -1));
    }
    // If the exchange feeds passes, the data of the next pass arrives while a pass is computed, so
    // both passes' copies are kept.
    const bool ahead = FeedsPasses(schedule_, exchange);
    for (size_t device = 0; device < all_.devices.size(); ++device) {
      int64_t most = 0;
      for (size_t pass = 0; pass < passes.size(); ++pass) {
        int64_t kept = passes[pass][device];
        if (ahead && pass + 1 < passes.size()) kept += passes[pass + 1][device];
        most = std::max(most, kept);
      }
      all_.devices[device].copies += most;
    }
  }

  void CountSums() {
    for (const GradientSum& sum : schedule_.sums) {
      for (const auto& phase : PhasesOf(schedule_, sum)) {
        for (const SumMessage& message : phase) {
          Move(&DeviceElements::update, message.from, message.to, message.elements.Length());
          all_.update += message.elements.Length();
        }
      }
    }
  }

  void CountStatistics() {
    for (const Statistics& statistics : schedule_.statistics) {
      const bool has_gradient = NodeOf(schedule_, statistics.node).has_gradient;
      for (const StatisticsGroup& group : statistics.groups) {
        const int64_t numbers = group.forward + (has_gradient ? group.backward : 0);
        for (size_t at = 1; at < group.devices.size(); ++at) {
          Move(&DeviceElements::statistics, group.devices[at], group.devices.front(), numbers);
          Move(&DeviceElements::statistics, group.devices.front(), group.devices[at], numbers);
          all_.statistics += 2 * numbers;
        }
      }
    }
  }

  void CountParameters() {
    std::set<int> seen;
    for (const ScheduledNode& node : schedule_.nodes) {
      for (const ScheduledParameter& parameter : node.parameters) {
        if (parameter.tensor >= 0 && !seen.insert(parameter.tensor).second) continue;
        for (const ParameterPart& part : parameter.parts) {
          Of(part.device).parameters += Elements(parameter.shape, part);
        }
      }
    }
  }

  // Returns the largest number of images of `box` that a node computes in one pass.
  int64_t MostImages(NodeId node, const Box& box) const {
    const Passes& passes = schedule_.passes;
    if (!std::binary_search(passes.nodes.begin(), passes.nodes.end(), node)) {
      return box[kAxisN].Length();
    }
    int64_t most = 0;
    for (const std::vector<Interval>& images : passes.images) {
      int64_t count = 0;
      for (const Interval& interval : images) count += Overlap(interval, box[kAxisN]);
      most = std::max(most, count);
    }
    return most;
  }

  void CountOutputs() {
    for (size_t id = 0; id < schedule_.nodes.size(); ++id) {
      const ScheduledNode& node = schedule_.nodes[id];
      const auto self = static_cast<NodeId>(id);
      if (node.IsInput() || node.layer != self) continue;
      for (const auto* boxes : {&node.boxes, &node.partial}) {
        for (const DeviceBox& one : *boxes) {
          const int64_t elements =
              Elements(one.box) / one.box[kAxisN].Length() * MostImages(self, one.box);
          Of(one.device).outputs += elements;
          if (boxes == &node.boxes) {
            Of(one.device).outputs +=
                static_cast<int64_t>(static_cast<double>(elements) * node.inner);
          }
        }
      }
    }
  }

  const Schedule& schedule_;
  ScheduleElements all_;
};

}  // namespace

ScheduleElements ElementsOf(const Schedule& schedule) { return Counter(schedule).Count(); }

}  // namespace ucudnn::planner
