#include "shim/host/cudnn/graph/pointwise_program.h"

#include "shim/host/cudnn/graph/pointwise_function.h"
#include "shim/host/cudnn/problem.h"
#include "shim/host/engines/element.h"
#include "shim/host/engines/parallel.h"

namespace hostgpu {
namespace {

// The number of elements that are processed at once. With 512 elements, all registers of a few
// steps fit in the first-level cache.
constexpr int64_t kRun = 512;
using GraphExtents = GraphTensor::Extents;

// Divides a program's elements into runs. The elements of a run have consecutive indices on one
// axis, and the same index on all other axes.
class ElementRuns {
 public:
  ElementRuns(const PointwiseProgram& program, int64_t images) : dim_count_(program.dim_count) {
    dims_ = program.dims;
    dims_[0] = images;
    // The runs go along the axis on which the result of the last step has the smallest stride.
    const ProgramStep& last = program.steps.back();
    axis_ = dim_count_ - 1;
    if (last.to.place == ProgramValue::Place::kMemory) {
      const GraphExtents& strides = program.operands[last.to.index].strides;
      for (int i = 0; i < dim_count_; ++i) {
        if (dims_[i] > 1 && (dims_[axis_] == 1 || strides[i] < strides[axis_])) axis_ = i;
      }
    }
    pieces_ = (dims_[axis_] + kRun - 1) / kRun;
    count_ = pieces_;
    for (int i = 0; i < dim_count_; ++i) {
      if (i != axis_) count_ *= dims_[i];
    }
  }

  int64_t count() const { return count_; }
  int axis() const { return axis_; }

  // Sets `index` to the indices of the run's first element; returns the number of elements of the
  // run.
  int64_t At(int64_t run, GraphExtents* index) const {
    const int64_t first = run % pieces_ * kRun;
    run /= pieces_;
    for (int i = dim_count_ - 1; i >= 0; --i) {
      if (i == axis_) continue;
      (*index)[i] = run % dims_[i];
      run /= dims_[i];
    }
    (*index)[axis_] = first;
    return std::min(kRun, dims_[axis_] - first);
  }

 private:
  int dim_count_;
  GraphExtents dims_;
  int axis_;
  int64_t pieces_, count_;
};

template <class A>
class Runner {
 public:
  Runner(const PointwiseProgram& program, const std::vector<void*>& addresses)
      : program_(program),
        addresses_(addresses),
        registers_(static_cast<size_t>(program.register_count) * kRun),
        scratch_(4 * kRun) {}

  void Run(const GraphExtents& index, int axis, int64_t count) {
    for (const ProgramStep& step : program_.steps) {
      const A* x = Read(step.x, 0, index, axis, count, step.alpha1);
      const A* b = Read(step.b, 1, index, axis, count, step.alpha2);
      const A* t = Read(step.t, 2, index, axis, count, 1);
      const bool in_memory = step.to.place == ProgramValue::Place::kMemory;
      A* to = in_memory ? scratch_.data() + 3 * kRun : Register(step.to.index);
      ApplyPointwise(step.function, x, b, t, to, count);
      if (in_memory) {
        Write(program_.operands[step.to.index], addresses_[step.to.index], index, axis, count, to);
      } else {
        Round(step.to_type, to, count);
      }
    }
  }

 private:
  A* Register(int index) { return registers_.data() + static_cast<size_t>(index) * kRun; }

  int64_t OffsetOf(const ProgramOperand& operand, const GraphExtents& index) const {
    int64_t offset = operand.first;
    for (int i = 0; i < program_.dim_count; ++i) offset += index[i] * operand.strides[i];
    return offset;
  }

  const A* Read(const ProgramValue& value, int operand_place, const GraphExtents& index, int axis,
                int64_t count, double alpha) {
    if (value.place == ProgramValue::Place::kNone) return nullptr;
    if (value.place == ProgramValue::Place::kRegister && alpha == 1) return Register(value.index);
    A* into = scratch_.data() + operand_place * kRun;
    if (value.place == ProgramValue::Place::kRegister) {
      std::copy_n(Register(value.index), count, into);
    } else {
      const ProgramOperand& operand = program_.operands[value.index];
      const int64_t stride = operand.strides[axis];
      WithNumber(operand.type, [&](auto element) {
        const auto* from = static_cast<const decltype(element)*>(addresses_[value.index]) +
                           OffsetOf(operand, index);
        for (int64_t i = 0; i < count; ++i) into[i] = static_cast<A>(Load(from[i * stride]));
      });
    }
    if (alpha != 1) {
      for (int64_t i = 0; i < count; ++i) into[i] *= static_cast<A>(alpha);
    }
    return into;
  }

  void Write(const ProgramOperand& operand, void* address, const GraphExtents& index, int axis,
             int64_t count, const A* values) const {
    const int64_t stride = operand.strides[axis];
    WithNumber(operand.type, [&](auto element) {
      using T = decltype(element);
      T* to = static_cast<T*>(address) + OffsetOf(operand, index);
      for (int64_t i = 0; i < count; ++i) {
        Store(to[i * stride], static_cast<Accumulator<T>>(values[i]));
      }
    });
  }

  static void Round(int type, A* values, int64_t count) {
    DataType engine_type;
    if (!OperandType(type, &engine_type)) return;
    WithNumber(engine_type, [&](auto element) {
      using T = decltype(element);
      if constexpr (!std::is_same_v<T, A>) {
        for (int64_t i = 0; i < count; ++i) {
          T rounded;
          Store(rounded, static_cast<Accumulator<T>>(values[i]));
          values[i] = static_cast<A>(Load(rounded));
        }
      }
    });
  }

  const PointwiseProgram& program_;
  const std::vector<void*>& addresses_;
  std::vector<A> registers_;
  std::vector<A> scratch_;
};

template <class A>
bool RunIn(const PointwiseProgram& program, const std::vector<void*>& addresses, int64_t images) {
  const ElementRuns runs(program, images);
  // A task with at least this many runs is worth the cost of starting it.
  constexpr int64_t kRunsPerTask = 64;
  const int64_t tasks = (runs.count() + kRunsPerTask - 1) / kRunsPerTask;
  return ParallelFor(tasks, [&](int64_t task) {
    Runner<A> runner(program, addresses);
    GraphExtents index{};
    const int64_t end = std::min(runs.count(), (task + 1) * kRunsPerTask);
    for (int64_t run = task * kRunsPerTask; run < end; ++run) {
      const int64_t count = runs.At(run, &index);
      runner.Run(index, runs.axis(), count);
    }
    return true;
  });
}

}  // namespace

bool PointwiseProgram::Run(const std::vector<void*>& addresses, int64_t images) const {
  return in_double ? RunIn<double>(*this, addresses, images)
                   : RunIn<float>(*this, addresses, images);
}

bool IsComputable(int pointwise_mode) {
  GraphPointwise function;
  function.mode = pointwise_mode;
  const float one = 1;
  float result = 0;
  return ApplyPointwise(function, &one, &one, &one, &result, 1);
}

}  // namespace hostgpu
