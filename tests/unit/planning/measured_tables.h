// Full tables of measurements, recorded once, and policies compared on them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// One kernel on one device, at every size up to its mini-batch, problem.n, or at some of them.
struct KernelTable {
  std::string device;
  ConvolutionProblem problem;
  std::vector<Candidate> rows;  // numeric classes are not told apart
};

// The kernels of a measurements CSV, in its order; n is each one's largest size. Rows without a
// device are the CPU stand-in's.
Result<std::vector<KernelTable>> ReadKernelTables(const std::string& path);

// Sums over the kernels that can be composed at all inside a limit. Milliseconds of the divisions
// that each policy finds; rows are the measurements (engines times sizes) it looks at.
struct Comparison {
  int kernels = 0;
  double auto_ms = 0, powers_ms = 0, all_ms = 0;
  size_t auto_rows = 0, powers_rows = 0, all_rows = 0;
  double worst = 0;  // of one kernel: auto's time over all's
  std::string worst_kernel;
};

// Divisions are found in `tables` and timed in `judges`: the same tables, or the same kernels
// measured once more, where nobody's luck counts. Kernels without a row there are left out.
Comparison Compare(const std::vector<KernelTable>& tables, const std::vector<KernelTable>& judges,
                   size_t limit_bytes, size_t l2_bytes);

// How far two recordings of the same kernels are apart: the median over all rows of
// |a - b| / max(a, b).
double Noise(const std::vector<KernelTable>& a, const std::vector<KernelTable>& b);

}  // namespace ucudnn::planning
