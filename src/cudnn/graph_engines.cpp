#include "cudnn/graph_engines.h"

#include <algorithm>
#include <array>
#include <span>

#include "convolution/partial_sums.h"
#include "cudnn/compiled_plan.h"
#include "cudnn/descriptors.h"
#include "cudnn/plan_edit.h"

namespace ucudnn::cudnn {
namespace {

// In which order a variant pack lists the operands of a convolution, each tensor once.
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
  // Puts the call's pointers into this order. Returns those of `pointers` that are used.
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
  static constexpr uint8_t kImage = 0, kFilter = 1, kOutput = 2, kFused = 3;  // and those behind

  // What is fused may read the image or the filter again.
  void Add(int64_t uid, uint8_t source) {
    if (std::find(uids_.begin(), uids_.begin() + count_, uid) != uids_.begin() + count_) return;
    uids_[count_] = uid;
    sources_[count_++] = source;
  }

  std::array<int64_t, 3 + kMostFusedOperands> uids_;
  std::array<uint8_t, 3 + kMostFusedOperands> sources_;
  size_t count_ = 0;
};

bool Accumulates(const ConvolutionProblem& problem) {
  return problem.operation == Operation::kBackwardFilter;
}

class GraphPiece : public Piece {
 public:
  GraphPiece(const Functions& functions, const GraphTemplate& original, BackendDescriptor first,
             BackendDescriptor further)
      : functions_(functions),
        type_(original.convolution.problem.type),
        w_alignment_(original.convolution.w_alignment),
        has_fused_(!original.convolution.operands.empty()),
        callers_beta_(original.callers_beta),
        order_(original.convolution),
        first_(std::move(first)),
        further_(std::move(further)) {}

  cudnnStatus_t Run(const ConvolutionCall& call, bool accumulate) const override {
    if (has_fused_ && call.fused == nullptr) return CUDNN_STATUS_BAD_PARAM;
    std::span<void* const> fused;
    if (call.fused != nullptr) fused = call.fused->pointers;
    OperandOrder::Pointers pointers;
    const auto used = order_.Arrange(call.x, call.w, call.y, fused, pointers);
    const bool adds = accumulate || (callers_beta_ && ScaleOf(call.beta, type_) != 0);
    const BackendDescriptor& plan = adds ? further_ : first_;
    if (plan.get() == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
    return ExecutePlan(functions_, call.handle, plan.get(), order_.uids(), used, call.workspace);
  }

  size_t FilterAlignment() const override {
    return static_cast<size_t>(std::max<int64_t>(kLegacyAlignment, w_alignment_));
  }

 private:
  const Functions& functions_;
  const DataType type_;
  const int64_t w_alignment_;
  const bool has_fused_, callers_beta_;
  const OperandOrder order_;
  const BackendDescriptor first_;    // with the plan's beta
  const BackendDescriptor further_;  // adds to the output; only for filter gradients, which add up
};

// One engine built for one batch, with alpha = 1.
struct Built {
  const GraphTemplate* original;
  BackendDescriptor replacing;  // beta = 0
  BackendDescriptor adding;     // beta = 1; only for filter gradients, which add up
};

class PreparedGraphs : public PreparedProblem {
 public:
  PreparedGraphs(const Functions& functions, cudnnHandle_t handle, std::vector<Built> built)
      : functions_(functions), handle_(handle), built_(std::move(built)) {}

  Result<std::vector<EngineChoice>> Engines() override {
    std::vector<EngineChoice> choices;
    for (const Built& built : built_) {
      UCUDNN_ASSIGN_OR_RETURN(size_t bytes, PlanWorkspace(functions_, built.replacing.get()));
      if (built.adding.get() != nullptr) {
        UCUDNN_ASSIGN_OR_RETURN(const size_t adding, PlanWorkspace(functions_, built.adding.get()));
        bytes = std::max(bytes, adding);
      }
      choices.push_back({built.original->convolution.engine, built.original->numeric,
                         built.original->deterministic, bytes});
    }
    return choices;
  }

