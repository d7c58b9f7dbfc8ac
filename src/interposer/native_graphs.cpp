// Native CUDA graphs of execution plans (cudnnBackendPopulateCudaGraph and its update): a plan that
// is divided becomes a graph of its pieces, one child behind the other.
#include <algorithm>
#include <array>

#include "cuda/child_graphs.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "interposer/graph_interposer.h"
#include "interposer/interposer.h"
#include "interposer/met_plan.h"

namespace ucudnn::interposer {
namespace {

using cudnn::BackendDescriptor;

bool BecomesNative(const cudnn::EngineNotes& notes) {
  return std::count(notes.behavior.begin(), notes.behavior.end(),
                    CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API) > 0;
}

void* Advance(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

}  // namespace

Status GraphInterposer::BuildNative(cudnnHandle_t handle, GraphDecision& decision) {
  if (decision.native.size() == decision.pieces.runs.size()) return Status::Ok();
  const cudnn::GraphPlan& plan = decision.own->plan;
  const cudnn::PlanDevice device{handle, nullptr};
  const cuda::RelaxedCaptureScope relaxed(*i_.driver_);
  const auto build = [&](const cudnn::GraphTemplate& engine, int images, double beta,
                         BackendDescriptor& to) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        to, cudnn::BuildAtBatch(i_.functions_, device, engine, images, plan.alpha, beta));
    UCUDNN_ASSIGN_OR_RETURN(const size_t bytes, cudnn::PlanWorkspace(i_.functions_, to.get()));
    return bytes <= decision.promised_bytes ? Status::Ok()
                                            : Status::Error("a piece exceeds the promise");
  };
  std::vector<NativePieces> native;
  for (size_t at = 0; at < decision.pieces.runs.size(); ++at) {
    const int images = decision.pieces.runs[at].micro.micro_batch;
    const cudnn::GraphTemplate& engine =
        decision.engines.empty() ? *decision.own : *decision.engines[at];
    NativePieces pieces;
    UCUDNN_RETURN_IF_ERROR(build(engine, images, plan.beta, pieces.first));
    if (plan.problem.operation == Operation::kBackwardFilter) {
      UCUDNN_RETURN_IF_ERROR(build(engine, images, 1, pieces.further));
    }
    native.push_back(std::move(pieces));
  }
  decision.native = std::move(native);
  return Status::Ok();
}

Status GraphInterposer::ForEachNative(const GraphDecision& decision, const VariantPack& operands,
                                      const TakePiece& take) const {
  const cudnn::GraphPlan& plan = decision.own->plan;
  const ConvolutionProblem& problem = plan.problem;
  const size_t element = ElementBytes(problem.type);
  const int count = std::min(operands.pointer_count, operands.uid_count);
  std::array<void*, VariantPack::kMost> pointers = operands.pointers;
  bool adds = false;
  for (size_t i = 0; i < decision.native.size(); ++i) {
    const Run& run = decision.pieces.runs[i];
    const size_t images = static_cast<size_t>(run.micro.micro_batch);
    for (int piece = 0; piece < run.count; ++piece) {
      UCUDNN_ASSIGN_OR_RETURN(
          BackendDescriptor pack,
          BackendDescriptor::Create(i_.functions_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
      UCUDNN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                      count, pointers.data()));
      UCUDNN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
                                      operands.uids.data()));
      UCUDNN_RETURN_IF_ERROR(
          pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &operands.workspace));
      UCUDNN_RETURN_IF_ERROR(pack.Finalize());
      const NativePieces& native = decision.native[i];
      const bool accumulates = adds && native.further.get() != nullptr;
      UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
          i_.functions_, take(accumulates ? native.further.get() : native.first.get(), pack.get()),
          "a piece's native graph"));
      adds = true;
      for (int at = 0; at < count; ++at) {
        const int64_t uid = operands.uids[at];
        const bool image = uid == plan.x_uid;
        if (!image && uid != plan.y_uid && uid != plan.residual_uid) continue;
        const int64_t stride = image ? problem.x_strides[0] : problem.y_strides[0];
        pointers[at] = Advance(pointers[at], images * static_cast<size_t>(stride) * element);
      }
    }
  }
  return Status::Ok();
}

