// Reads full tables of measurements, recorded once, and compares policies on them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// Holds one kernel on one device, measured at some or all sizes up to its mini-batch, problem.n.
struct KernelTable {
  std::string device;
  ConvolutionProblem problem;
  std::vector<Candidate> rows;  // all have the default numeric class
};

// Reads the kernels of a measurements CSV, in its order; n is each kernel's largest size. Rows
// without a device are from the CPU stand-in.
Result<std::vector<KernelTable>> ReadKernelTables(const std::string& path);

// Holds sums over the kernels for which every policy finds a division that can be timed. For each
// policy these are the milliseconds of its divisions, and the number of rows (engines times sizes)
// that it looks at.
struct Comparison {
  int kernels = 0;
  double auto_ms = 0, powers_ms = 0, all_ms = 0;
  size_t auto_rows = 0, powers_rows = 0, all_rows = 0;
  double worst = 0;  // the largest ratio of auto_ms to all_ms of one kernel
  std::string worst_kernel;
};

// Finds divisions in `tables` and times them in `judges`. `judges` may be the same tables, or a
// second recording of the same kernels: then lucky times in `tables` do not make a division look
// faster. Leaves out kernels that `judges` lacks.
Comparison Compare(const std::vector<KernelTable>& tables, const std::vector<KernelTable>& judges,
                   size_t limit_bytes, size_t l2_bytes);

// Returns how far two recordings of the same kernels differ: the median of |a - b| / max(a, b) over
// all rows that both recordings have.
double Noise(const std::vector<KernelTable>& a, const std::vector<KernelTable>& b);

}  // namespace ucudnn::planning
