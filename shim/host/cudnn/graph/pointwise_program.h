// Pointwise operations that run together, a piece of every tensor at a time, behind a convolution
// or as a graph of their own. Virtual tensors between them never reach memory. Pure; any number of
// threads may run a program at once.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/host/cudnn/graph/pointwise_operation.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// A tensor in memory, indexed by the program's dimensions, with stride 0 along axes where it is
// repeated.
struct ProgramOperand {
  int64_t unique_id;
  DataType type;
  GraphTensor::Extents strides;
  bool by_value;      // the pointer is a host pointer, and is read when the plan is executed
  int64_t first = 0;  // the element at index 0
};

struct ProgramValue {
  enum class Place { kNone, kMemory, kRegister };
  Place place = Place::kNone;
  int index = 0;
};

struct ProgramStep {
  GraphPointwise function;
  double alpha1, alpha2;
  ProgramValue x, b, t;  // in backward functions b is dy
  ProgramValue to;
  int to_type;  // a virtual result is rounded to its declared type
};

struct PointwiseProgram {
  int dim_count = 0;
  GraphTensor::Extents dims{};
  std::vector<ProgramOperand> operands;
  std::vector<ProgramStep> steps;
  int register_count = 0;
  bool in_double = false;

  // Runs over `images` indices of the first dimension. addresses[i] is the address of the first
  // element of operand i. Returns false if host memory is exhausted.
  bool Run(const std::vector<void*>& addresses, int64_t images) const;
};

// Returns whether Run knows the mode.
bool IsComputable(int pointwise_mode);

}  // namespace hostgpu
