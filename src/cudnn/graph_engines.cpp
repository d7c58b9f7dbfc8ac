#include "cudnn/graph_engines.h"

#include <algorithm>
#include <array>
#include <span>

#include "cudnn/compiled_plan.h"
#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {
namespace {

// The order in which a variant pack lists the operands of a convolution. A tensor that has several
// uses is listed once.
class OperandOrder {
 public:
  explicit OperandOrder(const FusedConvolution& convolution) {
    Add(convolution.x_uid, kImage);
    Add(convolution.w_uid, kFilter);
    Add(convolution.y_uid, kOutput);
    for (size_t i = 0; i < convolution.operands.size(); ++i) {
      Add(convolution.operands[i].uid, static_cast<uint8_t>(kFused + i));
    }
  }

  std::span<const int64_t> uids() const { return {uids_.data(), count_}; }

  using Pointers = std::array<void*, 3 + kMostFusedOperands>;
  // Writes the call's pointers to `pointers` in the order of uids(). Returns the part of `pointers`
  // that is used.
  std::span<void* const> Arrange(void* x, void* w, void* y, std::span<void* const> fused,
                                 Pointers& pointers) const {
    const std::array<void*, kFused> own = {x, w, y};
    for (size_t i = 0; i < count_; ++i) {
      const uint8_t source = sources_[i];
      pointers[i] = source < kFused ? own[source] : fused[source - kFused];
    }
    return {pointers.data(), count_};
  }

 private:
  // The meanings of an entry of sources_. Fused operand i has the number kFused + i.
  static constexpr uint8_t kImage = 0, kFilter = 1, kOutput = 2, kFused = 3;

  // Adds a tensor, unless the list has it already: a fused operation may read the image or the
  // filter again.
  void Add(int64_t uid, uint8_t source) {
    if (std::find(uids_.begin(), uids_.begin() + count_, uid) != uids_.begin() + count_) return;
    uids_[count_] = uid;
    sources_[count_++] = source;
  }

  std::array<int64_t, 3 + kMostFusedOperands> uids_;
  std::array<uint8_t, 3 + kMostFusedOperands> sources_;
  size_t count_ = 0;
};

class GraphPiece : public Piece {
 public:
  GraphPiece(const Functions& functions, const GraphTemplate& original, BackendDescriptor first,
             BackendDescriptor further, size_t workspace_bytes)
      : functions_(functions),
        type_(original.convolution.problem.type),
        w_alignment_(original.convolution.w_alignment),
        has_fused_(!original.convolution.operands.empty()),
        callers_beta_(original.callers_beta),
        order_(original.convolution),
        first_(std::move(first)),
        further_(std::move(further)),
        workspace_bytes_(workspace_bytes) {}

