#include "planner/machine/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planner/machine/machine_json.h"
#include "planner/machine/presets.h"

namespace ucudnn::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The preset p100x4x4 with other costs of small kernels.
constexpr char kJson[] = R"({
  "format": "ucudnn-machine", "version": 1, "name": "p100x4x4",
  "device": {"name": "Tesla P100-SXM2-16GB", "memory_bytes": 17179869184, "tflops": 10.6,
             "memory_gb_per_s": 732, "launch_us": 4.5, "kernel_us": 2, "filling_threads": 5e4,
             "concurrent_kernels": 64},
  "levels": [{"name": "NVLink", "count": 4, "gb_per_s": 80, "latency_us": 5},
             {"name": "InfiniBand EDR", "count": 4, "gb_per_s": 12.5, "latency_us": 10}]})";

// Returns kJson with `from` replaced by `to`.
std::string Edited(const std::string& from, const std::string& to) {
  std::string text = kJson;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in " << text;
  return text.replace(at, from.size(), to);
}

TEST(Machine, JoiningLevelIsThatOfTheFirstCommonGroup) {
  const Machine machine = *MachineByName("p100x4x4");
  EXPECT_EQ(machine.Devices(), 16);
  EXPECT_EQ(machine.PortDevices(0), 1);
  EXPECT_EQ(machine.PortDevices(1), 4);
  EXPECT_EQ(machine.JoiningLevel(0, 3), 0);
  EXPECT_EQ(machine.JoiningLevel(3, 4), 1);
  EXPECT_EQ(machine.JoiningLevel(15, 0), 1);
}

TEST(Machine, PresetsAreMachinesOfTheirDevices) {
  const std::vector<std::pair<std::string, int>> devices = {{"k80x16", 16}, {"p100x4x4", 16},
                                                            {"k20x8", 8},   {"h100x8", 8},
                                                            {"h200x8", 8},  {"v100x2-25g", 2}};
  ASSERT_EQ(MachineNames().size(), devices.size());
  for (const auto& [name, count] : devices) {
    const auto machine = MachineByName(name);
    ASSERT_TRUE(machine.ok()) << machine.message();
    EXPECT_TRUE(Check(*machine).ok()) << Check(*machine).message();
    EXPECT_EQ(machine->Devices(), count) << name;
    EXPECT_EQ(machine->name, name);
  }
}

TEST(Machine, ColonAddsNodes) {
  const auto machine = MachineByName("h200x8:4");
  ASSERT_TRUE(machine.ok()) << machine.message();
  EXPECT_EQ(machine->Devices(), 32);
  EXPECT_EQ(machine->levels.size(), 2u);
  EXPECT_EQ(MachineByName("h100x8:1")->levels.size(), 1u);
  EXPECT_EQ(MachineByName("v100x2-25g:32")->Devices(), 64);
  EXPECT_EQ(MachineByName("v100x2-25g:32")->levels[1].gb_per_s, 3.125);
  for (const char* wrong :
       {"h200x8:", "h200x8:0", "h200x8:-1", "h200x8:2x", "h200x8:4096", "k80x16:2", "k40x8", ""}) {
    EXPECT_FALSE(MachineByName(wrong).ok()) << wrong;
  }
  EXPECT_EQ(
      MachineByName("k80x16:2").message(),
      "'k80x16:2': no network between nodes is known; expected k80x16, or N nodes as h100x8:N, "
      "h200x8:N, v100x2-25g:N");
  EXPECT_EQ(
      MachineByName("dgx").message(),
      "'dgx' is no machine; expected one of k80x16, p100x4x4, k20x8, h100x8, h200x8, v100x2-25g");
}

TEST(Machine, JsonIsReadMemberByMember) {
  Machine machine = *MachineByName("p100x4x4");
  machine.device.launch_us = 4.5;
  machine.device.kernel_us = 2;
  machine.device.filling_threads = 50'000;
  machine.device.concurrent_kernels = 64;
  const auto read = ParseMachine(kJson);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(*read, machine);
}

TEST(Machine, JsonMayLeaveOutWhatSmallKernelsCost) {
  Machine machine = *MachineByName("p100x4x4");
  std::string text = kJson;
  for (const char* const member :
       {"launch_us", "kernel_us", "filling_threads", "concurrent_kernels"}) {
    const size_t begin = text.rfind(',', text.find(member));
    text.erase(begin, text.find_first_of(",}", begin + 1) - begin);
  }
  const auto read = ParseMachine(text);
  ASSERT_TRUE(read.ok()) << read.message() << text;
  const Device defaults;
  machine.device.launch_us = defaults.launch_us;
  machine.device.kernel_us = defaults.kernel_us;
  machine.device.filling_threads = defaults.filling_threads;
  machine.device.concurrent_kernels = defaults.concurrent_kernels;
  EXPECT_EQ(*read, machine);
}

