#include "interposer/session/sessions.h"

#include <algorithm>

#include "base/log.h"
#include "cuda/resources.h"

namespace ucudnn::interposer {

int Sessions::PlatformIndex(const planning::Platform& platform) {
  MutexLock lock(platforms_mutex_);
  const auto known = std::find(platforms_.begin(), platforms_.end(), platform);
  if (known != platforms_.end()) return static_cast<int>(known - platforms_.begin());
  platforms_.push_back(platform);
  report_.SetPlatform(platform);
  return static_cast<int>(platforms_.size()) - 1;
}

void Sessions::Open(cudnnHandle_t handle, Session& session) {
  const cuda::Driver& driver = *driver_;
  cudaStream_t stream = nullptr;
  if (functions_.cudnnGetStream(handle, &stream) != CUDNN_STATUS_SUCCESS) stream = nullptr;
  CUcontext context = nullptr;
  if (driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
    if (driver.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) context = nullptr;
  }
  const cuda::ContextScope scope(driver, context);
  const Result<planning::Platform> platform = tuning::DescribePlatform(driver, functions_);
  if (!platform.ok()) {
    // Measurements are stored under the device's name. Without a name, calls on the handle are
    // forwarded (platform index -1).
    WarnOnce("platform", "a handle's device cannot be described: " + platform.message());
    session.Open({}, -1, stream);
    return;
  }
  tuning::Device device = {&driver, &functions_, context, *platform};
  WorkspaceBudget* const budget = budgets_.Of(device);
  if (budget != nullptr) budget->Open(handle);
  session.Open(std::move(device), PlatformIndex(*platform), stream, budget);
}

Session* Sessions::Of(cudnnHandle_t handle) {
  if (handle == nullptr || driver_ == nullptr) return nullptr;
  Session* session = table_.Find(handle);
  if (session == nullptr) {
    session = table_.FindOrOpen(handle, [&](Session& fresh) { Open(handle, fresh); });
  }
  return session != nullptr && session->platform() >= 0 ? session : nullptr;
}

cudnnStatus_t Sessions::Create(cudnnHandle_t* handle) {
  Log(LogLevel::kDebug, "cudnnCreate intercepted");
  const cudnnStatus_t status = functions_.cudnnCreate(handle);
  if (status != CUDNN_STATUS_SUCCESS || handle == nullptr) return status;
  try {
    // The program may have destroyed an earlier handle at this address without ucudnn's knowledge.
    Leave(*handle);
    Of(*handle);  // opens the session while the handle's context is current
  } catch (...) {
    // Out of host memory: the handle's first call will open the session.
  }
  return status;
}

std::pair<WorkspaceBudget*, uint64_t> Sessions::Leave(cudnnHandle_t handle) {
  lanes_.Leave(handle);
  std::pair<WorkspaceBudget*, uint64_t> left;
  table_.Close(handle, [&](const void* lane) {
    if (lane != nullptr) lanes_.Leave(lane);
    left = budgets_.Leave(handle, lane);
  });
  return left;
}

cudnnStatus_t Sessions::Destroy(cudnnHandle_t handle) {
  // Closes the session before the real cudnnDestroy; afterwards another handle may get the address.
  const auto [budget, leave] = Leave(handle);
  splitter_.Forget(handle);
  if (table_.empty()) kernels_.ReleaseHelpers();
  if (budget == nullptr) return functions_.cudnnDestroy(handle);
  // cudnnDestroy waits for the current device, so the budget's device is made current.
  const cuda::ContextScope scope(*driver_, budget->context());
  CUcontext current = nullptr;
  driver_->cuCtxGetCurrent(&current);
  const cudnnStatus_t status = functions_.cudnnDestroy(handle);
  if (status == CUDNN_STATUS_SUCCESS && current == budget->context()) budget->Closed(leave);
  return status;
}

cudnnStatus_t Sessions::SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const cudnnStatus_t status = functions_.cudnnSetStream(handle, stream);
  if (status == CUDNN_STATUS_SUCCESS) {
    if (Session* session = table_.Find(handle)) session->set_stream(stream);
  }
  return status;
}

void Sessions::FollowStream(cudnnHandle_t handle) {
  Session* const session = table_.Find(handle);
  cudaStream_t stream = nullptr;
  if (session == nullptr || functions_.cudnnGetStream(handle, &stream) != CUDNN_STATUS_SUCCESS) {
    return;
  }
  if (stream != session->stream()) session->set_stream(stream);
}

Status Sessions::DeclareOrder(cudnnHandle_t first, cudnnHandle_t second) {
  Session* const sessions[] = {Of(first), Of(second)};
  if (sessions[0] == nullptr || sessions[1] == nullptr) {
    return Status::Error("one of the handles is unknown");
  }
  WorkspaceBudget* const budget = sessions[0]->budget();
  if (budget != sessions[1]->budget()) {
    return Status::Error("the handles are of different devices");
  }
  if (budget != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        budget->MayOrder({first, sessions[0]->order(), second, sessions[1]->order()}));
  }
  table_.Order(first, second);
  return Status::Ok();
}

Status Sessions::EndRecording(cudnnHandle_t handle) {
  Session* const session = Of(handle);
  if (session == nullptr) return Status::Error("the handle is unknown");
  return budgets_.EndRecording(*session, handle);
}

uint64_t Sessions::LaneOf(Session& session, cudnnHandle_t handle) {
  if (const uint64_t lane = session.lane(); lane != 0) return lane;
  const void* const order = session.order();
  const uint64_t lane =
      lanes_.BitOf(order != nullptr ? order : handle, order != nullptr, session.stream());
  session.set_lane(lane);
  return lane;
}

}  // namespace ucudnn::interposer
