#include "interposer/checked_call.h"

#include <exception>
#include <string>

#include "cuda/resources.h"
#include "tuning/comparison.h"
#include "tuning/guarded_buffer.h"
#include "tuning/tolerance.h"

namespace ucudnn::interposer {
namespace {

using tuning::Verdict;
using tuning::Verification;

// Both results are on their way.
Result<Verification> Compare(const cuda::Driver& driver, CUstream stream,
                             const ConvolutionProblem& problem, planning::NumericClass numeric,
                             tuning::GuardedBuffer& planned, CUdeviceptr undivided) {
  UCUDNN_ASSIGN_OR_RETURN(const char* const damage, planned.Damage(stream));
  if (damage != nullptr) {
    return Verification{Verdict::kTrespassed,
                        std::string("the plan wrote ") + damage + " the output"};
  }
  const tuning::Tensor tensor = tuning::ResultTensor(problem);
  UCUDNN_ASSIGN_OR_RETURN(const double largest,
                          tuning::LargestOnDevice(driver, stream, tensor, undivided));
  const tuning::Tolerance tolerance = tuning::DataTolerance(problem, numeric, largest);
  if (tolerance.absolute > largest) {
    return Status::Error("rounding of " + std::to_string(tolerance.absolute) +
                         " would hide wrong results up to " + std::to_string(largest));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const tuning::Differences differences,
      tuning::CompareOnDevice(driver, stream, tensor, tolerance, planned.address(), undivided,
                              std::nullopt, tuning::Clock::time_point::max()));
  if (differences.count == 0) return Verification{Verdict::kEqual, ""};
  return Verification{Verdict::kDifferent, tuning::Tell(tensor, differences, tolerance)};
}

// Nothing after the undivided engine was enqueued may forget that it was.
void RunOn(const cuda::Driver& driver, CUstream stream, const execution::PlannedConvolution& plan,
           const ConvolutionProblem& problem, planning::NumericClass numeric,
           const cudnn::LegacyCall& call, CheckedCall& checked) {
  Verification& verification = checked.verification;
  const tuning::Tensor tensor = tuning::ResultTensor(problem);
  if (!plan.has_pieces() || !plan.has_undivided() || !tensor.IsNested()) {
    verification.message = "there is nothing to compare with";
    return;
  }
  cudnn::LegacyCall planned = call;
  void*& written = planned.*cudnn::OutputOf(call.operation);
  const auto output = reinterpret_cast<CUdeviceptr>(written);
  cuda::MemoryPool memory(driver);
  tuning::GuardedBuffer scratch(memory, driver);
  Status ready = memory.Create(stream);
  if (ready.ok()) ready = scratch.Allocate(tensor.Bytes());
  if (ready.ok()) ready = scratch.Guard(tensor.Bytes(), stream);
  if (ready.ok()) {
    ready = cuda::DriverStatus(
        driver, driver.cuMemcpyDtoDAsync(scratch.address(), output, tensor.Bytes(), stream),
        "copying the output");
  }
  const char* failure = nullptr;  // what follows allocates nothing until the stream is idle
  if (ready.ok()) {
    written = scratch.data();
    execution::Outcome outcome, undivided_outcome;
    const cudnnStatus_t planned_status = plan.Run(planned, outcome);
    checked.done = plan.RunUndivided(call, undivided_outcome) == CUDNN_STATUS_SUCCESS &&
                   undivided_outcome == execution::Outcome::kUndivided;
    if (!checked.done) {
      failure = "the undivided engine cannot run";
    } else if (outcome != execution::Outcome::kPlanned || planned_status != CUDNN_STATUS_SUCCESS) {
      failure = "a piece of the plan failed";
      checked.piece_failed = true;
    }
  }
  // Nothing of ours may still run when the scratch memory goes. A failure shows at the caller's own
  // next call.
  driver.cuStreamSynchronize(stream);
  if (failure != nullptr) ready = Status::Error(failure);
  if (ready.ok()) {
    const Result<Verification> compared =
        Compare(driver, stream, problem, numeric, scratch, output);
    if (compared.ok()) verification = *compared;
    ready = compared.status();
  }
  if (!ready.ok()) verification.message = ready.message();
}

}  // namespace

CheckedCall RunChecked(const cuda::Driver& driver, CUcontext context, CUstream stream,
                       const execution::PlannedConvolution& plan, const ConvolutionProblem& problem,
                       planning::NumericClass numeric, const cudnn::LegacyCall& call) noexcept {
  const cuda::ContextScope scope(driver, context);
  const cuda::RelaxedCaptureScope relaxed(driver);
  CheckedCall checked;
  try {
    RunOn(driver, stream, plan, problem, numeric, call, checked);
  } catch (const std::exception&) {
    // Out of host memory: what was enqueued stays enqueued, and nothing was compared.
    checked.verification = {};
  }
  return checked;
}

}  // namespace ucudnn::interposer