TEST(Machine, AbsurdValuesAreNamed) {
  struct Case {
    const char* message;
    void (*spoil)(Machine&);
  };
  const std::vector<Case> cases = {
      {"level 'NVLink': gb_per_s 0; expected 0.001 to 100000",
       [](Machine& machine) { machine.levels[0].gb_per_s = 0; }},
      {"level 'NVLink': gb_per_s nan; expected 0.001 to 100000",
       [](Machine& machine) { machine.levels[0].gb_per_s = std::nan(""); }},
      {"level 'NVLink': gb_per_s inf; expected 0.001 to 100000",
       [](Machine& machine) { machine.levels[0].gb_per_s = kInfinity; }},
      {"level 'InfiniBand EDR': latency_us -1; expected 0 to 1e+06",
       [](Machine& machine) { machine.levels[1].latency_us = -1; }},
      {"level 'NVLink': count 0; expected 1 to 1024",
       [](Machine& machine) { machine.levels[0].count = 0; }},
      {"more devices than expected of a machine (1024)",
       [](Machine& machine) { machine.levels[0].count = 1000; }},
      {"0 levels; expected 1 to 8", [](Machine& machine) { machine.levels.clear(); }},
      {"memory_bytes -5; expected 1.04858e+06 to 1.75922e+13",
       [](Machine& machine) { machine.device.memory_bytes = -5; }},
      {"tflops 0; expected 0.001 to 100000", [](Machine& machine) { machine.device.tflops = 0; }},
      {"memory_gb_per_s 0; expected 0.01 to 1e+06",
       [](Machine& machine) { machine.device.memory_gb_per_s = 0; }},
      {"launch_us -1; expected 0 to 1e+06",
       [](Machine& machine) { machine.device.launch_us = -1; }},
      {"kernel_us inf; expected 0 to 1e+06",
       [](Machine& machine) { machine.device.kernel_us = kInfinity; }},
      {"filling_threads 0; expected 1 to 1e+09",
       [](Machine& machine) { machine.device.filling_threads = 0; }},
      {"concurrent_kernels 0; expected 1 to 1e+06",
       [](Machine& machine) { machine.device.concurrent_kernels = 0; }},
  };
  for (const Case& wrong : cases) {
    Machine machine = *MachineByName("p100x4x4");
    wrong.spoil(machine);
    EXPECT_EQ(Check(machine).message(), std::string("machine 'p100x4x4': ") + wrong.message);
  }
}

TEST(Machine, JsonFaultsAreNamed) {
  EXPECT_EQ(ParseMachine("{").message(), "no JSON at byte 2; expected a machine (ucudnn-machine)");
  EXPECT_EQ(ParseMachine("[]").message(), "machine is no object");
  EXPECT_EQ(ParseMachine(Edited("ucudnn-machine", "ucudnn-workspace-plan")).message(),
            "machine has format 'ucudnn-workspace-plan'; expected ucudnn-machine");
  EXPECT_EQ(ParseMachine(Edited("\"version\": 1", "\"version\": 2")).message(),
            "machine has version 2; expected 1");
  EXPECT_EQ(ParseMachine(Edited("tflops", "flops")).message(), "device has no tflops");
  EXPECT_EQ(ParseMachine(Edited("\"count\": 4", "\"count\": 4, \"lanes\": 16")).message(),
            "level 1 has the unknown member 'lanes'; expected name, count, gb_per_s, latency_us");
  EXPECT_EQ(ParseMachine(Edited("\"count\": 4", "\"count\": 4.5")).message(),
            "level 1 count is no whole number from 0 to 2147483647");
  EXPECT_EQ(ParseMachine(Edited("\"gb_per_s\": 80", "\"gb_per_s\": \"80\"")).message(),
            "level 1 gb_per_s is no number");
  EXPECT_EQ(ParseMachine(Edited("\"launch_us\": 4.5", "\"launch_us\": \"4\"")).message(),
            "device launch_us is no number");
  EXPECT_EQ(
      ParseMachine(Edited("\"concurrent_kernels\": 64", "\"concurrent_kernels\": 0.5")).message(),
      "device concurrent_kernels is no whole number from 0 to 2147483647");
  EXPECT_EQ(ParseMachine(Edited("\"gb_per_s\": 80", "\"gb_per_s\": 0")).message(),
            "machine 'p100x4x4': level 'NVLink': gb_per_s 0; expected 0.001 to 100000");
}

}  // namespace
}  // namespace ucudnn::planner
