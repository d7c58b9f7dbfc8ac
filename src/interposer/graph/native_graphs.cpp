// Makes native CUDA graphs of execution plans (cudnnBackendPopulateCudaGraph and its update): a
// divided plan becomes a graph of its pieces, one child behind the other.
#include <algorithm>
#include <array>
#include <cassert>

#include "cuda/child_graphs.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "interposer/core/measuring.h"
#include "interposer/graph/graph_plans.h"
#include "planning/decision/otherwise.h"

namespace ucudnn::interposer {
namespace {

using cudnn::BackendDescriptor;

// The steps of a decision that is only asked for: they measure, compare and build nothing. A
// comparison that is not made is taken to succeed.
class AskedOnly : public GraphSteps {
 public:
  AskedOnly(Process& process, const GraphKernel& kernel, FormerSubstitutes& former,
            KeptPromises& promises)
      : GraphSteps(process, kernel, former, promises) {}
  using GraphSteps::Answer;
  planning::Rows Answer(const planning::Measure& question) override {
    planning::Rows rows = GraphSteps::Answer(question);
    settled_ &= rows.settled;
    return rows;
  }
  planning::Trust Answer(const planning::Compare&) override { return {}; }
  planning::BuildOutcome Answer(const planning::Build&) override { return {}; }

  // Whether all that was asked for is measured.
  bool settled() const { return settled_; }

 private:
  bool settled_ = true;
};

// Whether a native graph is made of the state's pieces. Its nodes are no calls of a captured
// stream.
bool MakesPieces(const PlanState& state) {
  planning::Obstacles obstacles;
  obstacles.failed = *state.failed;
  // A graph may be launched at any time, when another kernel may have ucudnn's workspace.
  obstacles.no_workspace = state.owned.bytes > 0;
  return state.runnable != nullptr && state.runnable->has_pieces() &&
         RunsPieces(state.decision, obstacles);
}

void* Advance(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

}  // namespace

Status GraphPlans::BuildNative(cudnnHandle_t handle, PlanState& state) {
  if (state.native.size() == state.decision.configuration.runs.size()) return Status::Ok();
  assert(state.engines.size() == state.decision.configuration.runs.size());
  const cudnn::FusedConvolution& convolution = state.own->convolution;
  const cudnn::PlanDevice device{handle, nullptr};
  const cuda::RelaxedCaptureScope relaxed(*process_.driver);
  const auto build = [&](const cudnn::GraphTemplate& engine, int images, double beta,
                         BackendDescriptor& to) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(to, cudnn::BuildAtBatch(process_.functions, device, engine, images,
                                                    convolution.alpha, beta));
    UCUDNN_ASSIGN_OR_RETURN(const size_t bytes, cudnn::PlanWorkspace(process_.functions, to.get()));
    return bytes <= state.decision.promised_bytes ? Status::Ok()
                                                  : Status::Error("a piece exceeds the promise");
  };
  std::vector<NativePieces> native;
  for (size_t at = 0; at < state.decision.configuration.runs.size(); ++at) {
    const int images = state.decision.configuration.runs[at].micro.micro_batch;
    const cudnn::GraphTemplate& engine = *state.engines[at];
    NativePieces pieces;
    UCUDNN_RETURN_IF_ERROR(build(engine, images, convolution.beta, pieces.replacing));
    if (convolution.problem.operation == Operation::kBackwardFilter) {
      UCUDNN_RETURN_IF_ERROR(build(engine, images, 1, pieces.adding));
    }
    native.push_back(std::move(pieces));
  }
  state.native = std::move(native);
  return Status::Ok();
}

Status GraphPlans::ForEachNative(const PlanState& state, const VariantPack& operands,
                                 const TakePiece& take) const {
  const cudnn::FusedConvolution& convolution = state.own->convolution;
  const int count = std::min(operands.pointer_count, operands.uid_count);
  std::array<void*, VariantPack::kMost> pointers = operands.pointers;
  bool adds = false;
  for (size_t i = 0; i < state.native.size(); ++i) {
    const Run& run = state.decision.configuration.runs[i];
    const size_t images = static_cast<size_t>(run.micro.micro_batch);
    for (int piece = 0; piece < run.count; ++piece) {
      UCUDNN_ASSIGN_OR_RETURN(
          BackendDescriptor pack,
          BackendDescriptor::Create(process_.functions, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
      UCUDNN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                      count, pointers.data()));
      UCUDNN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
                                      operands.uids.data()));
      UCUDNN_RETURN_IF_ERROR(
          pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &operands.workspace));
      UCUDNN_RETURN_IF_ERROR(pack.Finalize());
      const NativePieces& native = state.native[i];
      const bool accumulates = adds && native.adding.get() != nullptr;
      UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
          process_.functions,
          take(accumulates ? native.adding.get() : native.replacing.get(), pack.get()),
          "a piece's native graph"));
      adds = true;
      for (int at = 0; at < count; ++at) {
        pointers[at] = Advance(pointers[at], images * convolution.ImageBytes(operands.uids[at]));
      }
    }
  }
  return Status::Ok();
}

