// A machine to train on: equal devices that are joined by several levels of links. Plain values.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// A link that joins `count` groups of the level below, or `count` devices in the first level. Each
// group has one port to the link, which all devices of the group share.
struct Level {
  std::string name;
  int count = 1;
  double gb_per_s = 0;    // 10^9 bytes per second through one port, in each direction
  double latency_us = 0;  // latency of one message

  bool operator==(const Level&) const = default;
};

struct Device {
  std::string name;          // the driver's name of the device
  int64_t memory_bytes = 0;  // memory that a program may use
  double tflops = 0;         // 10^12 fp32 operations per second
  double memory_gb_per_s = 0;
  // The members below describe the cost of small CUDA kernels. Their defaults are estimates that
  // hold for most devices; machine files may leave them out.
  double launch_us = 4;  // host time of one library call that launches a CUDA kernel
  // Time from the start of a CUDA kernel that does no work to the start of one that waits for it.
  double kernel_us = 3;
  // Number of independent chains of multiply-adds that keep all units of the device busy.
  double filling_threads = 20'000;
  int concurrent_kernels = 128;  // maximum number of CUDA kernels that run at once

  bool operator==(const Device&) const = default;
};

struct Machine {
  std::string name;
  Device device;
  std::vector<Level> levels;  // innermost first; devices of one group have consecutive numbers

  bool operator==(const Machine&) const = default;
  int Devices() const;
  // Returns the number of devices that share one port of `level`; it is 1 for level 0.
  int PortDevices(int level) const;
  // Returns the innermost level whose link joins two different devices.
  int JoiningLevel(int device, int other) const;
};

// Returns a machine of `devices` devices on one link of arbitrary speed, for counting the elements
// that move.
Machine FlatMachine(int devices);

// Checks that the values are possible. An error names the wrong value and what was expected.
Status Check(const Machine& machine);

}  // namespace ucudnn::planner
