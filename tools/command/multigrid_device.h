// The device of `ucudnn multigrid --backend cudnn`. Used from main's thread only.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "command/bench_device.h"
#include "planner/multigrid/device/device_solvers.h"

namespace ucudnn::command {

struct MultigridWords;  // multigrid_words.h

class MultigridDevice {
 public:
  // The first device, or the stand-in's with --host. An error names the option.
  static Result<std::shared_ptr<MultigridDevice>> Open(const MultigridWords& words);

  multigrid::DeviceSolvers& solvers() { return *solvers_; }
  // "single precision on the CPU stand-in, blocks run as: grouped".
  std::string Text() const;
  std::string WayText() const;
  bool is_stand_in() const { return is_stand_in_; }
  const multigrid::Precision& precision() const { return *precision_; }

 private:
  BenchDevices devices_;
  bool is_stand_in_ = false;
  const multigrid::Precision* precision_ = &multigrid::kSinglePrecision;
  std::unique_ptr<multigrid::DeviceSolvers> solvers_;
};

}  // namespace ucudnn::command