  cudnnStatus_t Run(const ConvolutionCall& call, bool adds) const override {
    return WithPlan(call, adds, [&](auto plan, auto pack) {
      return functions_.cudnnBackendExecute(call.handle, plan, pack);
    });
  }
  cudnnStatus_t Populate(const ConvolutionCall& call, bool adds, cudaGraph_t graph) const override {
    return WithPlan(call, adds, [&](auto plan, auto pack) {
      return functions_.cudnnBackendPopulateCudaGraph(call.handle, plan, pack, graph);
    });
  }
  cudnnStatus_t Update(const ConvolutionCall& call, bool adds, cudaGraph_t graph) const override {
    return WithPlan(call, adds, [&](auto plan, auto pack) {
      return functions_.cudnnBackendUpdateCudaGraph(call.handle, plan, pack, graph);
    });
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  size_t FilterAlignment() const override { return static_cast<size_t>(w_alignment_); }

 private:
  // Calls use(plan, pack) with the plan for the call (first_ or further_) and a variant pack of its
  // operands.
  template <typename Use>
  cudnnStatus_t WithPlan(const ConvolutionCall& call, bool adds, Use use) const {
    if (has_fused_ && call.fused == nullptr) return CUDNN_STATUS_BAD_PARAM;
    std::span<void* const> fused;
    if (call.fused != nullptr) fused = call.fused->pointers;
    OperandOrder::Pointers pointers;
    const auto used = order_.Arrange(call.x, call.w, call.y, fused, pointers);
    const bool to_output = adds || (callers_beta_ && ScaleOf(call.beta, type_) != 0);
    const BackendDescriptor& plan = to_output ? further_ : first_;
    if (plan.get() == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
    return WithPack(functions_, {order_.uids(), used, call.workspace},
                    [&](cudnnBackendDescriptor_t pack) { return use(plan.get(), pack); });
  }

  const Functions& functions_;
  const DataType type_;
  const int64_t w_alignment_;
  const bool has_fused_, callers_beta_;
  const OperandOrder order_;
  const BackendDescriptor first_;    // has the plan's beta
  const BackendDescriptor further_;  // beta is 1; exists only for gradients of the filter
  const size_t workspace_bytes_;     // enough for both plans
};

// Makes a template from a finalized plan and its `text` (the JSON and what was read from it).
Result<GraphTemplate> TemplateOf(const Functions& functions, cudnnBackendDescriptor_t plan,
                                 EditedPlan text) {
  GraphTemplate read;
  read.json = std::move(text.json);
  read.convolution = std::move(text.convolution);
  UCUDNN_ASSIGN_OR_RETURN(read.notes, ReadNotes(functions, plan));
  const EngineNotes& notes = read.notes;
  read.deterministic = !notes.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (notes.Has(CUDNN_NUMERICAL_NOTE_FFT)) read.numeric = NumericClass::kFft;
  if (notes.Has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) read.numeric = NumericClass::kWinograd;
  return read;
}

}  // namespace

bool RoundsNoWorse(const EngineNotes& engine, const EngineNotes& other) {
  return std::all_of(engine.numerical.begin(), engine.numerical.end(), [&](int note) {
    const auto numeric = static_cast<cudnnBackendNumericalNote_t>(note);
    return numeric == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
           numeric == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP || other.Has(numeric);
  });
}

bool IsExactAs(const EngineNotes& engine, const EngineNotes& other) {
  // This note promises something, so `engine` must have the note if `other` has it. All other
  // numerical notes are warnings.
  constexpr auto kHandsOnNan = CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  if (other.Has(kHandsOnNan) && !engine.Has(kHandsOnNan)) return false;
  return RoundsNoWorse(engine, other);
}

bool FallsToTf32(const EngineNotes& other, const GraphTemplate& own) {
  // An engine that uses tensor cores on fp32 tensors computes in TF32.
  return own.convolution.problem.type == DataType::kFloat &&
         other.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
         !own.notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool MayReplace(const GraphTemplate& other, const GraphTemplate& own) {
  if (!IsExactAs(other.notes, own.notes) || FallsToTf32(other.notes, own)) return false;
  FusedConvolution same = other.convolution;
  same.engine = own.convolution.engine;
  same.compiled = own.convolution.compiled;
  return same == own.convolution;
}

Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan) {
  UCUDNN_ASSIGN_OR_RETURN(std::string json, PlanJson(functions, plan));
  return ReadTemplate(functions, plan, std::move(json));
}

Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan,
                                   std::string json) {
  UCUDNN_ASSIGN_OR_RETURN(FusedConvolution convolution, ReadFusedConvolution(json));
  return TemplateOf(functions, plan, {std::move(json), std::move(convolution)});
}

Result<BackendDescriptor> BuildPart(const Functions& functions, const PlanDevice& device,
                                    const GraphTemplate& original, const PlanEdit& edit) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string json,
                          EditPlan(original.json, original.convolution, edit));
  if (!original.convolution.compiled) return BuildPlan(functions, device, json);
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor built, CompilePlan(functions, device, json));
  UCUDNN_ASSIGN_OR_RETURN(const std::string says, PlanJson(functions, built.get()));
  if (says != json) return Status::Error("a compiled plan does not say what was asked for");
  return built;
}

