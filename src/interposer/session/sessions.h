// The application's cuDNN handles: opens and closes their sessions, and tracks their streams.
// Thread-safe.
#pragma once

#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interposer/budget/budgets.h"
#include "interposer/report/report.h"
#include "interposer/session/lanes.h"
#include "interposer/session/session.h"
#include "interposer/spatial/splitter.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

class Sessions {
 public:
  // `driver` may be null; then every call is forwarded. The caller owns all arguments and keeps
  // them alive.
  Sessions(const cudnn::Functions& functions, const cuda::Driver* driver,
           tuning::MeasuredKernels& kernels, Report& report, Budgets& budgets, Splitter& splitter)
      : functions_(functions),
        driver_(driver),
        kernels_(kernels),
        report_(report),
        budgets_(budgets),
        splitter_(splitter) {}

  // Create, Destroy and SetStream do what cuDNN's functions of these names do, and update the
  // handle's session.
  cudnnStatus_t Create(cudnnHandle_t* handle);
  cudnnStatus_t Destroy(cudnnHandle_t handle);
  cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream);
  // To be called before a call on `handle`, because its stream may have been set without ucudnn's
  // knowledge.
  void FollowStream(cudnnHandle_t handle);
  // Records that the program promises to order the work of both handles, even if they have
  // different streams. The handles become one lane of the budget and of the report. The error says
  // why that is not possible.
  Status DeclareOrder(cudnnHandle_t first, cudnnHandle_t second);
  // Divides the budget of the handle's device among the kernels that have run so far. Does nothing
  // if there is no budget.
  Status EndRecording(cudnnHandle_t handle);

  // Returns the session of `handle`, and opens it if the handle is new. Returns null if calls on
  // the handle must be forwarded.
  Session* Of(cudnnHandle_t handle);
  // Returns the session of `handle` if one is open; null otherwise.
  Session* Find(cudnnHandle_t handle) const { return table_.Find(handle); }

  // Returns the bit of the lane of the session's next call, for CountedKernel::Count.
  uint64_t LaneOf(Session& session, cudnnHandle_t handle);

 private:
  void Open(cudnnHandle_t handle, Session& session);
  // To be called when `handle` was destroyed or is about to be. Returns the handle's budget (null:
  // none) and the result of WorkspaceBudget::Close.
  std::pair<WorkspaceBudget*, uint64_t> Leave(cudnnHandle_t handle);
  int PlatformIndex(const planning::Platform& platform);

  const cudnn::Functions& functions_;
  const cuda::Driver* const driver_;
  tuning::MeasuredKernels& kernels_;
  Report& report_;
  Budgets& budgets_;
  Splitter& splitter_;
  SessionTable table_;
  Lanes lanes_;
  Mutex platforms_mutex_;
  std::vector<planning::Platform> platforms_ UCUDNN_GUARDED_BY(platforms_mutex_);
};

}  // namespace ucudnn::interposer
