#include "tuning/verify_tile.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"
#include "cuda/box_copy.h"
#include "cudnn/legacy_engines.h"
#include "execution/tile_packing.h"
#include "tuning/guarded_buffer.h"
#include "tuning/test_operands.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

// If a tensor of a tile spans at least this many bytes, the tile is compared with the real strides
// of the whole tensors, because engines may count bytes in 32 bits.
constexpr int64_t kLongViewBytes = int64_t{1} << 31;
// The most engines that are tried as references.
constexpr size_t kMostReferences = 3;

bool IsLong(const Tensor& tensor) {
  return tensor.Span() * static_cast<int64_t>(ElementBytes(tensor.type)) >= kLongViewBytes;
}

ConvolutionProblem Packed(ConvolutionProblem part) {
  SetPackedStrides(part);
  return part;
}

// Returns the same convolution on packed tensors, in which the padding is a part of x.
ConvolutionProblem WithoutPadding(ConvolutionProblem part) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    part.x[axis] = static_cast<int32_t>(PaddedExtent(part, axis));
    part.pad[axis] = part.extra_pad[axis] = 0;
  }
  return Packed(part);
}

// A tensor of a tile inside a larger tensor. The elements of the larger tensor around the tile are
// NaN.
class Surrounded {
 public:
  Surrounded(const Tensor& tensor, const cuda::MemoryPool& pool, const cuda::Driver& driver)
      : tensor_(tensor), driver_(driver), memory_(pool, driver) {
    // The margin holds one more index at both ends of every axis.
    const size_t begin = tensor.extents[0] > 1 ? 0 : 1;
    const int64_t widest = *std::max_element(tensor.strides.begin() + begin, tensor.strides.end());
    margin_ = InWorkspace(static_cast<size_t>(widest) * ElementBytes(tensor.type));
  }

  const Tensor& tensor() const { return tensor_; }
  size_t Bytes() const { return tensor_.Bytes() + 2 * margin_; }
  CUdeviceptr address() const { return memory_.address() + margin_; }
  void* data() const { return reinterpret_cast<void*>(address()); }

  Status Allocate() { return memory_.Reserve(Bytes()); }
  // Fills the tile and everything around it with NaN.
  Status Clear(CUstream stream) {
    return cuda::DriverStatus(
        driver_, driver_.cuMemsetD8Async(memory_.address(), cuda::kNanByte, Bytes(), stream),
        "filling a tensor");
  }
  // Fills the tile itself with NaN, then returns whether everything around the tile is still as
  // Clear left it.
  Result<bool> IsClearAround(CUstream stream, Clock::time_point deadline) {
    UCUDNN_RETURN_IF_ERROR(cuda::Fill(
        driver_, {tensor_.extents, tensor_.strides, ElementBytes(tensor_.type), address()},
        cuda::kNanByte, stream));
    constexpr size_t kPatternBytes = size_t{1} << 20;
    const OperandPattern clear = {
        std::vector<std::byte>(std::min(Bytes(), kPatternBytes), std::byte{cuda::kNanByte}),
        Bytes()};
    return IsUnchanged(driver_, stream, clear, memory_.address(), deadline);
  }

 private:
  const Tensor tensor_;
  const cuda::Driver& driver_;
  size_t margin_ = 0;  // in bytes, on each side
  cuda::DeviceBuffer memory_;
};

// An operand of the fused operations, for the tile and for the reference.
struct FusedRead {
  FusedRead(const Tensor& of_tile, const Tensor& of_reference, const cuda::MemoryPool& pool,
            const cuda::Driver& driver)
      : tile(of_tile, pool, driver), reference(of_reference), memory(pool, driver) {}

  Surrounded tile;
  const Tensor reference;
  cuda::DeviceBuffer memory;  // the reference's operand
  OperandPattern content;     // content of `memory`
};