const VariantPack* GraphInterposer::NativeOperands(cudnnHandle_t handle,
                                                   const GraphDecision& decision,
                                                   cudnnBackendDescriptor_t pack) {
  // Sums of 16-bit gradients are more than their pieces.
  const ConvolutionProblem& problem = decision.own->plan.problem;
  const bool narrow_sum =
      problem.operation == Operation::kBackwardFilter && ElementBytes(problem.type) < 4;
  // A graph may run at any time, beside whatever has the library's workspace by then.
  if (decision.plan == nullptr || narrow_sum || decision.library.bytes > 0) return nullptr;
  const VariantPack* const operands = FindPack(pack);
  const Session* const session = i_.SessionOf(handle);
  if (operands == nullptr || !operands->plain || session == nullptr ||
      session->context() != decision.context) {
    return nullptr;
  }
  const cudnn::GraphPlan& plan = decision.own->plan;
  // What the genuine library would refuse, it shall refuse itself.
  for (const std::optional<int64_t>& uid :
       {std::optional(plan.x_uid), std::optional(plan.w_uid), std::optional(plan.y_uid),
        plan.residual_uid, plan.bias_uid}) {
    if (uid && operands->Find(*uid) == nullptr) return nullptr;
  }
  return operands->workspace != nullptr || decision.pieces.WorkspaceBytes() == 0 ? operands
                                                                                 : nullptr;
}

bool GraphInterposer::PopulatePieces(cudnnHandle_t handle, GraphDecision& decision,
                                     cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (!decision.may_divide()) return false;
  const VariantPack* const operands = NativeOperands(handle, decision, pack);
  if (operands == nullptr) return false;
  std::lock_guard lock(native_mutex_);
  if (!BuildNative(handle, decision).ok()) return false;
  // All or nothing: the application's graph is touched once every piece has its own.
  std::vector<cuda::OwnedGraph> children;
  const Status populated =
      ForEachNative(decision, *operands, [&](auto piece, auto piece_pack) -> cudnnStatus_t {
        auto child = cuda::NewGraph();
        if (!child.ok()) return CUDNN_STATUS_NOT_SUPPORTED;
        children.push_back(std::move(*child));
        return i_.functions_.cudnnBackendPopulateCudaGraph(handle, piece, piece_pack,
                                                           children.back().get());
      });
  return populated.ok() && cuda::AddInARow(graph, children).ok();
}

cudnnStatus_t GraphInterposer::PopulateCudaGraph(cudnnHandle_t handle,
                                                 cudnnBackendDescriptor_t plan,
                                                 cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  GraphDecision* const decision = FindPlan(plan);
  if (decision != nullptr) {
    Count(handle, *decision);
    try {
      if (PopulatePieces(handle, *decision, pack, graph)) return CUDNN_STATUS_SUCCESS;
    } catch (...) {
      // Out of memory before the graph was touched.
    }
    decision->CountUndivided();
  }
  return i_.functions_.cudnnBackendPopulateCudaGraph(handle, Substitute(plan), pack, graph);
}

cudnnStatus_t GraphInterposer::UpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                               cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  const Plans* const plans = plans_.load(std::memory_order_acquire);
  GraphDecision* decision = plans == nullptr ? nullptr : plans->Find(plan);
  try {
    const std::vector<CUgraph> children =
        decision == nullptr ? std::vector<CUgraph>() : cuda::ChildrenInARow(graph);
    // A graph was made of what was decided by then.
    for (; decision != nullptr && !children.empty(); decision = decision->better) {
      std::lock_guard lock(native_mutex_);
      if (decision->native.empty() || *decision->failed ||
          static_cast<size_t>(decision->pieces.Pieces()) != children.size()) {
        continue;
      }
      const VariantPack* const operands = NativeOperands(handle, *decision, pack);
      if (operands == nullptr) break;
      size_t next = 0;
      cudnnStatus_t last = CUDNN_STATUS_NOT_SUPPORTED;
      const Status updated = ForEachNative(*decision, *operands, [&](auto piece, auto piece_pack) {
        last =
            i_.functions_.cudnnBackendUpdateCudaGraph(handle, piece, piece_pack, children[next++]);
        return last;
      });
      return updated.ok()                   ? CUDNN_STATUS_SUCCESS
             : last == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_INTERNAL_ERROR
                                            : last;
    }
  } catch (...) {
    return CUDNN_STATUS_ALLOC_FAILED;
  }
  return i_.functions_.cudnnBackendUpdateCudaGraph(handle, Substitute(plan), pack, graph);
}