const VariantPack* GraphPlans::NativeOperands(cudnnHandle_t handle, const PlanState& state,
                                              cudnnBackendDescriptor_t pack) {
  // Sums of 16-bit gradients take kernels between the pieces, which no native graph of a plan has.
  const ConvolutionProblem& problem = state.own->convolution.problem;
  const bool narrow_sum =
      problem.operation == Operation::kBackwardFilter && ElementBytes(problem.type) < 4;
  if (narrow_sum) return nullptr;
  const VariantPack* const operands = FindPack(pack);
  const Session* const session = process_.sessions.Of(handle);
  if (operands == nullptr || !operands->plain || session == nullptr ||
      session->context() != state.context) {
    return nullptr;
  }
  const cudnn::FusedConvolution& convolution = state.own->convolution;
  // Packs that lack an operand are the real library's to refuse.
  for (const int64_t uid : {convolution.x_uid, convolution.w_uid, convolution.y_uid}) {
    if (operands->Find(uid) == nullptr) return nullptr;
  }
  for (const cudnn::FusedOperand& operand : convolution.operands) {
    if (operands->Find(operand.uid) == nullptr) return nullptr;
  }
  return operands->workspace != nullptr || state.decision.configuration.WorkspaceBytes() == 0
             ? operands
             : nullptr;
}

bool GraphPlans::PopulatePieces(cudnnHandle_t handle, PlanState& state,
                                cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (!MakesPieces(state)) return false;
  const VariantPack* const operands = NativeOperands(handle, state, pack);
  if (operands == nullptr) return false;
  MutexLock lock(native_mutex_);
  if (!BuildNative(handle, state).ok()) return false;
  // The application's graph is touched only once every piece has a graph of its own.
  std::vector<cuda::OwnedGraph> children;
  const Status populated =
      ForEachNative(state, *operands, [&](auto piece, auto piece_pack) -> cudnnStatus_t {
        auto child = cuda::NewGraph();
        if (!child.ok()) return CUDNN_STATUS_NOT_SUPPORTED;
        children.push_back(std::move(*child));
        return process_.functions.cudnnBackendPopulateCudaGraph(handle, piece, piece_pack,
                                                                children.back().get());
      });
  return populated.ok() && cuda::AddInARow(graph, children).ok();
}

cudnnStatus_t GraphPlans::PopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (process_.splitter.splits() && IsRefusedNative(plan)) return CUDNN_STATUS_NOT_SUPPORTED;
  PlanState* const state = FindPlan(plan);
  if (state != nullptr) Count(SessionOf(handle, *state), handle, *state);
  if (state != nullptr && PopulatePieces(handle, *state, pack, graph)) return CUDNN_STATUS_SUCCESS;
  return PopulateAsOne(handle, plan, pack, graph);
}

cudnnStatus_t GraphPlans::PopulateUndivided(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack,
                                            cudaGraph_t graph) noexcept {
  if (process_.splitter.splits()) {
    return process_.splitter.Fail("out of memory in a split call");
  }
  return PopulateAsOne(handle, plan, pack, graph);
}

cudnnStatus_t GraphPlans::PopulateAsOne(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                        cudnnBackendDescriptor_t pack, cudaGraph_t graph) noexcept {
  PlanState* const state = FindPlan(plan);
  if (state != nullptr) state->CountUndivided();
  return WithUndivided(state, plan, [&](cudnnBackendDescriptor_t whole) {
    return process_.functions.cudnnBackendPopulateCudaGraph(handle, whole, pack, graph);
  });
}

cudnnStatus_t GraphPlans::UpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (process_.splitter.splits() && IsRefusedNative(plan)) return CUDNN_STATUS_NOT_SUPPORTED;
  const Plans* const plans = plans_.load(std::memory_order_acquire);
  PlanState* state = plans == nullptr ? nullptr : plans->Find(plan);
  const std::vector<CUgraph> children =
      state == nullptr ? std::vector<CUgraph>() : cuda::ChildrenInARow(graph);
  // The graph may be of any earlier state of the plan: the one with as many pieces is updated.
  for (; state != nullptr && !children.empty(); state = state->better) {
    MutexLock lock(native_mutex_);
    if (state->native.empty() || !MakesPieces(*state) ||
        static_cast<size_t>(state->decision.configuration.Pieces()) != children.size()) {
      continue;
    }
    const VariantPack* const operands = NativeOperands(handle, *state, pack);
    if (operands == nullptr) break;
    size_t next = 0;
    cudnnStatus_t last = CUDNN_STATUS_NOT_SUPPORTED;
    const Status updated = ForEachNative(*state, *operands, [&](auto piece, auto piece_pack) {
      last = process_.functions.cudnnBackendUpdateCudaGraph(handle, piece, piece_pack,
                                                            children[next++]);
      return last;
    });
    return updated.ok()                   ? CUDNN_STATUS_SUCCESS
           : last == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_INTERNAL_ERROR
                                          : last;
  }
  return WithUndivided(FindPlan(plan), plan, [&](cudnnBackendDescriptor_t whole) {
    return process_.functions.cudnnBackendUpdateCudaGraph(handle, whole, pack, graph);
  });
}

