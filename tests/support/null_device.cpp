#include "tests/support/null_device.h"

#include <atomic>

#include "tests/support/stand_in.h"

namespace ucudnn::test {
namespace {

std::atomic<long> calls = 0, launches = 0;

// Replaces `function` by a function that counts its calls and returns 0, which is success for every
// status type.
template <typename Status, typename... Arguments>
void LeaveOut(Status (*&function)(Arguments...)) {
  function = [](Arguments...) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return Status{};
  };
}

}  // namespace

NullDevice MakeNullDevice() {
  NullDevice device = {StandIn(), *cuda::GetDriver()};
  cudnn::Functions& functions = device.functions;
  LeaveOut(functions.cudnnActivationBackward);
  LeaveOut(functions.cudnnActivationForward);
  LeaveOut(functions.cudnnAddTensor);
  LeaveOut(functions.cudnnConvolutionBackwardBias);
  LeaveOut(functions.cudnnConvolutionBackwardData);
  LeaveOut(functions.cudnnConvolutionBackwardFilter);
  LeaveOut(functions.cudnnConvolutionBiasActivationForward);
  LeaveOut(functions.cudnnConvolutionForward);
  LeaveOut(functions.cudnnOpTensor);
  LeaveOut(functions.cudnnReduceTensor);
  cuda::Driver& driver = device.driver;
  LeaveOut(driver.cuEventRecord);
  LeaveOut(driver.cuMemcpyDtoDAsync);
  LeaveOut(driver.cuMemcpyDtoHAsync);
  LeaveOut(driver.cuMemcpyHtoDAsync);
  LeaveOut(driver.cuStreamSynchronize);
  LeaveOut(driver.cuStreamWaitEvent);
  driver.cuGraphLaunch = [](CUgraphExec, CUstream) {
    calls.fetch_add(1, std::memory_order_relaxed);
    launches.fetch_add(1, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  };
  return device;
}

long NullCalls() { return calls.load(); }
long NullGraphLaunches() { return launches.load(); }

}  // namespace ucudnn::test
