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
#include "tuning/guarded_buffer.h"
#include "tuning/test_operands.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

// Outputs and workspace are filled with this byte before an engine runs. It is NaN in every type,
// so an element that is read before it is written, or is never written, shows.
constexpr unsigned char kUnwritten = 0xff;

// One division of the whole batch, undivided included.
struct Division {
  std::string name;  // for messages
  Configuration configuration;
};

class Verifier {
 public:
  Verifier(const Device& device, const ConvolutionProblem& problem, const MeasureLimits& budget,
           const EngineScope& scope)
      : problem_(problem),
        budget_(budget),
        scope_(scope),
        fused_(FusedIn(scope)),
        functions_(*device.functions),
        driver_(*device.driver),
        handle_(driver_, *device.functions),
        result_(ResultTensor(problem)),
        x_(handle_.memory(), driver_),
        w_(handle_.memory(), driver_),
        y_(handle_.memory(), driver_),
        other_(handle_.memory(), driver_),
        sum_(handle_.memory(), driver_),
        workspace_(handle_.memory(), driver_) {}

  ~Verifier() {
    // The memory must not be freed while a kernel of ours may run.
    if (handle_.stream().get() != nullptr) (void)handle_.stream().Synchronize();
  }

  Verification Verify(const Division& undivided, const Division& plan) {
    if (Status status = Prepare(undivided, plan); !status.ok()) return Unknown(status);
    if (auto outcome = Compute(undivided, Output(), 0)) return *outcome;
    // Where pieces add up, the first one replaces the output; each run of the plan is first in one
    // of the passes.
    const size_t passes = Accumulates(plan) ? plan.configuration.runs.size() : 1;
    for (size_t first = 0; first < passes; ++first) {
      if (auto outcome = Compute(plan, other_, first)) return *outcome;
      const Verification compared = Compare(plan);
      if (compared.verdict != Verdict::kEqual) return compared;
    }
    return {Verdict::kEqual, ""};
  }

