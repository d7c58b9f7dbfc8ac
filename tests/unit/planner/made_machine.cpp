#include "tests/unit/planner/made_machine.h"

namespace ucudnn::planner {

Machine MadeMachine(const std::vector<Level>& levels) {
  Machine machine;
  machine.name = "made";
  machine.device.name = "device";
  machine.device.memory_bytes = int64_t{1} << 34;
  machine.device.tflops = 1;
  machine.device.memory_gb_per_s = 1;
  machine.levels = levels;
  return machine;
}

}  // namespace ucudnn::planner
