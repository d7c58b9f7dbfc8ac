#include "planner/machine/presets.h"

#include <optional>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

struct Preset {
  Machine node;
  std::optional<Level> network;  // link between nodes; `:N` gives its count
};

// Cycles until the result of a multiply-add can be used. This is also the number of chains that
// keep one unit busy.
constexpr double kVoltaLatency = 4;
constexpr double kPascalLatency = 6;
constexpr double kKeplerLatency = 9;

std::vector<Preset> MakePresets() {
  std::vector<Preset> presets;
  const auto add = [&](const char* name, const Device& device, const std::vector<Level>& levels) {
    presets.push_back({{name, device, levels}, {}});
  };
  // Each card has two dies and 16 lanes of PCI Express 3.
  Device device = {"Tesla K80", 12 * kGiB, 4.37, 240};
  device.filling_threads = 2496 * kKeplerLatency;
  device.concurrent_kernels = 32;
  add("k80x16", device, {{"card", 2, 12, 10}, {"PCI Express", 8, 12, 10}});
  device = {"Tesla P100-SXM2-16GB", 16 * kGiB, 10.6, 732};
  device.filling_threads = 3584 * kPascalLatency;
  add("p100x4x4", device, {{"NVLink", 4, 80, 5}, {"InfiniBand EDR", 4, 12.5, 10}});
  // Four devices share a PCI Express 2 switch of 6 GB/s. Transfers between switches pass through
  // host memory. There each device has 3 GB/s, half of the switch's rate, if all four devices send
  // at once. So the port of each switch to host memory has 4 x 3 = 12 GB/s.
  device = {"Tesla K20", 5 * kGiB, 2, 208};
  device.filling_threads = 2496 * kKeplerLatency;
  device.concurrent_kernels = 32;
  add("k20x8", device, {{"PCI Express", 4, 6, 10}, {"host memory", 2, 12, 20}});
  const Level infiniband{"InfiniBand NDR", 1, 400, 5};
  device = {"NVIDIA H100 80GB HBM3", 81559 * kMiB, 66.9, 3350};
  device.filling_threads = 16896 * kVoltaLatency;
  add("h100x8", device, {{"NVLink", 8, 450, 3}});
  presets.back().network = infiniband;
  device.name = "NVIDIA H200";
  device.memory_bytes = 143771 * kMiB;
  device.memory_gb_per_s = 4800;
  add("h200x8", device, {{"NVLink", 8, 450, 3}});
  presets.back().network = infiniband;
  // Both devices of a node are on its first processor, without NVLink. Data for another node is
  // copied to host memory, sent, and copied to the device: three latencies of 10 us each make the
  // 30 us below.
  device = {"Tesla V100-PCIE-32GB", 32510 * kMiB, 14, 900};
  device.filling_threads = 5120 * kVoltaLatency;
  add("v100x2-25g", device, {{"PCI Express", 2, 12, 10}});
  presets.back().network = Level{"25 Gb/s Ethernet", 1, 3.125, 30};
  return presets;
}

const std::vector<Preset>& Presets() {
  static const auto* const kPresets = new std::vector<Preset>(MakePresets());
  return *kPresets;
}

}  // namespace

const std::vector<std::string>& MachineNames() {
  static const auto* const kNames = [] {
    auto* names = new std::vector<std::string>;
    for (const Preset& preset : Presets()) names->push_back(preset.node.name);
    return names;
  }();
  return *kNames;
}

std::string ClusterNames() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) {
    if (preset.network) names.push_back(preset.node.name + ":N");
  }
  return Join(names, ", ");
}

Result<Machine> MachineByName(const std::string& name) {
  const std::string base = name.substr(0, name.find(':'));
  for (const Preset& preset : Presets()) {
    if (preset.node.name != base) continue;
    Machine machine = preset.node;
    if (base == name) return machine;
    int nodes = 0;
    if (!ReadNumber(name.substr(base.size() + 1), nodes) || nodes < 1) {
      return Status::Error(Quoted(name) + ": expected a number of nodes behind the colon");
    }
    if (!preset.network) {
      return Status::Error(Quoted(name) + ": no network between nodes is known; expected " + base +
                           ", or N nodes as " + ClusterNames());
    }
    machine.name = name;
    if (nodes > 1) {
      machine.levels.push_back(*preset.network);
      machine.levels.back().count = nodes;
    }
    UCUDNN_RETURN_IF_ERROR(Check(machine));
    return machine;
  }
  return Status::Error(Quoted(name) + " is no machine; expected one of " +
                       Join(MachineNames(), ", "));
}

}  // namespace ucudnn::planner
