#include "tuning/verify.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <variant>
#include <vector>

#include "base/byte_size.h"
#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "execution/schedule.h"
#include "tuning/guarded_buffer.h"
#include "tuning/test_operands.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

// Outputs and workspace are filled with this byte before an engine runs. Elements that consist of
// this byte are NaN in every type. So the comparison fails if an engine reads an element before it
// writes it, or never writes it.
constexpr unsigned char kUnwritten = 0xff;

// One of the two computations that are compared.
struct Side {
  std::string name;  // for messages
  Division division;
  std::unique_ptr<execution::Schedule> schedule = nullptr;  // made when this side is computed first

  const std::vector<Run>& runs() const { return division.configuration.runs; }
  bool is_divided() const { return division.configuration.Pieces() > 1; }
  int FirstPieceOf(size_t run) const {
    int pieces = 0;
    for (size_t at = 0; at < run; ++at) pieces += runs()[at].count;
    return pieces;
  }
};

class Verifier {
 public:
  Verifier(const Device& device, const ConvolutionProblem& problem, Side undivided, Side plan,
           const MeasureLimits& budget, const EngineScope& scope)
      : problem_(problem),
        budget_(budget),
        scope_(scope),
        fused_(FusedIn(scope)),
        functions_(*device.functions),
        driver_(*device.driver),
        handle_(driver_, *device.functions),
        descriptors_(functions_),
        undivided_(std::move(undivided)),
        plan_(std::move(plan)),
        result_(ResultTensor(problem)),
        x_(handle_.memory(), driver_),
        w_(handle_.memory(), driver_),
        y_(handle_.memory(), driver_),
        other_(handle_.memory(), driver_),
        sum_(handle_.memory(), driver_),
        workspace_(handle_.memory(), driver_) {}

  ~Verifier() { handle_.Finish(); }

  Verification Verify() {
    if (Status status = Prepare(); !status.ok()) {
      return {ComparisonResult::kNotCompared, status.message(), lacks_memory_};
    }
    if (auto outcome = Compute(undivided_, Output(), 0)) return *outcome;
    // If the pieces of the plan add up, the first piece of a pass replaces the output, and the
    // others add to it. In each pass the first piece is of another run. So an engine of every run
    // both replaces and adds.
    const size_t passes = PlanAddsUp() ? plan_.runs().size() : 1;
    for (size_t first = 0; first < passes; ++first) {
      if (auto outcome = Compute(plan_, other_, first)) return *outcome;
      const Verification compared = Compare();
      if (compared.result != ComparisonResult::kEqual) return compared;
    }
    return {ComparisonResult::kEqual, ""};
  }

 private:
  static Verification Unknown(const Status& status) {
    return {ComparisonResult::kNotCompared, status.message()};
  }
  Status InTime() const {
    return Clock::now() < budget_.deadline ? Status::Ok()
                                           : Status::Error("verifying takes too long");
  }
  CUstream stream() { return handle_.stream().get(); }
  GuardedBuffer& Output() {
    switch (problem_.operation) {
      case Operation::kForward:
        return y_;
      case Operation::kBackwardData:
        return x_;
      case Operation::kBackwardFilter:
        break;
    }
    return w_;
  }
  GuardedBuffer& DenseInput() { return problem_.operation == Operation::kBackwardData ? y_ : x_; }
  GuardedBuffer& SparseInput() {
    return problem_.operation == Operation::kBackwardFilter ? y_ : w_;
  }

  Result<NumericClass> CoarsestOf() const {
    std::vector<Run> runs = undivided_.runs();
    runs.insert(runs.end(), plan_.runs().begin(), plan_.runs().end());
    return CoarsestIn(scope_, problem_.operation, runs);
  }

  Status DeriveTolerance() {
    if (!ImageTensor(problem_).IsNested() || !OutputTensor(problem_).IsNested()) {
      return Status::Error("elements of a tensor share memory");
    }
    UCUDNN_ASSIGN_OR_RETURN(const NumericClass numeric, CoarsestOf());
    const int64_t terms = TestTerms(problem_) * (twice_ ? 2 : 1);
    UCUDNN_ASSIGN_OR_RETURN(tolerance_, DiscriminatingTolerance(problem_, numeric, terms));
    return Status::Ok();
  }

