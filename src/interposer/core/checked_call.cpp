#include "interposer/core/checked_call.h"

#include <exception>
#include <string>

#include "cuda/resources.h"
#include "tuning/comparison.h"
#include "tuning/guarded_buffer.h"
#include "tuning/tolerance.h"

namespace ucudnn::interposer {
namespace {

using tuning::ComparisonResult;
using tuning::Verification;

// Compares the plan's output with the undivided output. REQUIRES: both runs are enqueued on the
// request's stream.
Result<Verification> Compare(const cuda::Driver& driver, const CheckRequest& request,
                             tuning::GuardedBuffer& planned, CUdeviceptr undivided) {
  const CUstream stream = request.stream;
  UCUDNN_ASSIGN_OR_RETURN(const char* const damage, planned.Damage(stream));
  if (damage != nullptr) {
    return Verification{ComparisonResult::kTrespassed,
                        std::string("the plan wrote ") + damage + " the output"};
  }
  const tuning::Tensor tensor = tuning::ResultTensor(request.problem);
  UCUDNN_ASSIGN_OR_RETURN(const double largest,
                          tuning::LargestOnDevice(driver, stream, tensor, undivided));
  const tuning::Tolerance tolerance =
      tuning::DataTolerance(request.problem, request.numeric, largest);
  if (tolerance.absolute > largest) {
    return Status::Error("rounding of " + std::to_string(tolerance.absolute) +
                         " would hide wrong results up to " + std::to_string(largest));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const tuning::Differences differences,
      tuning::CompareOnDevice(driver, stream, tuning::Comparison{tensor, tolerance, std::nullopt},
                              planned.address(), undivided, tuning::Clock::time_point::max()));
  if (differences.count == 0) return Verification{ComparisonResult::kEqual, ""};
  return Verification{ComparisonResult::kDifferent, tuning::Tell(tensor, differences, tolerance)};
}

// Sets `checked.done` as soon as the undivided engine is enqueued. From then on nothing is
// allocated until the stream is synchronised, because an exception would skip the synchronisation.
void RunOn(const cuda::Driver& driver, const CheckRequest& request, CheckedCall& checked) {
  const execution::Schedule& schedule = request.schedule;
  const cudnn::ConvolutionCall& call = request.call;
  const CUstream stream = request.stream;
  Verification& verification = checked.verification;
  const tuning::Tensor tensor = tuning::ResultTensor(request.problem);
  if (!schedule.has_pieces() || !schedule.has_undivided() || !tensor.IsNested()) {
    verification.message = "there is nothing to compare with";
    return;
  }
  cudnn::ConvolutionCall planned = call;
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
  const char* failure = nullptr;  // from here on nothing is allocated until the stream is idle
  if (ready.ok()) {
    written = scratch.data();
    execution::Outcome outcome, undivided_outcome;
    const cudnnStatus_t planned_status = schedule.Run(planned, outcome);
    checked.done = schedule.RunUndivided(call, undivided_outcome) == CUDNN_STATUS_SUCCESS &&
                   undivided_outcome == execution::Outcome::kUndivided;
    if (!checked.done) {
      failure = "the undivided engine cannot run";
    } else if (outcome != execution::Outcome::kPlanned || planned_status != CUDNN_STATUS_SUCCESS) {
      failure = "a piece of the plan failed";
      checked.piece_failed = true;
    }
  }
  // The scratch memory must not be freed while the device may still write to it. A failure of the
  // stream also shows at the caller's next call.
  driver.cuStreamSynchronize(stream);
  if (failure != nullptr) ready = Status::Error(failure);
  if (ready.ok()) {
    const Result<Verification> compared = Compare(driver, request, scratch, output);
    if (compared.ok()) verification = *compared;
    ready = compared.status();
  }
  if (!ready.ok()) verification.message = ready.message();
}

}  // namespace

CheckedCall RunChecked(const cuda::Driver& driver, const CheckRequest& request) noexcept {
  const cuda::ContextScope scope(driver, request.context);
  const cuda::RelaxedCaptureScope relaxed(driver);
  CheckedCall checked;
  try {
    RunOn(driver, request, checked);
  } catch (const std::exception&) {
    // Out of host memory: `done` is already set correctly, and nothing was compared.
    checked.verification = {};
  }
  return checked;
}

}  // namespace ucudnn::interposer