class TileVerifier {
 public:
  TileVerifier(const Device& device, const ComparedTile& tile, const MeasureLimits& budget,
               const EngineScope& scope)
      : tile_(tile),
        packed_(Packed(tile.kind.problem)),
        unpadded_(WithoutPadding(tile.kind.problem)),
        budget_(budget),
        scope_(scope),
        fused_(FusedIn(scope)),
        functions_(*device.functions),
        driver_(*device.driver),
        handle_(driver_, functions_),
        x_(ImageTensor(tile.around), handle_.memory(), driver_),
        w_(FilterTensor(tile.around), handle_.memory(), driver_),
        y_(OutputTensor(tile.around), handle_.memory(), driver_),
        packed_x_(handle_.memory(), driver_),
        padded_x_(handle_.memory(), driver_),
        packed_y_(handle_.memory(), driver_),
        packed_w_(handle_.memory(), driver_),
        gathered_(handle_.memory(), driver_),
        reference_workspace_(handle_.memory(), driver_),
        sum_(handle_.memory(), driver_),
        workspace_(handle_.memory(), driver_) {
    for (const cudnn::FusedOperand& operand : fused_) {
      reads_.emplace_back(FusedTensor(operand, part()), FusedTensor(operand, unpadded_),
                          handle_.memory(), driver_);
    }
  }

  ~TileVerifier() { handle_.Finish(); }