bool GraphInterposer::KeepsNativeSupport(const DescriptorShadow& engine) {
  if (engine.handle == nullptr || engine.configuration == nullptr ||
      i_.options_.mode != Mode::kOn) {
    return true;
  }
  Met met;
  met.handle = engine.handle;
  met.session = i_.SessionOf(engine.handle);
  const size_t limit = met.session == nullptr ? kNoLimit : i_.UserLimit(*met.session);
  const bool pinned = !i_.options_.plan.empty();
  if (met.session == nullptr || (limit == kNoLimit && !pinned)) return true;
  // What the library refuses, or what is left alone, is the library's own affair.
  const auto plan = PlanOf(engine.configuration, engine.handle);
  const auto need =
      plan.ok() ? cudnn::PlanWorkspace(i_.functions_, plan->get()) : Result<size_t>(plan.status());
  if (!need.ok() || (*need <= limit && !pinned)) return true;
  auto own = cudnn::ReadTemplate(i_.functions_, plan->get());
  if (!own.ok()) return true;
  const GraphDecision* decision = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto known = decisions_.find({met.session->context(), limit, own->json});
    if (known != decisions_.end()) {
      if (known->second == nullptr) return true;
      decision = known->second->Latest();
    }
  }
  if (decision != nullptr) {
    if (!decision->smaller()) return true;
    const auto notes = cudnn::ReadNotes(i_.functions_, decision->substitute.get());
    return notes.ok() && BecomesNative(*notes);
  }
  met.own = std::make_shared<const cudnn::GraphTemplate>(std::move(*own));
  met.need_bytes = *need;
  met.limit_bytes = limit;
  met.list = engine.list;
  const planning::PinnedKernel* const kernel = PinnedKernelOf(met);
  if (kernel != nullptr && met.session->network() == nullptr) {
    const auto found = FindPinned(met, *kernel);
    if (found.ok()) return found->other == met.own || BecomesNative(found->other->notes);
  }
  if (*need <= limit) return true;
  const std::optional<planning::EnginePromise> promised = promises_.Find(
      {met.problem(), i_.DeviceOf(*met.session).platform, met.own->plan.engine, limit});
  // Which of them it will be may have to be measured.
  const Templates others = FindOthers(met, promised ? &*promised : nullptr,
                                      promised ? promised->workspace_bytes : limit);
  return std::all_of(others.begin(), others.end(),
                     [](const Template& other) { return BecomesNative(other->notes); });
}

cudnnStatus_t GraphInterposer::BehaviorNotes(cudnnBackendDescriptor_t engine,
                                             cudnnBackendAttributeType_t type, int64_t requested,
                                             int64_t* count, void* values) {
  constexpr auto kName = CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE;
  constexpr int64_t kMost = CUDNN_BEHAVIOR_NOTE_TYPE_COUNT;
  // The application's array may be as long as it was told before, so it gets no note that is not
  // its own.
  cudnnBackendBehaviorNote_t notes[kMost] = {};
  int64_t all = 0;
  const auto genuine = [&] {
    return i_.functions_.cudnnBackendGetAttribute(engine, kName, type, requested, count, values);
  };
  if (type != CUDNN_TYPE_BEHAVIOR_NOTE ||
      i_.functions_.cudnnBackendGetAttribute(engine, kName, type, kMost, &all, notes) !=
          CUDNN_STATUS_SUCCESS ||
      all < 0 || all > kMost) {
    return genuine();
  }
  auto* const end =
      std::remove(notes, notes + all, CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API);
  if (end == notes + all) return genuine();
  try {
    const std::optional<DescriptorShadow> shadow = shadows_.Find(engine);
    if (!shadow) return genuine();
    const bool keeps = shadow->keeps_native
                           ? *shadow->keeps_native
                           : shadows_.AnswerNative(engine, KeepsNativeSupport(*shadow));
    if (keeps) return genuine();
  } catch (...) {
    return genuine();  // out of memory
  }
  int64_t left = end - notes;
  if (requested > 0) left = std::min(left, requested);
  if (values != nullptr && requested > 0) {
    std::copy_n(notes, left, static_cast<cudnnBackendBehaviorNote_t*>(values));
  }
  if (count != nullptr) *count = left;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace ucudnn::interposer