Result<GraphTemplate> WithOtherEngine(const Functions& functions, const PlanDevice& device,
                                      const GraphTemplate& original, const EngineId& engine) {
  UCUDNN_ASSIGN_OR_RETURN(EditedPlan edited,
                          WithEngine(original.json, original.convolution, engine));
  const auto built = original.convolution.compiled ? CompilePlan(functions, device, edited.json)
                                                   : BuildPlan(functions, device, edited.json);
  UCUDNN_RETURN_IF_ERROR(built.status());
  UCUDNN_ASSIGN_OR_RETURN(std::string says, PlanJson(functions, built->get()));
  if (says == edited.json) return TemplateOf(functions, built->get(), std::move(edited));
  return ReadTemplate(functions, built->get(), std::move(says));
}

const GraphTemplate* GraphEngines::Find(const EngineId& engine) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(), [&](const auto* other) {
    return other->convolution.engine == engine;
  });
  return found == templates_.end() ? nullptr : *found;
}

Result<std::unique_ptr<Piece>> GraphEngines::Build(const GraphTemplate& original,
                                                   const ConvolutionProblem& part,
                                                   const PieceScales& scales) const {
  const FusedConvolution& convolution = original.convolution;
  const double alpha = scales.are_plain ? 1 : convolution.alpha;
  const double beta = scales.are_plain ? 0 : convolution.beta;
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor first,
                          BuildPart(functions_, device_, original, {part, alpha, beta}));
  UCUDNN_ASSIGN_OR_RETURN(size_t bytes, PlanWorkspace(functions_, first.get()));
  const bool callers_beta = original.callers_beta && !scales.are_plain;
  BackendDescriptor further;
  if (part.operation == Operation::kBackwardFilter && (scales.may_add || callers_beta)) {
    UCUDNN_ASSIGN_OR_RETURN(further, BuildPart(functions_, device_, original, {part, alpha, 1}));
    UCUDNN_ASSIGN_OR_RETURN(const size_t adding, PlanWorkspace(functions_, further.get()));
    bytes = std::max(bytes, adding);
  }
  return std::unique_ptr<Piece>(
      new GraphPiece(functions_, original, std::move(first), std::move(further), bytes));
}

Result<std::vector<ListedEngine>> GraphEngines::List(const ConvolutionProblem& part) {
  std::vector<ListedEngine> all;
  Status last = Status::Error("there is no plan for it");
  for (const GraphTemplate* original : templates_) {
    auto piece = Build(*original, part, {.are_plain = true, .may_add = true});
    if (!piece.ok()) {
      last = piece.status();
      continue;
    }
    EngineChoice choice{original->convolution.engine, original->numeric, original->deterministic,
                        (*piece)->workspace_bytes()};
    all.push_back({std::move(choice), std::move(*piece)});
  }
  if (all.empty()) return last;
  return all;
}

Result<std::unique_ptr<Piece>> GraphEngines::MakePiece(const ConvolutionProblem& part,
                                                       const EngineId& engine,
                                                       const PieceScales& scales,
                                                       size_t workspace_bytes) {
  const GraphTemplate* const original = Find(engine);
  if (original == nullptr) return Status::Error("'" + engine.Text() + "' is no plan at hand");
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<Piece> piece, Build(*original, part, scales));
  // A plan gets only the address of the workspace, so a plan that needs more than `workspace_bytes`
  // would write beyond the workspace's end.
  if (piece->workspace_bytes() > workspace_bytes) {
    return Status::Error(engine.Text() + " needs " + std::to_string(piece->workspace_bytes()) +
                         " bytes for " + std::to_string(part.n) + " images, not " +
                         std::to_string(workspace_bytes));
  }
  return piece;
}

}  // namespace ucudnn::cudnn
