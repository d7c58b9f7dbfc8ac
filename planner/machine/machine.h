// A machine to train on: equal devices behind links in levels. Plain values. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// `count` groups of the level below (devices, for the first level) that a link joins. Each of those
// groups has one port to the link, shared by all devices of the group.
struct Level {
  std::string name;
  int count = 1;
  double gb_per_s = 0;    // 10^9 bytes a second through one port, in each direction
  double latency_us = 0;  // of one message

  bool operator==(const Level&) const = default;
};

struct Device {
  std::string name;          // as the driver names it
  int64_t memory_bytes = 0;  // what a program may use
  double tflops = 0;         // 10^12 fp32 operations a second
  double memory_gb_per_s = 0;
  // What small kernels cost: estimates that hold for most devices. Machine files may leave them
  // out.
  double launch_us = 4;  // the host's time for one call of a library that launches a kernel
  double kernel_us = 3;  // from a kernel's begin to that of one that waits for it, without its work
  // Independent chains of multiply-adds that keep all units of the device busy.
  double filling_threads = 20'000;
  int concurrent_kernels = 128;  // that can run at once

  bool operator==(const Device&) const = default;
};

struct Machine {
  std::string name;
  Device device;
  std::vector<Level> levels;  // innermost first; devices of one group have consecutive numbers

  bool operator==(const Machine&) const = default;
  int Devices() const;
  // Devices behind one port of `level`: 1 for level 0.
  int PortDevices(int level) const;
  // The level whose link joins two different devices.
  int JoiningLevel(int device, int other) const;
};

// A machine of so many devices that are all joined alike, by no link in particular. It serves to
// count what moves.
Machine FlatMachine(int devices);

// An error names the value that no machine has, and what was expected.
Status Check(const Machine& machine);

}  // namespace ucudnn::planner
