#include "planner/machine/machine.h"

#include <cmath>
#include <sstream>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr int kMostDevices = 1024;
constexpr int kMostLevels = 8;
constexpr int64_t kLeastMemory = int64_t{1} << 20;
constexpr int64_t kMostMemory = int64_t{1} << 44;

Status OutOfRange(const std::string& what, double value, double least, double most) {
  std::ostringstream text;
  text << what << " " << value << "; expected " << least << " to " << most;
  return Status::Error(text.str());
}

// The comparison is written so that NaN fails it.
Status CheckRange(const std::string& what, double value, double least, double most) {
  if (value >= least && value <= most) return Status::Ok();
  return OutOfRange(what, value, least, most);
}

}  // namespace

Machine FlatMachine(int devices) {
  Machine machine;
  machine.levels.push_back({"any", devices, 1, 0});
  return machine;
}

int Machine::Devices() const { return PortDevices(static_cast<int>(levels.size())); }

int Machine::PortDevices(int level) const {
  int devices = 1;
  for (int below = 0; below < level; ++below) devices *= levels[static_cast<size_t>(below)].count;
  return devices;
}

int Machine::JoiningLevel(int device, int other) const {
  int level = 0;
  for (const Level& link : levels) {
    device /= link.count;
    other /= link.count;
    if (device == other) return level;
    ++level;
  }
  return level - 1;
}

Status Check(const Machine& machine) {
  const auto fault = [&](const Status& status) {
    return Status::Error("machine " + Quoted(machine.name) + ": " + status.message());
  };
  const Device& device = machine.device;
  for (const Status& status :
       {CheckRange("memory_bytes", static_cast<double>(device.memory_bytes), kLeastMemory,
                   kMostMemory),
        CheckRange("tflops", device.tflops, 1e-3, 1e5),
        CheckRange("memory_gb_per_s", device.memory_gb_per_s, 1e-2, 1e6),
        CheckRange("launch_us", device.launch_us, 0, 1e6),
        CheckRange("kernel_us", device.kernel_us, 0, 1e6),
        CheckRange("filling_threads", device.filling_threads, 1, 1e9),
        CheckRange("concurrent_kernels", device.concurrent_kernels, 1, 1e6)}) {
    if (!status.ok()) return fault(status);
  }
  if (machine.levels.empty() || machine.levels.size() > kMostLevels) {
    return fault(Status::Error(std::to_string(machine.levels.size()) + " levels; expected 1 to " +
                               std::to_string(kMostLevels)));
  }
  int64_t devices = 1;
  for (const Level& level : machine.levels) {
    const std::string of = "level " + Quoted(level.name) + ": ";
    for (const Status& status : {CheckRange(of + "count", level.count, 1, kMostDevices),
                                 CheckRange(of + "gb_per_s", level.gb_per_s, 1e-3, 1e5),
                                 CheckRange(of + "latency_us", level.latency_us, 0, 1e6)}) {
      if (!status.ok()) return fault(status);
    }
    devices *= level.count;
    if (devices > kMostDevices) {
      return fault(Status::Error("more devices than expected of a machine (" +
                                 std::to_string(kMostDevices) + ")"));
    }
  }
  return Status::Ok();
}

}  // namespace ucudnn::planner