  Status Run(const EngineChoice& choice, const Buffers& buffers) override {
    const auto built = std::find_if(built_.begin(), built_.end(), [&](const Built& other) {
      return other.original->convolution.engine == choice.engine;
    });
    if (built == built_.end())
      return Status::Error("'" + choice.engine.Text() + "' is not prepared");
    const BackendDescriptor& plan = buffers.accumulate ? built->adding : built->replacing;
    if (plan.get() == nullptr)
      return Status::Error("'" + choice.engine.Text() + "' does not accumulate");
    // A pointer carries no size, so the plan's own need must fit.
    UCUDNN_ASSIGN_OR_RETURN(const size_t need, PlanWorkspace(functions_, plan.get()));
    if (need > buffers.workspace_bytes) {
      return Status::Error("'" + choice.engine.Text() + "' needs " + std::to_string(need) +
                           " bytes of workspace, not " + std::to_string(buffers.workspace_bytes));
    }
    const OperandOrder order(built->original->convolution);
    OperandOrder::Pointers pointers;
    const auto used = order.Arrange(buffers.x, buffers.w, buffers.y, buffers.fused, pointers);
    return CudnnStatus(
        functions_,
        ExecutePlan(functions_, handle_, plan.get(), order.uids(), used, buffers.workspace),
        "running an engine");
  }

 private:
  const Functions& functions_;
  const cudnnHandle_t handle_;
  const std::vector<Built> built_;
};

}  // namespace

bool IsExactAs(const EngineNotes& engine, const EngineNotes& other) {
  // This note alone promises something; all others warn.
  constexpr auto kHandsOnNan = CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  if (other.Has(kHandsOnNan) && !engine.Has(kHandsOnNan)) return false;
  return std::all_of(engine.numerical.begin(), engine.numerical.end(), [&](int note) {
    const auto numeric = static_cast<cudnnBackendNumericalNote_t>(note);
    return numeric == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || numeric == kHandsOnNan ||
           other.Has(numeric);
  });
}

bool MayReplace(const GraphTemplate& other, const GraphTemplate& own) {
  if (!IsExactAs(other.notes, own.notes)) return false;
  // For fp32, tensor cores compute in TF32.
  const auto in_tf32 = [](const GraphTemplate& one) {
    return one.convolution.problem.type == DataType::kFloat &&
           one.notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  };
  if (in_tf32(other) && !in_tf32(own)) return false;
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
  GraphTemplate read;
  read.json = std::move(json);
  UCUDNN_ASSIGN_OR_RETURN(read.convolution, ReadFusedConvolution(read.json));
  UCUDNN_ASSIGN_OR_RETURN(read.notes, ReadNotes(functions, plan));
  const EngineNotes& notes = read.notes;
  read.deterministic = !notes.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (notes.Has(CUDNN_NUMERICAL_NOTE_FFT)) read.numeric = NumericClass::kFft;
  if (notes.Has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) read.numeric = NumericClass::kWinograd;
  return read;
}

Result<GraphTemplate> AtExtents(const GraphTemplate& original, const ConvolutionProblem& problem) {
  GraphTemplate at = original;
  UCUDNN_ASSIGN_OR_RETURN(at.json, WithExtents(original.json, original.convolution, problem));
  UCUDNN_ASSIGN_OR_RETURN(at.convolution, ReadFusedConvolution(at.json, &original.convolution));
  return at;
}

Result<BackendDescriptor> BuildAtBatch(const Functions& functions, const PlanDevice& device,
                                       const GraphTemplate& original, int n, double alpha,
                                       double beta) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string json,
                          EditPlan(original.json, original.convolution, {n, alpha, beta}));
  if (!original.convolution.compiled) return BuildPlan(functions, device, json);
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor built, CompilePlan(functions, device, json));
  UCUDNN_ASSIGN_OR_RETURN(const std::string says, PlanJson(functions, built.get()));
  if (says != json) return Status::Error("a compiled plan does not say what was asked for");
  return built;
}

