// Pointwise operations that run together, after a convolution or without one. They process a few
// elements at a time, so virtual tensors between them are never stored completely. Pure; several
// threads may run a program at once.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/host/cudnn/graph/pointwise_operation.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// A tensor in memory. Its strides refer to the program's dimensions; axes on which it is repeated
// have stride 0.
struct ProgramOperand {
  int64_t unique_id;
  DataType type;
  GraphTensor::Extents strides;
  bool by_value;      // the pointer is a host pointer; its value is read when the plan is executed
  int64_t first = 0;  // offset of the element whose indices are all 0
};

struct ProgramValue {
  enum class Place { kNone, kMemory, kRegister };
  Place place = Place::kNone;
  int index = 0;
};

struct ProgramStep {
  GraphPointwise function;
  double alpha1, alpha2;
  ProgramValue x, b, t;  // inputs; in backward functions b is dy
  ProgramValue to;
  int to_type;  // type to which a result, also a virtual one, is rounded
};

struct PointwiseProgram {
  int dim_count = 0;
  GraphTensor::Extents dims{};
  std::vector<ProgramOperand> operands;
  std::vector<ProgramStep> steps;
  int register_count = 0;
  bool in_double = false;

  // Runs the steps for the first `images` indices of the first dimension. addresses[i] is the
  // address of the first element of operand i. Returns false if host memory runs out.
  bool Run(const std::vector<void*>& addresses, int64_t images) const;
};

// Returns true if Run supports the mode.
bool IsComputable(int pointwise_mode);

}  // namespace hostgpu