  Status Prepare() {
    UCUDNN_RETURN_IF_ERROR(plan_.division.CheckCovers(problem_));
    UCUDNN_RETURN_IF_ERROR(InTime());
    twice_ = PlanAddsUp() && !plan_.is_divided();
    size_t workspace = undivided_.division.configuration.WorkspaceBytes();
    for (const Run& run : plan_.runs()) {
      workspace = std::max(workspace, EngineBytes(problem_, run.micro));
    }
    const bool sums = plan_.division.AddsUp(problem_) && SumsPartials(problem_);
    const size_t sum = sums ? PartialSumBytes(problem_) : 0;
    std::vector<std::pair<GuardedBuffer*, size_t>> buffers = {{&x_, ImageTensor(problem_).Bytes()},
                                                              {&w_, FilterTensor(problem_).Bytes()},
                                                              {&y_, OutputTensor(problem_).Bytes()},
                                                              {&other_, result_.Bytes()},
                                                              {&sum_, sum},
                                                              {&workspace_, workspace}};
    for (const cudnn::FusedOperand& operand : fused_) {
      buffers.emplace_back(&read_.emplace_back(handle_.memory(), driver_),
                           operand.Bytes(problem_.n));
    }
    size_t needed = 0;
    for (const auto& [buffer, bytes] : buffers) needed += GuardedBuffer::Footprint(bytes);
    lacks_memory_ = needed > budget_.memory_bytes;
    if (lacks_memory_) {
      return Status::Error("needs " + FormatByteSize(needed) + " of device memory, more than " +
                           FormatByteSize(budget_.memory_bytes));
    }
    UCUDNN_RETURN_IF_ERROR(DeriveTolerance());
    operands_ = MakeTestOperands(problem_);
    UCUDNN_RETURN_IF_ERROR(handle_.Create());
    engines_ = MakeEngines(scope_, functions_, handle_.get());
    if (!std::holds_alternative<GraphScope>(scope_)) {
      UCUDNN_RETURN_IF_ERROR(descriptors_.Create(problem_));
    }
    for (const auto& [buffer, bytes] : buffers) {
      UCUDNN_RETURN_IF_ERROR(buffer->Allocate(bytes));
      UCUDNN_RETURN_IF_ERROR(buffer->Guard(bytes, stream()));
    }
    UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operands_.dense, DenseInput().address()));
    UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operands_.sparse, SparseInput().address()));
    read_contents_.reserve(fused_.size());
    pointers_.operands = fused_;
    for (size_t i = 0; i < fused_.size(); ++i) {
      read_contents_.push_back(MakeFusedOperand(fused_[i].type, read_[i].size(), i));
      UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), read_contents_.back(), read_[i].address()));
      pointers_.pointers[i] = read_[i].data();
    }
    return handle_.stream().Synchronize();
  }

  // Returns whether pieces of the plan may add to the output. Both replacing and adding must then
  // be compared, because they may run different engines.
  bool PlanAddsUp() const {
    return problem_.operation == Operation::kBackwardFilter && !SumsPartials(problem_) &&
           !plan_.runs().empty();
  }

  // Computes `side` into `output`, beginning with the first piece of its run number `first`.
  // Returns none if nothing went wrong, otherwise the result.
  std::optional<Verification> Compute(Side& side, GuardedBuffer& output, size_t first) {
    if (Status status = output.Fill(kUnwritten, stream()); !status.ok()) return Unknown(status);
    if (side.schedule == nullptr) {
      auto made = execution::Schedule::Make(*engines_, {problem_,
                                                        side.division,
                                                        {},
                                                        fused_,
                                                        {.are_plain = true, .may_add = twice_},
                                                        {&driver_, &functions_}});
      if (!made.ok()) return Unknown(Status::Error(side.name + ": " + made.message()));
      side.schedule = std::move(*made);
    }
    if (side.schedule->sums_partials()) {
      if (Status status = sum_.Fill(kUnwritten, stream()); !status.ok()) return Unknown(status);
    }
    const cudnn::ConvolutionCall call = CallInto(output);
    std::optional<Verification> outcome;
    side.schedule->ForEach(
        [&](execution::Step step) {
          outcome = Take(side, step, call);
          if (outcome || !twice_) return !outcome;
          // With twice_, an undivided gradient is added to itself.
          step.adds = true;
          outcome = Take(side, step, call);
          return !outcome;
        },
        static_cast<size_t>(side.FirstPieceOf(first)));
    return outcome;
  }

  // Returns the call of the whole problem that writes its result to `output`.
  cudnn::ConvolutionCall CallInto(GuardedBuffer& output) {
    const auto place = [&](GuardedBuffer& own) {
      return &own == &Output() ? output.data() : own.data();
    };
    cudnn::ConvolutionCall call = handle_.CallOf(problem_);
    call.descriptors = descriptors_.get();
    call.x = place(x_);
    call.w = place(w_);
    call.y = place(y_);
    call.fused = &pointers_;
    return call;
  }

  // Runs one step. A piece gets exactly the workspace that it was promised. Returns none if nothing
  // went wrong, otherwise the result.
  std::optional<Verification> Take(const Side& side, const execution::Step& step,
                                   const cudnn::ConvolutionCall& call) {
    using Kind = execution::Step::Kind;
    const bool is_sum = step.kind == Kind::kSum || step.kind == Kind::kStore;
    std::string who = "the sum of partials of " + side.name;
    size_t bytes = 0;
    Status status;
    if (!is_sum) {
      if (status = InTime(); !status.ok()) return Unknown(status);
      const MicroConfiguration& micro = side.runs()[step.part->run].micro;
      who = side.name + " by " + EngineName(problem_.operation, micro.engine);
      if (side.is_divided()) who = "piece " + std::to_string(step.part->number) + " of " + who;
      bytes = EngineBytes(problem_, micro);
      const bool packs = step.part->packing != nullptr;
      if (step.kind == (packs ? Kind::kPack : Kind::kPiece)) {
        status = workspace_.Fill(kUnwritten, stream());
        if (status.ok()) status = workspace_.Guard(bytes, stream());
      }
    }
    if (status.ok()) {
      execution::Schedule::Work work(*side.schedule, call, sum_.data(),
                                     bytes > 0 ? workspace_.data() : nullptr);
      status = cudnn::CudnnStatus(functions_, work.Enqueue(step),
                                  is_sum                      ? "summing partials"
                                  : step.kind == Kind::kPiece ? "running an engine"
                                                              : "copying a tile");
    }
    if (!status.ok())
      return Verification{ComparisonResult::kNotCompared, who + ": " + status.message()};
    return Trespass(who);
  }

  // Looks for writes just outside each buffer, after `who` has run. Returns none if nothing was
  // written there, otherwise the result.
  std::optional<Verification> Trespass(const std::string& who) {
    std::vector<std::pair<GuardedBuffer*, const char*>> watched = {{&x_, "the image"},
                                                                   {&w_, "the filter"},
                                                                   {&y_, "the output"},
                                                                   {&other_, "the result"},
                                                                   {&sum_, "the sum of partials"},
                                                                   {&workspace_, "its workspace"}};
    for (GuardedBuffer& buffer : read_) watched.emplace_back(&buffer, "a fused operand");
    for (const auto& [buffer, name] : watched) {
      const Result<const char*> damage = buffer->Damage(stream());
      if (!damage.ok()) return Unknown(damage.status());
      if (*damage != nullptr) {
        return Verification{ComparisonResult::kTrespassed, who + " wrote " + *damage + " " + name};
      }
    }
    return std::nullopt;
  }

  Verification Compare() {
    std::vector<std::pair<GuardedBuffer*, const OperandPattern*>> inputs = {
        {&DenseInput(), &operands_.dense}, {&SparseInput(), &operands_.sparse}};
    for (size_t i = 0; i < read_.size(); ++i) inputs.emplace_back(&read_[i], &read_contents_[i]);
    for (const auto& [buffer, operand] : inputs) {
      const Result<bool> unchanged =
          IsUnchanged(driver_, stream(), *operand, buffer->address(), budget_.deadline);
      if (!unchanged.ok()) return Unknown(unchanged.status());
      if (!*unchanged) return {ComparisonResult::kTrespassed, "an input was changed"};
    }
    const Result<Differences> compared =
        CompareOnDevice(driver_, stream(), {result_, tolerance_, std::byte{kUnwritten}},
                        other_.address(), Output().address(), budget_.deadline);
    if (!compared.ok()) return Unknown(compared.status());
    if (compared->count > 0)
      return {ComparisonResult::kDifferent, Tell(result_, *compared, tolerance_, Whose(*compared))};
    if (compared->gap) {
      return {ComparisonResult::kTrespassed, plan_.name + " wrote byte " +
                                                 std::to_string(*compared->gap) +
                                                 " of the output, between its elements"};
    }
    return {ComparisonResult::kEqual, ""};
  }

  // Returns the name of the piece that computed the element with the largest difference. Returns an
  // empty text for gradients of the filter, to which all pieces contribute.
  std::string Whose(const Differences& differences) const {
    if (problem_.operation == Operation::kBackwardFilter) return "";
    const auto position = result_.Position(differences.offset);
    if (plan_.division.tiles != nullptr) return WhoseTile(*plan_.division.tiles, position);
    const int64_t image = position[0];
    int64_t begin = 0, piece = 0;
    for (const Run& run : plan_.runs()) {
      const int64_t end = begin + int64_t{run.micro.micro_batch} * run.count;
      if (image < end) {
        piece += (image - begin) / run.micro.micro_batch;
        return " of piece " + std::to_string(piece) + " by " +
               EngineName(problem_.operation, run.micro.engine);
      }
      begin = end;
      piece += run.count;
    }
    return "";
  }

  std::string WhoseTile(const Tiles& tiles, const TensorExtents& position) const {
    for (size_t i = 0; i < tiles.tiles.size(); ++i) {
      const Tile& tile = tiles.tiles[i];
      const Box& box = problem_.operation == Operation::kForward ? tile.y : tile.x;
      bool holds = true;
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        holds &= box[axis].begin <= position[axis] && position[axis] < box[axis].end;
      }
      if (!holds) continue;
      return " of piece " + std::to_string(i) + " by " +
             EngineName(problem_.operation, plan_.runs()[tile.kind].micro.engine);
    }
    return "";
  }

  const ConvolutionProblem problem_;
  const MeasureLimits budget_;
  const EngineScope& scope_;
  const FusedOperands fused_;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  TuningHandle handle_;
  cudnn::OwnedDescriptors descriptors_;  // of the whole problem, for legacy engines
  std::unique_ptr<cudnn::Engines> engines_;
  Side undivided_, plan_;
  const Tensor result_;
  TestOperands operands_;
  std::vector<OperandPattern> read_contents_;
  cudnn::FusedPointers pointers_;
  Tolerance tolerance_;
  // True if the plan is one undivided gradient. The gradient is then added to itself, so that
  // adding is compared, too.
  bool twice_ = false;
  bool lacks_memory_ = false;
  GuardedBuffer x_, w_, y_;
  GuardedBuffer other_;             // the plan's output; the undivided engine writes x_, w_ or y_
  std::deque<GuardedBuffer> read_;  // one for each fused operand
  GuardedBuffer sum_;               // the part of a workspace that holds the sums of partials
  GuardedBuffer workspace_;         // the part of a workspace that engines get
};

}  // namespace

Verification VerifyPlan(const Device& device, const ConvolutionProblem& problem,
                        const Division& division, const MicroConfiguration& undivided,
                        const MeasureLimits& budget, const EngineScope& scope) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  try {
    MicroConfiguration of_all = undivided;
    of_all.micro_batch = problem.n;
    Verifier verifier(device, problem, {"the undivided call", Configuration{{{of_all, 1}}}},
                      {"the plan", division}, budget, scope);
    return verifier.Verify();
  } catch (const std::bad_alloc&) {
    return {ComparisonResult::kNotCompared, "out of host memory"};
  }
}

}  // namespace ucudnn::tuning
