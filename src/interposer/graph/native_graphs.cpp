// Makes native CUDA graphs of execution plans (cudnnBackendPopulateCudaGraph and
// cudnnBackendUpdateCudaGraph). A divided plan becomes a row of child graphs, one for each piece.
#include <algorithm>

#include "cuda/child_graphs.h"
#include "interposer/graph/graph_plans.h"
#include "planning/decision/unplanned_call.h"

namespace ucudnn::interposer {
namespace {

// Answers the questions of a decision that is only asked for, not carried out. Measures, compares
// and builds nothing. Assumes that every comparison succeeds.
class AskedOnly : public GraphAnswers {
 public:
  using GraphAnswers::Answer;
  using GraphAnswers::GraphAnswers;
  planning::Rows Answer(const planning::Measure& question) override {
    planning::Rows rows = GraphAnswers::Answer(question);
    settled_ &= rows.settled;
    return rows;
  }
  planning::Tilings Answer(const planning::FindTilings& question) override {
    planning::Tilings tilings = GraphAnswers::Answer(question);
    settled_ &= tilings.settled;
    return tilings;
  }
  planning::Trust Answer(const planning::Compare&) override { return {}; }
  planning::BuildOutcome Answer(const planning::Build&) override { return {}; }

  // Returns whether all measurements that were asked for are available.
  bool settled() const { return settled_; }

 private:
  bool settled_ = true;
};

// Returns whether a native graph is made from the state's pieces. The pieces need not have run
// outside a capture before, because the graph's nodes are not calls on a captured stream.
bool MakesPieces(const PlanState& state) {
  planning::Obstacles obstacles;
  obstacles.failed = *state.failed;
  // A graph may be launched at any time, even while another kernel uses ucudnn's workspace. So
  // pieces that use that workspace cannot become a graph.
  obstacles.no_workspace = state.owned.bytes > 0;
  return state.schedule != nullptr && state.schedule->has_pieces() &&
         RunsPieces(state.decision, obstacles);
}

// Calls take(step, call) for each step, where `call` is the call of the step's part, until `take`
// fails. Returns the last status.
template <typename Take>
cudnnStatus_t ForEachPiece(const execution::Schedule& schedule, const cudnn::ConvolutionCall& call,
                           Take take) {
  execution::Schedule::Work work(schedule, call, nullptr, call.workspace);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  schedule.ForEach([&](const execution::Step& step) {
    status = take(step, work.CallOf(*step.part));
    return status == CUDNN_STATUS_SUCCESS;
  });
  return status;
}

}  // namespace

std::optional<cudnn::ConvolutionCall> GraphPlans::NativeCall(cudnnHandle_t handle,
                                                             const PlanState& state,
                                                             cudnnBackendDescriptor_t pack,
                                                             cudnn::FusedPointers& fused) {
  if (!MakesPieces(state)) return std::nullopt;
  // Sums of 16-bit gradients and copies of tiles are steps between the pieces, and no plan makes a
  // native graph of such a step.
  if (state.schedule->sums_partials() || state.schedule->packs_tiles()) return std::nullopt;
  const VariantPack* const operands = FindPack(pack);
  const Session* const session = sessions_.Of(handle);
  if (operands == nullptr || !operands->plain || session == nullptr ||
      session->context() != state.context) {
    return std::nullopt;
  }
  if (operands->workspace == nullptr && state.decision.configuration.WorkspaceBytes() > 0) {
    return std::nullopt;
  }
  // If the pack lacks an operand, CallOf returns none, and the real library then refuses the pack.
  return CallOf(handle, state, *operands, fused);
}

bool GraphPlans::PopulatePieces(cudnnHandle_t handle, PlanState& state,
                                cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  cudnn::FusedPointers fused;
  const auto call = NativeCall(handle, state, pack, fused);
  if (!call) return false;
  // The application's graph is changed only after every piece has a graph of its own.
  std::vector<cuda::OwnedGraph> children;
  const auto populate = [&](const execution::Step& step, const cudnn::ConvolutionCall& part) {
    auto child = cuda::NewGraph();
    if (!child.ok()) return CUDNN_STATUS_NOT_SUPPORTED;
    children.push_back(std::move(*child));
    return step.part->piece->Populate(part, step.adds, children.back().get());
  };
  {
    const MutexLock lock(*state.executing);
    if (ForEachPiece(*state.schedule, *call, populate) != CUDNN_STATUS_SUCCESS) return false;
  }
  PlanState* chosen = nullptr;
  if (!state.native->compare_exchange_strong(chosen, &state) && chosen != &state) {
    return PopulatePieces(handle, *chosen, pack, graph);  // another thread was first
  }
  return cuda::AddInARow(graph, children).ok();
}

cudnnStatus_t GraphPlans::PopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (splitter_.splits() && IsRefusedNative(plan)) return CUDNN_STATUS_NOT_SUPPORTED;
  PlanState* const state = FindPlan(plan);
  if (state != nullptr) {
    Count(SessionOf(handle, *state), handle, *state);
    if (PopulatePieces(handle, state->Native(), pack, graph)) return CUDNN_STATUS_SUCCESS;
  }
  return PopulateAsOne(handle, plan, pack, graph);
}

