#include "cuda/capture.h"

#include "cuda/resources.h"

namespace ucudnn::cuda {
namespace {

using Kept = std::shared_ptr<void>;

void CUDA_CB Release(void* kept) { delete static_cast<Kept*>(kept); }

Status KeepWithGraph(const Driver& driver, CUgraph graph, Kept kept) {
  constexpr const char* kDoing = "giving memory to a CUDA graph";
  if (driver.cuUserObjectCreate == nullptr || driver.cuUserObjectRelease == nullptr ||
      driver.cuGraphRetainUserObject == nullptr) {
    return DriverStatus(driver, CUDA_ERROR_NOT_SUPPORTED, kDoing);
  }
  auto held = std::make_unique<Kept>(std::move(kept));
  CUuserObject object = nullptr;
  UCUDNN_RETURN_IF_ERROR(DriverStatus(
      driver,
      driver.cuUserObjectCreate(&object, held.get(), Release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
      kDoing));
  (void)held.release();  // owned by the user object now
  const CUresult given =
      driver.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (given != CUDA_SUCCESS) driver.cuUserObjectRelease(object, 1);
  return DriverStatus(driver, given, kDoing);
}

}  // namespace

std::optional<Capture> CaptureOf(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Capture capture;
  const CUresult asked = driver.cuStreamGetCaptureInfo(stream, &status, &capture.number,
                                                       &capture.graph, nullptr, nullptr);
  if (asked != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return std::nullopt;
  return capture;
}

Status KeepWithGraphOf(const Driver& driver, CUstream stream, std::shared_ptr<void> kept) {
  const std::optional<Capture> capture = CaptureOf(driver, stream);
  if (!capture) return Status::Error("the CUDA graph of a capture has become invalid");
  return KeepWithGraph(driver, capture->graph, std::move(kept));
}

CaptureHold::CaptureHold(const Driver& driver, const Capture& capture) : number_(capture.number) {
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  const auto end = [ended](void*) { ended->store(true); };
  // On an error, KeepWithGraph calls `end` although the graph still exists. `ended_` then stays
  // null, so IsOver() never returns true.
  if (KeepWithGraph(driver, capture.graph, Kept(nullptr, end)).ok()) ended_ = ended;
}

}  // namespace ucudnn::cuda