  Verification Verify() {
    if (Status status = Prepare(); !status.ok()) return Unknown(status);
    if (Status status = RunReference(); !status.ok()) return Unknown(status);
    if (Status status = RunTile(); !status.ok()) {
      return Unknown(Status::Error(Who() + ": " + status.message()));
    }
    return Compare();
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
  const ConvolutionProblem& part() const { return tile_.kind.problem; }
  Operation operation() const { return part().operation; }
  bool Writes(Operation of) const { return operation() == of; }
  std::string Who() const {
    return EngineName(operation(), tile_.engine) + " on a tile, " + Describe(part());
  }
  Surrounded& Output() {
    return Writes(Operation::kForward) ? y_ : Writes(Operation::kBackwardData) ? x_ : w_;
  }
  // Returns the buffer that has the reference's packed result.
  cuda::DeviceBuffer& Expected() {
    return Writes(Operation::kForward)        ? packed_y_
           : Writes(Operation::kBackwardData) ? packed_x_
                                              : packed_w_;
  }
  static bool IsDirect(const cudnn::EngineChoice& choice) {
    return choice.numeric == NumericClass::kDirect;
  }

  Status DeriveTolerance() {
    if (!x_.tensor().IsNested() || !y_.tensor().IsNested()) {
      return Status::Error("elements of a tensor share memory");
    }
    const Run run = {{tile_.engine}, 1};
    UCUDNN_ASSIGN_OR_RETURN(const NumericClass numeric, CoarsestIn(scope_, operation(), {&run, 1}));
    const int64_t terms =
        TestTerms(packed_) * (tile_.effect == ComparedTile::Effect::kAdds ? 2 : 1);
    UCUDNN_ASSIGN_OR_RETURN(tolerance_, DiscriminatingTolerance(packed_, numeric, terms));
    return Status::Ok();
  }

  Status Prepare() {
    UCUDNN_RETURN_IF_ERROR(InTime());
    if (tile_.workspace_bytes < PackedBytes(tile_.kind)) {
      return Status::Error("its workspace does not hold its copies");
    }
    if (driver_.cuMemcpy3DAsync == nullptr || driver_.cuMemsetD2D8Async == nullptr) {
      return Status::Error("nothing copies tiles");
    }
    UCUDNN_RETURN_IF_ERROR(DeriveTolerance());
    const size_t x_bytes = ImageTensor(packed_).Bytes(), y_bytes = OutputTensor(packed_).Bytes();
    const size_t w_bytes = FilterTensor(packed_).Bytes();
    const bool filter = Writes(Operation::kBackwardFilter);
    const std::pair<cuda::DeviceBuffer*, size_t> buffers[] = {
        {&packed_x_, x_bytes},
        {&padded_x_, ImageTensor(unpadded_).Bytes()},
        {&packed_y_, y_bytes},
        {&packed_w_, filter ? w_bytes : 0},
        {&gathered_, std::max({x_bytes, y_bytes, w_bytes})}};
    const size_t sum_bytes =
        tile_.effect == ComparedTile::Effect::kIsSummed ? PartialSumBytes(packed_) : 0;
    needed_ = x_.Bytes() + w_.Bytes() + y_.Bytes() + GuardedBuffer::Footprint(sum_bytes) +
              GuardedBuffer::Footprint(tile_.workspace_bytes);
    for (const auto& [buffer, bytes] : buffers) needed_ += bytes;
    for (const FusedRead& read : reads_) needed_ += read.tile.Bytes() + read.reference.Bytes();
    UCUDNN_RETURN_IF_ERROR(CheckMemory(0));
    UCUDNN_RETURN_IF_ERROR(handle_.Create());
    engines_ = MakeEngines(scope_, functions_, handle_.get());
    for (const auto& [buffer, bytes] : buffers) UCUDNN_RETURN_IF_ERROR(buffer->Reserve(bytes));
    for (Surrounded* const tensor : {&x_, &w_, &y_}) {
      UCUDNN_RETURN_IF_ERROR(tensor->Allocate());
      UCUDNN_RETURN_IF_ERROR(tensor->Clear(stream()));
    }
    for (FusedRead& read : reads_) {
      UCUDNN_RETURN_IF_ERROR(read.memory.Reserve(read.reference.Bytes()));
      UCUDNN_RETURN_IF_ERROR(read.tile.Allocate());
      UCUDNN_RETURN_IF_ERROR(read.tile.Clear(stream()));
    }
    for (const auto& [buffer, bytes] :
         {std::pair{&sum_, sum_bytes}, {&workspace_, tile_.workspace_bytes}}) {
      UCUDNN_RETURN_IF_ERROR(buffer->Allocate(bytes));
      UCUDNN_RETURN_IF_ERROR(buffer->Guard(bytes, stream()));
      UCUDNN_RETURN_IF_ERROR(buffer->Fill(cuda::kNanByte, stream()));
    }
    return PlaceInputs();
  }

  // Fails if there is no memory for `more` bytes in addition to needed_.
  Status CheckMemory(size_t more) const {
    if (more <= budget_.memory_bytes && needed_ <= budget_.memory_bytes - more) {
      return Status::Ok();
    }
    return Status::Error("a tile needs " + FormatByteSize(needed_ + more) +
                         " of device memory, more than " + FormatByteSize(budget_.memory_bytes));
  }

  Status Place(Surrounded& tensor, const OperandPattern& operand, CUdeviceptr packed,
               const Strides& strides) {
    UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operand, packed));
    return Copy(tensor.tensor(), strides, packed, tensor.tensor().strides, tensor.address());
  }
  Status Copy(const Tensor& tensor, const Strides& from_strides, CUdeviceptr from,
              const Strides& to_strides, CUdeviceptr to) {
    const cuda::BoxCopy copy(tensor.extents, from_strides, to_strides, ElementBytes(tensor.type));
    return copy.Enqueue(driver_, from, to, stream());
  }
  // `padded` is the address of a tensor of the reference that includes the padding: of x, or of a
  // tensor laid out like x. Returns the address of the first element inside the padding.
  CUdeviceptr InsidePadding(CUdeviceptr padded, const Strides& strides, DataType type) const {
    int64_t offset = 0;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      offset += int64_t{part().pad[axis]} * strides[axis + 2];
    }
    return padded + static_cast<size_t>(offset) * ElementBytes(type);
  }
  CUdeviceptr InsidePadding() const {
    return InsidePadding(padded_x_.address(), unpadded_.x_strides, part().type);
  }
  // Returns the address of the tile's elements inside the reference's operand.
  CUdeviceptr InReference(const FusedRead& read) const {
    const CUdeviceptr first = read.memory.address();
    if (!Writes(Operation::kBackwardData)) return first;
    return InsidePadding(first, read.reference.strides, read.reference.type);
  }

  Status PlaceInputs() {
    operands_ = MakeTestOperands(packed_);
    const bool data = Writes(Operation::kBackwardData);
    if (!data) {
      UCUDNN_RETURN_IF_ERROR(Place(x_, operands_.dense, packed_x_.address(), packed_.x_strides));
      UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
          driver_,
          driver_.cuMemsetD8Async(padded_x_.address(), 0, ImageTensor(unpadded_).Bytes(), stream()),
          "filling padding"));
      UCUDNN_RETURN_IF_ERROR(Copy(x_.tensor(), packed_.x_strides, packed_x_.address(),
                                  unpadded_.x_strides, InsidePadding()));
    }
    if (!Writes(Operation::kForward)) {
      UCUDNN_RETURN_IF_ERROR(Place(y_, data ? operands_.dense : operands_.sparse,
                                   packed_y_.address(), packed_.y_strides));
    }
    if (!Writes(Operation::kBackwardFilter)) {
      UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), operands_.sparse, w_.address()));
    }
    UCUDNN_RETURN_IF_ERROR(PlaceFused());
    return handle_.stream().Synchronize();
  }

  Status PlaceFused() {
    of_tile_.operands = of_reference_.operands = fused_;
    for (size_t i = 0; i < reads_.size(); ++i) {
      FusedRead& read = reads_[i];
      read.content = MakeFusedOperand(read.reference.type, read.reference.Bytes(), i);
      UCUDNN_RETURN_IF_ERROR(Upload(driver_, stream(), read.content, read.memory.address()));
      const Tensor& tile = read.tile.tensor();
      UCUDNN_RETURN_IF_ERROR(
          Copy(tile, read.reference.strides, InReference(read), tile.strides, read.tile.address()));
      of_tile_.pointers[i] = read.tile.data();
      of_reference_.pointers[i] = read.memory.data();
    }
    return Status::Ok();
  }

  // Appends the engines of `listed` that may be references for the tile to `references`, in
  // ascending order of workspace. The tile's own engine comes last.
  void AddReferences(std::vector<cudnn::ListedEngine> listed,
                     std::vector<cudnn::ListedEngine>& references) const {
    // Only engines of the plan's own graph compute fused operations, and any of them may be a
    // reference. Without fused operations a reference must be direct.
    std::erase_if(listed, [&](const auto& one) { return fused_.empty() && !IsDirect(one.choice); });
    std::stable_sort(listed.begin(), listed.end(), [&](const auto& a, const auto& b) {
      const auto rank = [&](const cudnn::EngineChoice& choice) {
        return std::pair(choice.engine == tile_.engine, choice.workspace_bytes);
      };
      return rank(a.choice) < rank(b.choice);
    });
    std::move(listed.begin(), listed.end(), std::back_inserter(references));
  }

  Status RunReference() {
    std::vector<cudnn::ListedEngine> references;
    if (fused_.empty()) {
      auto listed = cudnn::LegacyEngines(functions_, handle_.get()).List(unpadded_);
      if (listed.ok()) AddReferences(std::move(*listed), references);
    }
    Status last = Status::Error("no engine says what a tile should be");
    if (references.empty()) {
      auto listed = engines_->List(unpadded_);
      if (!listed.ok()) return listed.status();
      AddReferences(std::move(*listed), references);
    }
    for (size_t i = 0; i < std::min(references.size(), kMostReferences); ++i) {
      UCUDNN_RETURN_IF_ERROR(InTime());
      last = RunReference(references[i]);
      if (last.ok()) break;
    }
    UCUDNN_RETURN_IF_ERROR(last);
    if (!Writes(Operation::kBackwardData)) return Status::Ok();
    return Copy(x_.tensor(), unpadded_.x_strides, InsidePadding(), packed_.x_strides,
                packed_x_.address());
  }

  Status RunReference(const cudnn::ListedEngine& engine) {
    const size_t bytes = engine.choice.workspace_bytes;
    UCUDNN_RETURN_IF_ERROR(CheckMemory(bytes));
    UCUDNN_RETURN_IF_ERROR(reference_workspace_.Reserve(bytes));
    cudnn::ConvolutionCall call = Call(of_reference_);
    call.x = padded_x_.data();
    call.w = Writes(Operation::kBackwardFilter) ? packed_w_.data() : w_.data();
    call.y = packed_y_.data();
    call.workspace = bytes > 0 ? reference_workspace_.data() : nullptr;
    call.workspace_bytes = bytes;
    UCUDNN_RETURN_IF_ERROR(RunPiece(*engine.piece, call, false));
    if (tile_.effect == ComparedTile::Effect::kAdds)
      UCUDNN_RETURN_IF_ERROR(RunPiece(*engine.piece, call, true));
    return handle_.stream().Synchronize();
  }

  cudnn::ConvolutionCall Call(const cudnn::FusedPointers& fused) {
    cudnn::ConvolutionCall call = handle_.CallOf(part());
    call.fused = &fused;
    return call;
  }
  Status RunPiece(const cudnn::Piece& piece, const cudnn::ConvolutionCall& call, bool adds) {
    return cudnn::CudnnStatus(functions_, piece.Run(call, adds), "running an engine");
  }

  Status RunTile() {
    UCUDNN_RETURN_IF_ERROR(InTime());
    const bool adds = tile_.effect == ComparedTile::Effect::kAdds;
    const size_t copies = PackedBytes(tile_.kind);
    UCUDNN_ASSIGN_OR_RETURN(
        const execution::TilePacking packing,
        execution::TilePacking::Make(tile_.around, tile_.kind, {&driver_, &functions_}));
    UCUDNN_ASSIGN_OR_RETURN(
        const std::unique_ptr<cudnn::Piece> piece,
        engines_->MakePiece(part(), tile_.engine, {.are_plain = true, .may_add = adds},
                            tile_.workspace_bytes - copies));
    cudnn::ConvolutionCall in_place = Call(of_tile_);
    in_place.x = x_.data();
    in_place.w = w_.data();
    in_place.y = y_.data();
    in_place.workspace = tile_.workspace_bytes > 0 ? workspace_.data() : nullptr;
    in_place.workspace_bytes = tile_.workspace_bytes;
    cudnn::ConvolutionCall call = in_place;
    const auto copied = [&](cudnnStatus_t status) {
      return cudnn::CudnnStatus(functions_, status, "copying a tile");
    };
    if (packing.packs()) {
      UCUDNN_RETURN_IF_ERROR(copied(packing.Pack(in_place, false)));
      packing.MoveToCopies(call);
      call.workspace_bytes -= copies;
    }
    if (tile_.effect == ComparedTile::Effect::kIsSummed) {
      UCUDNN_RETURN_IF_ERROR(RunSummed(*piece, call));
    } else {
      UCUDNN_RETURN_IF_ERROR(RunPiece(*piece, call, false));
      if (adds) UCUDNN_RETURN_IF_ERROR(RunPiece(*piece, call, true));
    }
    if (packing.unpacks()) UCUDNN_RETURN_IF_ERROR(copied(packing.Unpack(in_place)));
    return handle_.stream().Synchronize();
  }

  // Computes the piece into a partial, and the sum of this one partial into w_.
  Status RunSummed(const cudnn::Piece& piece, cudnn::ConvolutionCall call) {
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::PartialSum> sum,
                            engines_->MakeSum(part()));
    call.w = sum->Partial(sum_.data());
    UCUDNN_RETURN_IF_ERROR(RunPiece(piece, call, false));
    cudnnStatus_t status = sum->Add(handle_.get(), sum_.data(), true);
    if (status == CUDNN_STATUS_SUCCESS) {
      constexpr float kOne = 1, kZero = 0;
      status = sum->Store(handle_.get(), sum_.data(), &kOne, &kZero, w_.data());
    }
    return cudnn::CudnnStatus(functions_, status, "summing partials");
  }

  Verification Compare() {
    for (const auto& [buffer, name] :
         {std::pair{&workspace_, "its workspace"}, {&sum_, "the sum of partials"}}) {
      const Result<const char*> damage = buffer->Damage(stream());
      if (!damage.ok()) return Unknown(damage.status());
      if (*damage != nullptr) {
        return {ComparisonResult::kTrespassed, Who() + " wrote " + *damage + " " + name};
      }
    }
    const Tensor result = ResultTensor(packed_);
    const Tensor& of_tile = Output().tensor();
    if (Status status =
            Copy(of_tile, of_tile.strides, Output().address(), result.strides, gathered_.address());
        !status.ok()) {
      return Unknown(status);
    }
    const Result<Differences> compared =
        CompareOnDevice(driver_, stream(), {result, tolerance_, std::nullopt}, gathered_.address(),
                        Expected().address(), budget_.deadline);
    if (!compared.ok()) return Unknown(compared.status());
    if (compared->count > 0) {
      return {ComparisonResult::kDifferent, Who() + ": " + Tell(result, *compared, tolerance_)};
    }
    const Result<bool> inputs = InputsAreUnchanged();
    if (!inputs.ok()) return Unknown(inputs.status());
    if (!*inputs) return {ComparisonResult::kTrespassed, Who() + " changed an input"};
    const Result<bool> clear = Output().IsClearAround(stream(), budget_.deadline);
    if (!clear.ok()) return Unknown(clear.status());
    if (!*clear) return {ComparisonResult::kTrespassed, Who() + " wrote beside the tile"};
    return {ComparisonResult::kEqual, ""};
  }

  Result<bool> InputsAreUnchanged() {
    struct Input {
      Surrounded* tensor;
      const Strides packed_strides;
      const OperandPattern* operand;
    };
    const Input inputs[] = {
        {&x_, packed_.x_strides, &operands_.dense},
        {&w_, w_.tensor().strides, &operands_.sparse},
        {&y_, packed_.y_strides,
         Writes(Operation::kBackwardData) ? &operands_.dense : &operands_.sparse}};
    for (const auto& [tensor, strides, operand] : inputs) {
      if (tensor == &Output()) continue;
      const Tensor& of = tensor->tensor();
      UCUDNN_RETURN_IF_ERROR(Copy(of, of.strides, tensor->address(), strides, gathered_.address()));
      for (const bool around : {false, true}) {
        UCUDNN_ASSIGN_OR_RETURN(
            const bool same, around ? tensor->IsClearAround(stream(), budget_.deadline)
                                    : IsUnchanged(driver_, stream(), *operand, gathered_.address(),
                                                  budget_.deadline));
        if (!same) return false;
      }
    }
    for (FusedRead& read : reads_) {
      const Tensor& tile = read.tile.tensor();
      UCUDNN_RETURN_IF_ERROR(
          Copy(tile, tile.strides, read.tile.address(), read.reference.strides, InReference(read)));
      UCUDNN_ASSIGN_OR_RETURN(
          const bool same,
          IsUnchanged(driver_, stream(), read.content, read.memory.address(), budget_.deadline));
      UCUDNN_ASSIGN_OR_RETURN(const bool clear,
                              read.tile.IsClearAround(stream(), budget_.deadline));
      if (!same || !clear) return false;
    }
    return true;
  }

  const ComparedTile tile_;
  const ConvolutionProblem packed_, unpadded_;
  const MeasureLimits budget_;
  const EngineScope& scope_;
  const FusedOperands fused_;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  TuningHandle handle_;
  std::unique_ptr<cudnn::Engines> engines_;
  TestOperands operands_;
  Tolerance tolerance_;
  size_t needed_ = 0;     // device memory in bytes, without the reference's workspace
  Surrounded x_, w_, y_;  // the tile's tensors
  // Packed tensors of the reference: its operands, which are also copied into the tile's tensors,
  // and its result.
  cuda::DeviceBuffer packed_x_, padded_x_, packed_y_, packed_w_;
  cuda::DeviceBuffer gathered_;  // packed copy of a tensor of the tile
  cuda::DeviceBuffer reference_workspace_;
  GuardedBuffer sum_, workspace_;  // for the tile
  std::deque<FusedRead> reads_;    // one for each fused operand
  cudnn::FusedPointers of_tile_, of_reference_;
};

}  // namespace