 private:
  static Verification Unknown(const Status& status) {
    return {Verdict::kNotCompared, status.message()};
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

  Result<NumericClass> CoarsestOf(const Division& undivided, const Division& plan) const {
    if (const auto* const graph = std::get_if<GraphScope>(&scope_)) return graph->numeric;
    if (const auto* const mixed = std::get_if<MixedScope>(&scope_)) return mixed->numeric;
    std::vector<Run> runs = undivided.configuration.runs;
    runs.insert(runs.end(), plan.configuration.runs.begin(), plan.configuration.runs.end());
    return CoarsestClass(problem_.operation, runs);
  }

  Status DeriveTolerance(const Division& undivided, const Division& plan) {
    if (!ImageTensor(problem_).IsNested() || !OutputTensor(problem_).IsNested()) {
      return Status::Error("elements of a tensor share memory");
    }
    UCUDNN_ASSIGN_OR_RETURN(const NumericClass numeric, CoarsestOf(undivided, plan));
    const int64_t terms = TestTerms(problem_) * (twice_ ? 2 : 1);
    tolerance_ = IntegerTolerance(problem_, numeric, terms);
    if (!Discriminates(tolerance_, terms)) {
      return Status::Error("rounding of " + std::to_string(tolerance_.absolute) +
                           " would hide wrong results");
    }
    return Status::Ok();
  }

  Status Prepare(const Division& undivided, const Division& plan) {
    if (plan.configuration.Images() != problem_.n) {
      return Status::Error("a plan of " + std::to_string(plan.configuration.Images()) +
                           " images is no plan of " + Describe(problem_));
    }
    UCUDNN_RETURN_IF_ERROR(InTime());
    twice_ = Accumulates(plan) && plan.configuration.Pieces() == 1;
    size_t workspace = undivided.configuration.WorkspaceBytes();
    for (const Run& run : plan.configuration.runs) {
      workspace = std::max(workspace, EngineBytes(problem_, run.micro));
    }
    const size_t sum = IsSummed(plan) ? PartialSumBytes(problem_) : 0;
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
    if (needed > budget_.memory_bytes) {
      return Status::Error("needs " + FormatByteSize(needed) + " of device memory, more than " +
                           FormatByteSize(budget_.memory_bytes));
    }
    UCUDNN_RETURN_IF_ERROR(DeriveTolerance(undivided, plan));
    operands_ = MakeTestOperands(problem_);
    UCUDNN_RETURN_IF_ERROR(handle_.Create());
    for (const auto& [buffer, bytes] : buffers) {
      UCUDNN_RETURN_IF_ERROR(buffer->Allocate(bytes));
      UCUDNN_RETURN_IF_ERROR(buffer->Guard(bytes, stream()));
    }
    UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operands_.dense, DenseInput().address()));
    UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operands_.sparse, SparseInput().address()));
    read_contents_.reserve(fused_.size());
    for (size_t i = 0; i < fused_.size(); ++i) {
      read_contents_.push_back(MakeFusedOperand(fused_[i].type, read_[i].size(), i));
      UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), read_contents_.back(), read_[i].address()));
    }
    return handle_.stream().Synchronize();
  }

  bool IsSummed(const Division& division) const {
    return division.configuration.Pieces() > 1 && SumsPartials(problem_);
  }

  // Whether pieces of the division add to the output: then replacing and adding may be two engines,
  // and both are compared.
  bool Accumulates(const Division& division) const {
    return problem_.operation == Operation::kBackwardFilter && !SumsPartials(problem_) &&
           !division.configuration.runs.empty();
  }

  // One of a division's pieces, and where its images begin.
  struct Part {
    size_t run;
    int number;     // for messages
    size_t images;  // before it
    size_t x_offset, y_offset;
  };
  // The pieces in the order in which they are computed, beginning with those of the run `first`.
  std::vector<Part> PartsOf(const Configuration& configuration, size_t first) const {
    const size_t element = ElementBytes(problem_.type);
    std::vector<Part> parts;
    size_t images = 0, front = 0;
    for (size_t run = 0; run < configuration.runs.size(); ++run) {
      if (run == first) front = parts.size();
      for (int i = 0; i < configuration.runs[run].count; ++i) {
        parts.push_back({run, static_cast<int>(parts.size()), images,
                         images * static_cast<size_t>(problem_.x_strides[0]) * element,
                         images * static_cast<size_t>(problem_.y_strides[0]) * element});
        images += static_cast<size_t>(configuration.runs[run].micro.micro_batch);
      }
    }
    std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(front),
                parts.begin() + static_cast<std::ptrdiff_t>(front) + 1);
    // An undivided gradient is computed twice, so that it is added to itself.
    if (twice_) parts.push_back(parts[0]);
    return parts;
  }

  // Runs `division` into `output`. None where nothing is wrong; else the verdict.
  std::optional<Verification> Compute(const Division& division, GuardedBuffer& output,
                                      size_t first) {
    if (Status status = output.Fill(kUnwritten, stream()); !status.ok()) return Unknown(status);
    const std::unique_ptr<cudnn::Engines> engines = MakeEngines(scope_, functions_, handle_.get());
    std::unique_ptr<cudnn::PartialSum> sum;
    if (IsSummed(division)) {
      auto made = engines->MakeSum(problem_);
      if (!made.ok()) return Unknown(made.status());
      sum = std::move(*made);
      if (Status status = sum_.Fill(kUnwritten, stream()); !status.ok()) return Unknown(status);
    }
    std::vector<std::unique_ptr<cudnn::PreparedProblem>> prepared;
    for (const Run& run : division.configuration.runs) {
      ConvolutionProblem part = problem_;
      part.n = run.micro.micro_batch;
      auto made = engines->Prepare(part);
      if (!made.ok()) return Unknown(made.status());
      prepared.push_back(std::move(*made));
    }
    void* const result = sum != nullptr ? sum->Partial(sum_.data()) : output.data();
    bool adds = false;
    for (const Part& part : PartsOf(division.configuration, first)) {
      if (Status status = InTime(); !status.ok()) return Unknown(status);
      const MicroConfiguration& micro = division.configuration.runs[part.run].micro;
      std::string who = division.name + " by " + EngineName(problem_.operation, micro.engine);
      if (division.configuration.Pieces() > 1) {
        who = "piece " + std::to_string(part.number) + " of " + who;
      }
      const Destination destination = {output, result, adds && result == output.data()};
      if (auto outcome = RunPiece(*prepared[part.run], micro, who, part, destination)) {
        return outcome;
      }
      if (sum != nullptr) {
        const cudnnStatus_t status = sum->Add(handle_.get(), sum_.data(), !adds);
        if (auto outcome = AfterSum(status, division)) return outcome;
      }
      adds = true;
    }
    if (sum == nullptr) return std::nullopt;
    constexpr float kOne = 1, kZero = 0;
    return AfterSum(sum->Store(handle_.get(), sum_.data(), &kOne, &kZero, output.data()), division);
  }

  std::optional<Verification> AfterSum(cudnnStatus_t status, const Division& division) {
    const std::string who = "the sum of partials of " + division.name;
    if (const Status summed = cudnn::CudnnStatus(functions_, status, "summing partials");
        !summed.ok()) {
      return Verification{Verdict::kNotCompared, who + ": " + summed.message()};
    }
    return Trespass(who);
  }

  // Where a piece writes: gradients of the filter go to `filter_gradient`, all else to `output`.
  struct Destination {
    GuardedBuffer& output;
    void* filter_gradient;
    bool adds;  // to the gradient that is there, as execution does after the first piece
  };
  std::optional<Verification> RunPiece(cudnn::PreparedProblem& prepared,
                                       const MicroConfiguration& micro, const std::string& who,
                                       const Part& part, const Destination& destination) {
    const size_t bytes = EngineBytes(problem_, micro);
    Status status = workspace_.Fill(kUnwritten, stream());
    if (status.ok()) status = workspace_.Guard(bytes, stream());
    const auto address = [&](const GuardedBuffer& buffer, size_t offset) -> void* {
      const GuardedBuffer& used = &buffer == &Output() ? destination.output : buffer;
      return static_cast<char*>(used.data()) + offset;
    };
    const bool gradient_of_filter = problem_.operation == Operation::kBackwardFilter;
    cudnn::Buffers buffers{
        address(x_, part.x_offset), gradient_of_filter ? destination.filter_gradient : w_.data(),
        address(y_, part.y_offset), bytes > 0 ? workspace_.data() : nullptr, bytes};
    buffers.accumulate = gradient_of_filter && destination.adds;
    for (size_t i = 0; i < fused_.size(); ++i) {
      buffers.fused[i] = static_cast<char*>(read_[i].data()) + part.images * fused_[i].image_bytes;
    }
    if (status.ok()) status = prepared.Run({micro.engine}, buffers);
    if (!status.ok()) return Verification{Verdict::kNotCompared, who + ": " + status.message()};
    return Trespass(who);
  }

  // Looks for writes around all buffers after what `who` ran; none where there are none.
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
        return Verification{Verdict::kTrespassed, who + " wrote " + *damage + " " + name};
      }
    }
    return std::nullopt;
  }

  Verification Compare(const Division& plan) {
    std::vector<std::pair<GuardedBuffer*, const OperandPattern*>> inputs = {
        {&DenseInput(), &operands_.dense}, {&SparseInput(), &operands_.sparse}};
    for (size_t i = 0; i < read_.size(); ++i) inputs.emplace_back(&read_[i], &read_contents_[i]);
    for (const auto& [buffer, operand] : inputs) {
      const Result<bool> unchanged =
          IsUnchanged(driver_, stream(), *operand, buffer->address(), budget_.deadline);
      if (!unchanged.ok()) return Unknown(unchanged.status());
      if (!*unchanged) return {Verdict::kTrespassed, "an input was changed"};
    }
    const Result<Differences> compared =
        CompareOnDevice(driver_, stream(), {result_, tolerance_, std::byte{kUnwritten}},
                        other_.address(), Output().address(), budget_.deadline);
    if (!compared.ok()) return Unknown(compared.status());
    if (compared->count > 0)
      return {Verdict::kDifferent, Tell(result_, *compared, tolerance_, Whose(plan, *compared))};
    if (compared->gap) {
      return {Verdict::kTrespassed, plan.name + " wrote byte " + std::to_string(*compared->gap) +
                                        " of the output, between its elements"};
    }
    return {Verdict::kEqual, ""};
  }

  // Names the piece that computed the element farthest off; empty for gradients of the filter.
  std::string Whose(const Division& plan, const Differences& differences) const {
    if (problem_.operation == Operation::kBackwardFilter) return "";
    const int64_t image = result_.Position(differences.offset)[0];
    int64_t begin = 0, piece = 0;
    for (const Run& run : plan.configuration.runs) {
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

  const ConvolutionProblem problem_;
  const MeasureLimits budget_;
  const EngineScope& scope_;
  const FusedOperands fused_;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  TuningHandle handle_;
  const Tensor result_;
  TestOperands operands_;
  std::vector<OperandPattern> read_contents_;
  Tolerance tolerance_;
  // An undivided gradient is added to itself, so that adding is compared, too.
  bool twice_ = false;
  GuardedBuffer x_, w_, y_;
  GuardedBuffer other_;  // the plan's output; the undivided engine's is among x_, w_ and y_
  std::deque<GuardedBuffer> read_;  // by what is fused
  GuardedBuffer sum_;               // the part of a workspace before the engine's own
  GuardedBuffer workspace_;         // the engines' own
};

}  // namespace

Verification VerifyPlan(const Device& device, const ConvolutionProblem& problem,
                        const Configuration& configuration, const MicroConfiguration& undivided,
                        const MeasureLimits& budget, const EngineScope& scope) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  try {
    MicroConfiguration of_all = undivided;
    of_all.micro_batch = problem.n;
    Verifier verifier(device, problem, budget, scope);
    return verifier.Verify({"the undivided call", {{{of_all, 1}}}}, {"the plan", configuration});
  } catch (const std::bad_alloc&) {
    return {Verdict::kNotCompared, "out of host memory"};
  }
}

}  // namespace ucudnn::tuning