cudnnStatus_t GraphPlans::PopulateUndivided(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack,
                                            cudaGraph_t graph) noexcept {
  if (splitter_.splits()) {
    return splitter_.Fail("out of memory in a split call");
  }
  return PopulateAsOne(handle, plan, pack, graph);
}

cudnnStatus_t GraphPlans::PopulateAsOne(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                        cudnnBackendDescriptor_t pack, cudaGraph_t graph) noexcept {
  PlanState* const state = FindPlan(plan);
  if (state != nullptr) state->CountUndivided();
  return WithUndivided(state, plan, [&](cudnnBackendDescriptor_t whole) {
    return functions_.cudnnBackendPopulateCudaGraph(handle, whole, pack, graph);
  });
}

cudnnStatus_t GraphPlans::UpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  if (splitter_.splits() && IsRefusedNative(plan)) return CUDNN_STATUS_NOT_SUPPORTED;
  PlanState* const state = FindPlan(plan);
  const std::vector<CUgraph> children =
      state == nullptr ? std::vector<CUgraph>() : cuda::ChildrenInARow(graph);
  PlanState* const native = children.empty() ? nullptr : state->native->load();
  if (native != nullptr) {
    cudnn::FusedPointers fused;
    const auto call = NativeCall(handle, *native, pack, fused);
    const bool has_pieces =
        call && children.size() == static_cast<size_t>(native->decision.configuration.Pieces());
    if (has_pieces) {
      const MutexLock lock(*native->executing);
      return ForEachPiece(*native->schedule, *call, [&](const auto& step, const auto& part) {
        return step.part->piece->Update(part, step.adds, children[step.part->number]);
      });
    }
  }
  return WithUndivided(state, plan, [&](cudnnBackendDescriptor_t whole) {
    return functions_.cudnnBackendUpdateCudaGraph(handle, whole, pack, graph);
  });
}

bool GraphPlans::KeepsNativeSupport(const DescriptorShadow& engine) {
  if (splitter_.splits() && !engine.is_pointwise) return false;
  if (engine.handle == nullptr || engine.configuration == nullptr || options_.mode != Mode::kOn) {
    return true;
  }
  GraphKernel kernel;
  kernel.handle = engine.handle;
  kernel.session = sessions_.Of(engine.handle);
  if (kernel.session == nullptr) return true;
  kernel.limit_bytes = rules_.UserLimit(*kernel.session);
  if (kernel.limit_bytes == kNoLimit && options_.workspace_plan.empty()) return true;
  const LentConfigurations own_configuration(shadows_, functions_,
                                             {{engine.configuration, engine.configuration_number}});
  if (own_configuration.all().empty()) return true;
  // The library's own answer is right if the library refuses the configuration, or if ucudnn does
  // not change plans of this configuration.
  const auto plan = PlanOf(*kernel.session, engine.configuration, engine.handle);
  const auto need =
      plan.ok() ? cudnn::PlanWorkspace(functions_, plan->get()) : Result<size_t>(plan.status());
  if (!need.ok() || (*need <= kernel.limit_bytes && options_.workspace_plan.empty())) return true;
  auto own = cudnn::ReadTemplate(functions_, plan->get());
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
  AskedOnly steps(kernels_, rules_, reporter_, kernel, former_, promises_);
  OwnedPart part;
  planning::Facts facts = FactsOf(kernel, steps, nullptr, part);
  const planning::Decision decision = DecideBy(facts, steps, nullptr);
  if (!decision.promises_less) {
    // Measurements that are missing now may be made when the plan is finalized. They may show that
    // only pieces of the plan fit the limit.
    const bool only_pieces_may_fit =
        kernel.need_bytes > kernel.limit_bytes && !facts.share &&
        (kernel.problem().n > 1 || facts.tiles != planning::TileUse::kNone) &&
        steps.known().size() == 1;
    return !only_pieces_may_fit || steps.settled() ||
           !rules_.MeasuresBeforePromising(*kernel.session, kernel.problem(), Api::kGraph);
  }
  if (decision.fallback == planning::FallbackKind::kPieces) return false;
  // Measurements may decide which substitute is chosen, so all candidates must have native support.
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
  // The application's array may be only as long as the number of notes that it was told before. So
  // the answer never adds a note to the engine's own notes.
  cudnnBackendBehaviorNote_t notes[kMost] = {};
  int64_t all = 0;
  const auto real = [&] {
    return functions_.cudnnBackendGetAttribute(engine, kName, type, requested, count, values);
  };
  if (type != CUDNN_TYPE_BEHAVIOR_NOTE ||
      functions_.cudnnBackendGetAttribute(engine, kName, type, kMost, &all, notes) !=
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