bool GraphPlans::KeepsNativeSupport(const DescriptorShadow& engine) {
  const Options& options = process_.options;
  if (process_.splitter.splits() && !engine.is_pointwise) return false;
  if (engine.handle == nullptr || engine.configuration == nullptr || options.mode != Mode::kOn) {
    return true;
  }
  GraphKernel kernel;
  kernel.handle = engine.handle;
  kernel.session = process_.sessions.Of(engine.handle);
  if (kernel.session == nullptr) return true;
  kernel.limit_bytes = UserLimit(process_, *kernel.session);
  if (kernel.limit_bytes == kNoLimit && options.workspace_plan.empty()) return true;
  const LentConfigurations own_configuration(shadows_, process_.functions,
                                             {{engine.configuration, engine.configuration_number}});
  if (own_configuration.all().empty()) return true;
  // Configurations that the library refuses, or that are left alone, answer as the library does.
  const auto plan = PlanOf(process_, engine.configuration, engine.handle);
  const auto need = plan.ok() ? cudnn::PlanWorkspace(process_.functions, plan->get())
                              : Result<size_t>(plan.status());
  if (!need.ok() || (*need <= kernel.limit_bytes && options.workspace_plan.empty())) return true;
  auto own = cudnn::ReadTemplate(process_.functions, plan->get());
  if (!own.ok()) return true;
  {
    MutexLock lock(mutex_);
    const auto known = states_.find({kernel.session->context(), kernel.limit_bytes, own->json});
    if (known != states_.end()) {
      const PlanState* const state = known->second == nullptr ? nullptr : known->second->Latest();
      return state == nullptr || !state->promises_less() ||
             (state->other != nullptr && BecomesNative(state->other->notes));
    }
  }
  kernel.own = std::make_shared<const cudnn::GraphTemplate>(std::move(*own));
  kernel.need_bytes = *need;
  if (engine.list != nullptr) kernel.listed = Lend(*engine.list);
  AskedOnly steps(process_, kernel, former_, promises_);
  OwnedPart part;
  planning::Facts facts = FactsOf(kernel, steps, nullptr, part);
  const planning::Decision decision = DecideBy(facts, steps, nullptr);
  if (!decision.promises_less) {
    // What is measured when the plan is finalized may show that its pieces keep the limit alone.
    const bool only_pieces_may_fit = kernel.need_bytes > kernel.limit_bytes && !facts.share &&
                                     kernel.problem().n > 1 && steps.known().size() == 1;
    return !only_pieces_may_fit || steps.settled() ||
           !MeasuresBeforePromising(process_, *kernel.session, kernel.problem(), Api::kGraph);
  }
  if (decision.otherwise == planning::Otherwise::kPieces) return false;
  // Which substitute will be chosen may depend on measurements, so all of them must have native
  // support.
  const bool follows_plan = std::get<planning::PlanFacts>(facts.program).confirmed.has_value();
  const EngineTemplates others =
      follows_plan ? EngineTemplates{steps.Find(decision.undivided.engine)}
                   : EngineTemplates(steps.known().begin() + 1, steps.known().end());
  return std::all_of(others.begin(), others.end(),
                     [](const EngineTemplate& other) { return BecomesNative(other->notes); });
}

cudnnStatus_t GraphPlans::BehaviorNotes(cudnnBackendDescriptor_t engine,
                                        cudnnBackendAttributeType_t type, int64_t requested,
                                        int64_t* count, void* values) {
  constexpr auto kName = CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE;
  constexpr int64_t kMost = CUDNN_BEHAVIOR_NOTE_TYPE_COUNT;
  // The application's array may be as short as it was told before, so the answer never has a note
  // that the engine's own lacks.
  cudnnBackendBehaviorNote_t notes[kMost] = {};
  int64_t all = 0;
  const auto real = [&] {
    return process_.functions.cudnnBackendGetAttribute(engine, kName, type, requested, count,
                                                       values);
  };
  if (type != CUDNN_TYPE_BEHAVIOR_NOTE ||
      process_.functions.cudnnBackendGetAttribute(engine, kName, type, kMost, &all, notes) !=
          CUDNN_STATUS_SUCCESS ||
      all < 0 || all > kMost) {
    return real();
  }
  auto* const end =
      std::remove(notes, notes + all, CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API);
  if (end == notes + all) return real();
  try {
    const std::optional<DescriptorShadow> shadow = shadows_.Find(engine);
    if (!shadow) return real();
    const bool keeps = shadow->keeps_native
                           ? *shadow->keeps_native
                           : shadows_.AnswerNative(engine, KeepsNativeSupport(*shadow));
    if (keeps) return real();
  } catch (...) {
    return real();  // out of memory
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
