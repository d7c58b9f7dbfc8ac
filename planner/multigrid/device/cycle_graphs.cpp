#include "planner/multigrid/device/cycle_graphs.h"

#include <string>
#include <utility>

namespace ucudnn::multigrid {

Result<std::unique_ptr<DeviceLanes>> DeviceLanes::Make(const DeviceTarget& target, int count,
                                                       bool exchanges) {
  auto made = std::make_unique<DeviceLanes>();
  made->count_ = count;
  for (int lane = 0; lane < count + (exchanges ? 1 : 0); ++lane) {
    UCUDNN_ASSIGN_OR_RETURN(auto one, DeviceLane::Make(target));
    made->lanes_.push_back(std::move(one));
  }
  return made;
}

Status DeviceLanes::Reserve(const LaneNeeds& needs) {
  for (int i = 0; i < count_; ++i) {
    if (!lanes_[i]->Holds(needs)) NoteMove();
    UCUDNN_RETURN_IF_ERROR(lanes_[i]->Reserve(needs));
  }
  return Status::Ok();
}

Status DeviceLanes::Join() {
  UCUDNN_RETURN_IF_ERROR(Gather());
  return Fork();
}

Status DeviceLanes::Gather() {
  for (size_t i = 1; i < lanes_.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(lanes_[i]->Record());
    UCUDNN_RETURN_IF_ERROR(lanes_[i]->LetFollow(first()));
  }
  return Status::Ok();
}

Status DeviceLanes::GatherExchange() {
  if (static_cast<int>(lanes_.size()) == count_) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(exchange().Record());
  return exchange().LetFollow(first());
}

Status DeviceLanes::Fork() {
  if (lanes_.size() == 1) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(first().Record());
  for (size_t i = 1; i < lanes_.size(); ++i) UCUDNN_RETURN_IF_ERROR(first().LetFollow(*lanes_[i]));
  return Status::Ok();
}

Status DeviceLanes::Wait() {
  for (const auto& lane : lanes_) UCUDNN_RETURN_IF_ERROR(lane->Wait());
  return Status::Ok();
}

Result<CycleGraphs> CycleGraphs::Make(const DeviceTarget& target) {
  if (const char* missing = target.driver->MissingForGraphs()) {
    return Status::Error(std::string("the CUDA driver lacks ") + missing +
                         ", which recorded cycles need");
  }
  return CycleGraphs(target);
}

Result<CycleGraphs::Exec> CycleGraphs::Record(DeviceLanes& lanes,
                                              const std::function<Status()>& work) {
  const cuda::Driver& driver = *target_.driver;
  const CUstream stream = lanes.first().stream();
  // The relaxed mode lets other threads of the program allocate memory during the capture.
  UCUDNN_RETURN_IF_ERROR(
      UCUDNN_DRIVER(target_, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Status recorded = lanes.Fork();
  if (recorded.ok()) recorded = work();
  if (recorded.ok()) recorded = lanes.Gather();
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(stream, &graph);
  CUgraphExec exec = nullptr;
  CUresult instantiated = CUDA_SUCCESS;
  if (recorded.ok() && ended == CUDA_SUCCESS) {
    instantiated = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  }
  if (graph != nullptr) driver.cuGraphDestroy(graph);
  UCUDNN_RETURN_IF_ERROR(std::move(recorded));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, ended, "cuStreamEndCapture"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, instantiated, "cuGraphInstantiateWithFlags"));
  return Exec(exec, {target_.driver});
}

Status CycleGraphs::Run(int kind, DeviceLanes& lanes, const std::function<Status()>& work) {
  if (moves_ != lanes.moves()) {
    UCUDNN_RETURN_IF_ERROR(lanes.Wait());
    kinds_.clear();
    moves_ = lanes.moves();
  }
  if (static_cast<size_t>(kind) >= kinds_.size()) kinds_.resize(static_cast<size_t>(kind) + 1);
  Kind& of_kind = kinds_[kind];
  if (!of_kind.has_run) {
    UCUDNN_RETURN_IF_ERROR(work());
    of_kind.has_run = true;
    return Status::Ok();
  }
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_RETURN_IF_ERROR(lanes.GatherExchange());
  if (!of_kind.graph) {
    UCUDNN_ASSIGN_OR_RETURN(of_kind.graph, Record(lanes, work));
  }
  UCUDNN_RETURN_IF_ERROR(
      UCUDNN_DRIVER(target_, cuGraphLaunch, of_kind.graph.get(), lanes.first().stream()));
  return lanes.Fork();
}

}  // namespace ucudnn::multigrid
