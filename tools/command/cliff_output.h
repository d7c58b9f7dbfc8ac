// How `ucudnn bench --cliff` shows what it found. Written to stdout.
#pragma once

#include "base/options.h"
#include "command/cliff.h"

namespace ucudnn::command {

void PrintCliffTable(const Cliffs& cliffs, const Options& options);

// Format `ucudnn-cliff`. Per kernel: `best`, and `real` and `ucudnn` under `limit_bytes`; null
// where there is no cliff or nothing fits. `run_ms` was run here, `planned_ms` is the sum of the
// measurements a plan was made from.
void PrintCliffJson(const Cliffs& cliffs, const Options& options);

}  // namespace ucudnn::command