Result<GraphTemplate> WithOtherEngine(const Functions& functions, const PlanDevice& device,
                                      const GraphTemplate& original, const EngineId& engine) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string json,
                          WithEngine(original.json, original.convolution, engine));
  const auto built = original.convolution.compiled ? CompilePlan(functions, device, json)
                                                   : BuildPlan(functions, device, json);
  UCUDNN_RETURN_IF_ERROR(built.status());
  return ReadTemplate(functions, built->get());
}

const GraphTemplate* GraphEngines::Find(const EngineId& engine) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(), [&](const auto* other) {
    return other->convolution.engine == engine;
  });
  return found == templates_.end() ? nullptr : *found;
}

Result<std::unique_ptr<PreparedProblem>> GraphEngines::Prepare(const ConvolutionProblem& problem) {
  std::vector<Built> all;
  Status last = Status::Error("there is no plan for it");
  for (const GraphTemplate* original : templates_) {
    if (KernelFamily(original->convolution.problem) != KernelFamily(problem)) {
      return Status::Error("a plan of another operation graph: " + Describe(problem));
    }
    Built built = {original, {}, {}};
    auto replacing = BuildAtBatch(functions_, device_, *original, problem.n, 1, 0);
    if (!replacing.ok()) {
      last = replacing.status();
      continue;
    }
    built.replacing = std::move(*replacing);
    if (Accumulates(problem)) {
      auto adding = BuildAtBatch(functions_, device_, *original, problem.n, 1, 1);
      if (!adding.ok()) {
        last = adding.status();
        continue;
      }
      built.adding = std::move(*adding);
    }
    all.push_back(std::move(built));
  }
  if (all.empty()) return last;
  return std::unique_ptr<PreparedProblem>(
      new PreparedGraphs(functions_, device_.handle, std::move(all)));
}

Result<std::unique_ptr<Piece>> GraphEngines::MakePiece(const ConvolutionProblem& problem,
                                                       const MicroConfiguration& micro) {
  const GraphTemplate* const original = Find(micro.engine);
  if (original == nullptr) return Status::Error("'" + micro.engine.Text() + "' is no plan at hand");
  if (KernelFamily(original->convolution.problem) != KernelFamily(problem)) {
    return Status::Error("a plan of another operation graph: " + Describe(problem));
  }
  const FusedConvolution& convolution = original->convolution;
  const bool partial = IsPartial(problem, micro.micro_batch);
  const bool adds = Accumulates(problem) && !partial &&
                    (original->callers_beta || micro.micro_batch != problem.n);
  const bool lies_right =
      convolution.w_alignment > 0 && int64_t{kPartialSumAlignment} % convolution.w_alignment == 0;
  if (partial && !lies_right) {
    return Status::Error("a partial is on " + std::to_string(kPartialSumAlignment) +
                         " bytes, not on " + std::to_string(convolution.w_alignment));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor first,
      BuildAtBatch(functions_, device_, *original, micro.micro_batch,
                   partial ? 1 : convolution.alpha, partial ? 0 : convolution.beta));
  UCUDNN_ASSIGN_OR_RETURN(size_t bytes, PlanWorkspace(functions_, first.get()));
  BackendDescriptor further;
  if (adds) {
    UCUDNN_ASSIGN_OR_RETURN(further, BuildAtBatch(functions_, device_, *original, micro.micro_batch,
                                                  convolution.alpha, 1));
    UCUDNN_ASSIGN_OR_RETURN(const size_t adding, PlanWorkspace(functions_, further.get()));
    bytes = std::max(bytes, adding);
  }
  // A pointer carries no size: a plan that needs more than was measured would write beyond it.
  if (bytes > micro.workspace_bytes) {
    return Status::Error(micro.engine.Text() + " needs " + std::to_string(bytes) + " bytes for " +
                         std::to_string(micro.micro_batch) + " images, not " +
                         std::to_string(micro.workspace_bytes));
  }
  return std::unique_ptr<Piece>(
      new GraphPiece(functions_, *original, std::move(first), std::move(further)));
}

}  // namespace ucudnn::cudnn
