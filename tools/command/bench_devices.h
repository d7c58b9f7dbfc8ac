// The devices `ucudnn bench` measures on at once: those UCUDNN_BENCHMARK_DEVICES names, else the
// current one. All of one model, driver and cuDNN: what one measures is filed for all. Made and
// destroyed on one thread; a device may then be used by another.
#pragma once

#include <memory>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "command/bench_device.h"
#include "planning/measurement_store.h"

namespace ucudnn::command {

using BenchDevices = std::vector<std::unique_ptr<BenchDevice>>;

// At least one. An error when there is no driver or genuine cuDNN, a device is not there, or
// differs from the first.
Result<BenchDevices> OpenBenchDevices(const Options& options);

// Why what device `ordinal` measures cannot stand for device `first_ordinal`.
Status SamePlatform(const planning::Platform& first, int first_ordinal,
                    const planning::Platform& other, int ordinal);

}  // namespace ucudnn::command