ComparedTile ComparedTileOf(const ConvolutionProblem& problem, const Division& division,
                            size_t kind) {
  assert(division.tiles != nullptr);
  const TileKind& of = division.tiles->kinds[kind];
  const MicroConfiguration& micro = division.configuration.runs[kind].micro;
  const bool adds = division.AddsUp(problem);
  ComparedTile tile = {of, SlackViews(of), micro.engine, EngineBytes(problem, micro),
                       !adds                   ? ComparedTile::Effect::kReplaces
                       : SumsPartials(problem) ? ComparedTile::Effect::kIsSummed
                                               : ComparedTile::Effect::kAdds};
  ConvolutionProblem& part = tile.kind.problem;
  part = SlackTwin(of);
  // If a tensor of the tile spans 2^31 bytes or more in the whole tensors, tensors that are not
  // packed keep the strides of the whole tensors. Packed tensors span less.
  if (IsLong(ImageTensor(of.problem)) || IsLong(OutputTensor(of.problem))) {
    if (!of.packs_x) part.x_strides = tile.around.x_strides = of.problem.x_strides;
    if (!of.packs_y) part.y_strides = tile.around.y_strides = of.problem.y_strides;
  }
  return tile;
}

Verification VerifyTile(const Device& device, const ComparedTile& tile, const MeasureLimits& budget,
                        const EngineScope& scope) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  try {
    TileVerifier verifier(device, tile, budget, scope);
    return verifier.Verify();
  } catch (const std::bad_alloc&) {
    return {ComparisonResult::kNotCompared, "out of host memory"};
  }
}

}  // namespace ucudnn::tuning
