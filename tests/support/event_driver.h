// A driver table that only makes, records and times events. Each recorded event is 1 ms later than
// the previous one. Events are complete unless the last call of set_lags was set_lags(true). The
// table allocates nothing. Its state is static, so only one EventDriver may exist at a time.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/driver.h"

namespace ucudnn::test {

// The state of an EventDriver's device.
struct EventState {
  size_t events = 0;
  long clock = 0;
  bool lags = false, fails = false;
  std::array<float, 8192> times = {};  // when each event was recorded, in ms
};

class EventDriver {
 public:
  EventDriver() {
    state = EventState();
    driver_.cuCtxGetCurrent = [](CUcontext* context) {
      *context = reinterpret_cast<CUcontext>(uintptr_t{1});
      return CUDA_SUCCESS;
    };
    driver_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
    driver_.cuGetErrorName = [](CUresult, const char** name) {
      *name = "an error";
      return CUDA_SUCCESS;
    };
    driver_.cuEventCreate = [](CUevent* event, unsigned) {
      *event = reinterpret_cast<CUevent>(++state.events);
      return CUDA_SUCCESS;
    };
    driver_.cuEventDestroy = [](CUevent) { return CUDA_SUCCESS; };
    driver_.cuEventRecord = [](CUevent event, CUstream) {
      if (state.fails) return CUDA_ERROR_UNKNOWN;
      state.times[reinterpret_cast<size_t>(event)] = static_cast<float>(++state.clock);
      return CUDA_SUCCESS;
    };
    driver_.cuEventQuery = [](CUevent) { return state.lags ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
    driver_.cuEventElapsedTime = [](float* ms, CUevent begin, CUevent end) {
      *ms =
          state.times[reinterpret_cast<size_t>(end)] - state.times[reinterpret_cast<size_t>(begin)];
      return CUDA_SUCCESS;
    };
  }

  const cuda::Driver& driver() const { return driver_; }
  void set_lags(bool lags) { state.lags = lags; }
  void set_fails(bool fails) { state.fails = fails; }

 private:
  static inline EventState state;
  cuda::Driver driver_;
};

}  // namespace ucudnn::test
