// The first execution of a kernel: what each rank says of it, and what all of them make of that.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <utility>

#include "base/byte_size.h"
#include "base/log.h"
#include "spatial/scales.h"
#include "spatial/split_calls.h"

namespace ucudnn::spatial {
namespace {

// What is fused behind a plan's convolution, in words; empty: nothing.
std::string_view FusionOf(const SplitCall& call) {
  const EngineId::Graph* const engine =
      call.plan != nullptr ? call.plan->convolution.engine.graph() : nullptr;
  return engine != nullptr ? std::string_view(engine->fusion) : std::string_view();
}

// NHWC where channels lie side by side and positions do not.
Layout LayoutOf(const ConvolutionProblem& problem) {
  const bool is_nhwc = problem.c > 1 && problem.x_strides[1] == 1 && problem.x_strides[4] > 1;
  return is_nhwc ? Layout::kNhwc : Layout::kNchw;
}

std::string NameOf(const SplitCall& call) {
  CallForm form;
  form.work = call.work;
  form.pooling = call.pooling;
  return NameOf(form) + Describe(call.problem);
}

// The rank's handle, on another stream while this lives: that of a capture.
class HandleOnStream {
 public:
  HandleOnStream(ExchangeResources& device, CUstream stream)
      : device_(device), is_moved_(stream != device.stream.get()) {
    if (is_moved_) Move(stream);
  }
  ~HandleOnStream() {
    if (is_moved_) Move(device_.stream.get());
  }
  HandleOnStream(const HandleOnStream&) = delete;
  HandleOnStream& operator=(const HandleOnStream&) = delete;

 private:
  void Move(CUstream stream) {
    device_.functions.cudnnSetStream(device_.handle, reinterpret_cast<cudaStream_t>(stream));
  }

  ExchangeResources& device_;
  const bool is_moved_;
};

void SetNorm(const SplitCall& call, CallForm& form) {
  const DataType type = call.problem.type;
  if (const cudnn::NormTraining* const training = call.call.training) {
    form.operations = std::bit_cast<uint64_t>(training->epsilon);
    form.reads_result = cudnn::ScaleOf(training->beta, type) != 0 || training->x == training->y;
    return;
  }
  const cudnn::NormGradient& gradient = *call.call.gradient;
  form.recomputes = gradient.saved_mean == nullptr;
  form.operations = std::bit_cast<uint64_t>(gradient.epsilon);
  form.reads_result = cudnn::ScaleOf(gradient.data_beta, type) != 0 || gradient.dy == gradient.dx ||
                      gradient.x == gradient.dx;
}

// Behind a global average all positions of a channel have one gradient, on all ranks.
bool MayBeEqual(const SplitCall& call) {
  const bool is_channelwise = call.work == SplitWork::kPooling || call.work == SplitWork::kNorm;
  return is_channelwise && call.problem.operation == Operation::kBackwardData;
}

std::string EpsilonText(double epsilon) {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), " epsilon %.17g", epsilon);
  return text.data();
}

}  // namespace

CallForm FormOf(const cudnn::Functions& functions, const SplitCall& call) {
  CallForm form;
  form.is_plan = call.plan != nullptr;
  form.work = call.work;
  form.is_replicated = call.declared.is_replicated;
  if (call.work == SplitWork::kRows) return form;
  if (call.work == SplitWork::kPooling) {
    form.pooling = call.pooling;
    form.hides_nan = call.pooling.is_maximum();
  }
  if (const std::string_view fusion = FusionOf(call); !fusion.empty()) {
    form.is_fused = true;
    form.hides_nan = true;  // a plan does not say what becomes of NaN
    form.operations = HashOf(fusion) ^ std::bit_cast<uint64_t>(call.plan->convolution.alpha);
    const cudnn::FusedPointers& fused = *call.call.fused;
    const void* const result = call.call.*cudnn::OutputOf(call.problem.operation);
    for (size_t i = 0; i < fused.operands.size(); ++i) {
      form.reads_result = form.reads_result || fused.pointers[i] == result;
    }
    return form;
  }
  if (call.work == SplitWork::kNorm) {
    SetNorm(call, form);
    return form;
  }
  const cudnn::BiasActivation* const bias = call.call.bias;
  if (bias == nullptr) {
    form.reads_result = cudnn::ScaleOf(call.call.beta, call.problem.type) != 0;
    return form;
  }
  form.is_fused = true;
  form.reads_result = bias->z == call.call.y;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
  form.is_identity = functions.cudnnGetActivationDescriptor(bias->activation, &mode, &nan,
                                                            &coefficient) == CUDNN_STATUS_SUCCESS &&
                     mode == CUDNN_ACTIVATION_IDENTITY;
  form.hides_nan = !form.is_identity && nan == CUDNN_NOT_PROPAGATE_NAN;
  return form;
}

Status SplitCalls::Prepare() {
  if (device_) return Status::Ok();
  if (const char* const missing = driver_.MissingForExchange()) {
    return Status::Error(std::string("the CUDA driver lacks ") + missing);
  }
  device_.emplace(driver_, functions_);
  Status created = device_->Create(CurrentContext());
  if (!created.ok()) device_.reset();
  return created;
}

Status SplitCalls::Open() {
  if (channel_ != nullptr) return Status::Ok();
  transport::ChannelSetup setup;
  setup.driver = &driver_;
  setup.context = device_->context;
  setup.rank = ranks_->membership().group_rank;
  setup.size = ranks_->membership().group_size;
  setup.gatherer = ranks_.get();
  setup.timeout = settings_.timeout;
  setup.given_up = [this] { return failure_.has_failed(); };
  setup.add = [device = &*device_](CUdeviceptr to, CUdeviceptr from, size_t count,
                                   transport::Element element, CUstream stream) {
    const DataType type =
        element == transport::Element::kFloat64 ? DataType::kDouble : DataType::kFloat;
    const HandleOnStream on(*device, stream);
    return device->add.Run(device->handle, type, from, count, OneOf(type), to);
  };
  UCUDNN_ASSIGN_OR_RETURN(channel_, open_(setup));
  failure_.Publish(*channel_);
  return Status::Ok();
}

bool SplitCalls::OpenFirst(const SplitCall& call) {
  if (channel_ != nullptr) return true;
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const auto ready = GatherNumbers({}, Prepare(), "agreeing on " + NameOf(call));
  if (!ready) return false;
  if (!ready->ok()) return true;
  const Status opened = Open();
  if (!opened.ok()) failure_.Fail(failure_.OfChannel(opened));
  return opened.ok();
}

Status SplitCalls::Try(const SplitCall& call, LocalCall& local) {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  UCUDNN_RETURN_IF_ERROR(Prepare());
  cudnn::ConvolutionCall trial = call.call;
  const cuda::MemoryPool plain(driver_);  // never created: freeing its memory waits for the device
  cuda::DeviceBuffer scratch(plain, driver_);
  if (FormOf(functions_, call).reads_result) {
    UCUDNN_RETURN_IF_ERROR(scratch.Reserve(cudnn::ResultBytes(call.problem)));
    trial.*cudnn::OutputOf(call.problem.operation) = scratch.data();
  }
  constexpr const char* kDoing = "its own convolution";
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions_, local.Try(trial), kDoing));
  return cuda::DriverStatus(driver_, driver_.cuStreamSynchronize(call.stream), kDoing);
}

std::string SplitCalls::TextOf(const SplitCall& call) const {
  std::string text = KernelText(call.problem, FormOf(functions_, call), settings_.grid);
  if (call.plan != nullptr && call.plan->convolution.alpha != 1) {
    text += " times " + std::to_string(call.plan->convolution.alpha);
  }
  text += FusionOf(call);
  if (const auto* const gradient = call.call.gradient) {
    text += EpsilonText(gradient->epsilon);
    if (gradient->saved_mean == nullptr) text += " without statistics";
  } else if (const auto* const training = call.call.training) {
    text += EpsilonText(training->epsilon);
  }
  if (HasParameterGradient(call.problem.operation, call.work) && sums_gradients_) {
    text += *sums_gradients_ ? ", summed over ranks" : ", not summed over ranks";
  }
  return text;
}

uint64_t SplitCalls::InputHash(const SplitCall& call) const {
  constexpr size_t kPiece = size_t{64} << 10, kMostPieces = 64;
  const bool forward = call.problem.operation == Operation::kForward;
  const size_t bytes = forward ? cudnn::ImageBytes(call.problem) : cudnn::OutputBytes(call.problem);
  const void* const tensor = forward ? call.call.x : call.call.y;
  const bool is_whole = bytes <= kPiece * kMostPieces;
  const size_t piece = is_whole ? bytes : kPiece, pieces = is_whole ? 1 : kMostPieces;
  const size_t element = ElementBytes(call.problem.type);
  std::string sample(piece * pieces, '\0');
  for (size_t i = 0; i < pieces; ++i) {
    const size_t from = is_whole ? 0 : (bytes - piece) / (pieces - 1) / element * element * i;
    if (driver_.cuMemcpyDtoHAsync(sample.data() + i * piece, ToDevice(tensor) + from, piece,
                                  call.stream) != CUDA_SUCCESS) {
      return 0;
    }
  }
  if (driver_.cuStreamSynchronize(call.stream) != CUDA_SUCCESS) return 0;
  const std::string_view all = sample;
  const bool is_constant = all.substr(element) == all.substr(0, all.size() - element);
  return is_constant ? 0 : HashOf(all);
}

Claim SplitCalls::ClaimOf(const SplitCall& call, LocalCall& local,
                          std::span<const AgreedKernel> made) {
  Claim claim;
  most_buffer_bytes_ = settings_.most_buffer_bytes();
  claim.options = settings_.shared_options + ", at most " + FormatByteSize(most_buffer_bytes_) +
                  " for exchanges";
  claim.kernel = TextOf(call);
  claim.extents = call.problem.x;
  if (call.work == SplitWork::kPooling) {
    claim.window = {call.problem.w, call.problem.stride, LayoutOf(call.problem)};
  }
  claim.sequence = sequence_;
  bool has_run = false;
  for (const AgreedKernel& kernel : made) {
    claim.prepared.push_back(ExtentsHash(kernel.first().extents(), kernel.first().windows()));
    has_run = has_run || kernel.first().refusal().empty();
  }
  if (has_run) return claim;
  ranks_->Doing("measuring and trying " + NameOf(call));
  const Status tried = Try(call, local);
  if (!tried.ok()) claim.not_ready = tried.message();
  if (!call.declared.is_replicated && !MayBeEqual(call)) claim.input_hash = InputHash(call);
  return claim;
}

// Every rank of the group comes here at the same call, and leaves with the same verdict.
SplitKernel* SplitCalls::KernelOf(const SplitCall& call, LocalCall& local, bool& agreed_now) {
  const KernelKey key = KernelKey::Of(call.problem, FormOf(functions_, call));
  const std::span<AgreedKernel> kernels = kernels_.Find(key);
  if (!kernels.empty() && !settings_.agrees_each_time) {
    return ForTensorsOf(call, local, kernels[0]);
  }
  agreed_now = true;
  const std::string name = NameOf(call);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) gathered_extents_[axis] = call.problem.x[axis];
  gathered_kernel_.store(HashOf(TextOf(call)), std::memory_order_release);
  gathering_.store(sequence_, std::memory_order_release);
  // A record that comes from now on is compared as it comes.
  if (const auto early = records().NotAgreeing()) FailNotNew(early->rank, early->record);
  // Before the rank's own call is tried, which measures: a channel takes memory, and its first
  // messages time.
  if (!OpenFirst(call)) return nullptr;
  const Claim claim = ClaimOf(call, local, kernels);
  const auto gathered = ranks_->Gather(EncodeClaim(claim), "agreeing on " + name);
  gathering_.store(0, std::memory_order_release);
  if (!gathered.ok()) {
    failure_.Fail(gathered.message());
    return nullptr;
  }
  Result<Agreed> agreed = AgreeOn(*gathered, failure_.RankOfJob(0));
  if (!agreed.ok()) {
    failure_.Fail(agreed.message());
    return nullptr;
  }
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    return kernel.first().extents() == agreed->extents &&
           kernel.first().windows() == agreed->windows;
  });
  if (agreed->equal_inputs && HoldsStripes(*agreed)) {
    WarnOnce("equal inputs " + claim.kernel,
             name +
                 ": all ranks hold the same values, as if they were copies and not stripes; "
                 "copies are declared with ucudnnSpatialDeclareReplicated");
  }
  // Only what all ranks have made is used again, because making it is a gather.
  if (agreed->is_prepared && found != kernels.end()) return ForTensorsOf(call, local, *found);
  auto made = MakeKernel(call, local, *agreed);
  if (made == nullptr) return nullptr;
  made->set_windows(agreed->windows);
  made->set_common_hash(HashOf(claim.kernel));
  if (!made->refusal().empty()) {
    Log(LogLevel::kError, name + " cannot be split: " + made->refusal());
  } else if (HasParameterGradient(call.problem.operation, call.work)) {
    has_gradients_ = true;
  }
  made->set_log_number(log_.Add(FactsOf(call, *made)));
  return &kernels_.Add(key, std::move(made)).first();
}

SplitKernel* SplitCalls::FirstGradientOf(const SplitCall& call, LocalCall& local,
                                         bool& agreed_now) {
  const std::optional<bool> sums = settings_.sums->Begin();
  if (std::exchange(sums_gradients_, sums) != sums) kernels_.ForgetGradients();
  SplitKernel* const kernel = KernelOf(call, local, agreed_now);
  settings_.sums->End(has_gradients_);
  return kernel;
}

Result<std::unique_ptr<SplitKernel>> SplitCalls::MakeForTensorsOf(const SplitCall& call,
                                                                  LocalCall& local,
                                                                  const SplitKernel& agreed) {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  UCUDNN_ASSIGN_OR_RETURN(const GroupStripes group,
                          StripesOf(call, agreed.extents(), agreed.windows()));
  UCUDNN_ASSIGN_OR_RETURN(
      auto made,
      SplitKernel::Make(ContextOf(call), group, FormOf(functions_, call),
                        sums_gradients_.value_or(true), agreed.slice_images(), most_buffer_bytes_));
  UCUDNN_RETURN_IF_ERROR(GrowAndTry(call, local, *made));
  made->set_extents(agreed.shared_extents());
  made->set_windows(agreed.windows());
  made->set_common_hash(agreed.common_hash());
  made->set_log_number(agreed.log_number());
  return made;
}

// The other ranks do not send again what this one alone would lose.
Status SplitCalls::GrowAndTry(const SplitCall& call, LocalCall& local, SplitKernel& made) {
  const bool follows = received_.sequence + 1 == sequence_;
  const bool is_second = call.declared.pair == Declared::Pair::kSecond;
  const size_t bytes = follows && is_second ? received_.bytes : 0;
  cuda::DeviceBuffer kept(device_->pool, driver_);
  UCUDNN_RETURN_IF_ERROR(kept.Reserve(bytes));
  UCUDNN_RETURN_IF_ERROR(CopyNow(kept.address(), device_->buffer.address(), bytes));
  UCUDNN_RETURN_IF_ERROR(device_->Grow(made.buffer_bytes()));
  UCUDNN_RETURN_IF_ERROR(made.Try({call.call, call.stream, local}, *device_));
  return CopyNow(device_->buffer.address(), kept.address(), bytes);
}

Status SplitCalls::CopyNow(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver_, driver_.cuMemcpyDtoDAsync(to, from, bytes, device_->stream.get()),
                         "keeping received rows"));
  return device_->stream.Synchronize();
}

SplitKernel* SplitCalls::ForTensorsOf(const SplitCall& call, LocalCall& local,
                                      AgreedKernel& agreed) {
  if (SplitKernel* const known = agreed.For(call.problem)) return known;
  Result<std::unique_ptr<SplitKernel>> made = MakeForTensorsOf(call, local, agreed.first());
  if (made.ok()) return agreed.Add(std::move(*made));
  failure_.FailAt(
      sequence_,
      "its tensors lie as never before, and its part cannot be made for them: " + made.message());
  return nullptr;
}

bool SplitCalls::HoldsStripes(const Agreed& agreed) const {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (IsOneOnAll(settings_.grid, agreed.extents, axis)) return false;
  }
  return true;
}

Result<GroupStripes> SplitCalls::PooledStripesOf(const SplitCall& call,
                                                 std::span<const Spatial> extents,
                                                 std::span<const OwnWindow> windows) const {
  const int rank = ranks_->membership().group_rank;
  UCUDNN_ASSIGN_OR_RETURN(const PooledAxes axes, AxesOfPooling(call.problem, settings_.grid,
                                                               extents, windows, settings_.ones));
  std::array<bool, kMaxSpatial> uncut = axes.copied;
  bool is_pooled = false;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    uncut[axis] = uncut[axis] || axes.pooled[axis];
    is_pooled = is_pooled || axes.pooled[axis];
  }
  UCUDNN_ASSIGN_OR_RETURN(GroupStripes group,
                          GroupStripes::Make(call.problem, settings_.grid, rank, extents, uncut));
  group.layout = windows[0].layout;
  if (is_pooled) group.pooled = PooledRanks::Of(settings_.grid, rank, extents, axes.pooled);
  return group;
}

Result<GroupStripes> SplitCalls::StripesOf(const SplitCall& call, std::span<const Spatial> extents,
                                           std::span<const OwnWindow> windows) const {
  const int rank = ranks_->membership().group_rank;
  if (call.declared.is_replicated) {
    for (size_t other = 1; other < extents.size(); ++other) {
      if (extents[other] == extents[0]) continue;
      return Status::Error("declared replicated, but " + failure_.NameOf(0) + " has " +
                           ExtentsText(extents[0]) + " elements and " +
                           failure_.NameOf(static_cast<int>(other)) + " has " +
                           ExtentsText(extents[other]));
    }
    return GroupStripes::Make(call.problem, settings_.grid, rank, extents, {true, true, true});
  }
  if (call.work == SplitWork::kPooling) return PooledStripesOf(call, extents, windows);
  const bool gradient = call.problem.operation == Operation::kBackwardFilter;
  if (gradient && call.plan != nullptr && !sums_gradients_) {
    return Status::Error(
        "a filter gradient of the graph API: UCUDNN_SPATIAL_REDUCE=all sums it over ranks here, "
        "none leaves that to the program");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto copied, CopiedAxes(call.problem, settings_.grid, extents,
                                                        settings_.ones, call.work));
  return GroupStripes::Make(call.problem, settings_.grid, rank, extents, copied);
}

PlanContext SplitCalls::ContextOf(const SplitCall& call) const {
  PlanContext context{functions_, driver_, call.call.handle, {}};
  context.demand.deterministic = settings_.deterministic;
  context.demand.most_workspace_bytes = most_buffer_bytes_ / 2;
  const CallForm form = FormOf(functions_, call);
  context.demand.is_fused = form.is_fused;
  context.demand.is_identity = form.is_identity;
  if (form.is_fused) context.demand.fused_plan = call.plan;
  return context;
}

std::optional<Result<std::vector<std::vector<uint64_t>>>> SplitCalls::GatherNumbers(
    std::span<const uint64_t> mine, const Status& own, const std::string& doing) {
  const auto gathered = ranks_->Gather(EncodeNumbers(mine, own), doing);
  if (gathered.ok()) return DecodeNumbers(*gathered, mine.size(), failure_.RankOfJob(0));
  failure_.Fail(gathered.message());
  return std::nullopt;
}

// Whatever becomes of a rank's own part, every rank gathers as often as the others.
std::unique_ptr<SplitKernel> SplitCalls::MakeKernel(const SplitCall& call, LocalCall& local,
                                                    const Agreed& agreed) {
  const auto refused = [&](const std::string& why) {
    return SplitKernel::Refused(agreed.extents, why);
  };
  if (!agreed.refusal.empty()) return refused(agreed.refusal);
  const Result<GroupStripes> group = StripesOf(call, agreed.extents, agreed.windows);
  if (!group.ok()) return refused(group.message());
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const std::string doing = "preparing " + NameOf(call);
  const PlanContext context = ContextOf(call);
  const CallForm form = FormOf(functions_, call);

  const bool sums = sums_gradients_.value_or(true);
  Result<std::unique_ptr<SplitKernel>> made =
      SplitKernel::MakeFitting(context, *group, form, sums, most_buffer_bytes_);
  const std::array<uint64_t, 1> images = {made.ok() ? static_cast<uint64_t>((*made)->slice_images())
                                                    : uint64_t{1}};
  const auto slices = GatherNumbers(images, made.status(), doing);
  if (!slices) return nullptr;
  if (!slices->ok()) return refused(slices->message());
  uint64_t slice = images[0];
  for (const auto& rank : slices->value()) slice = std::min(slice, rank[0]);

  if (slice < images[0]) {
    made->reset();
    made =
        SplitKernel::Make(context, *group, form, sums, static_cast<int>(slice), most_buffer_bytes_);
  }
  const size_t before = device_->buffer.size();
  Status own = made.status();
  // More slices than this rank asked for keep more.
  const size_t in_graphs = std::min(most_buffer_bytes_, captures_.bytes());
  if (own.ok() && (*made)->device_bytes() > most_buffer_bytes_ - in_graphs) {
    own = Status::Error("in slices of " + std::to_string(slice) + " images a call takes " +
                        FormatByteSize((*made)->device_bytes()) + ", and the limit leaves " +
                        FormatByteSize(most_buffer_bytes_ - in_graphs));
  }
  if (own.ok()) own = device_->Grow((*made)->buffer_bytes());
  if (device_->buffer.size() < before) {
    failure_.Fail(failure_.OwnName() + " lost its memory for exchanges: " + own.message());
    return nullptr;
  }
  if (own.ok()) own = (*made)->Try({call.call, call.stream, local}, *device_);
  std::array<uint64_t, 2> bytes = {0, 0};
  if (own.ok()) bytes = {(*made)->largest_message_bytes(), (*made)->reduced_bytes()};
  const auto sizes = GatherNumbers(bytes, own, doing);
  if (!sizes) return nullptr;
  if (!sizes->ok()) return refused(sizes->message());
  for (const auto& rank : sizes->value()) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::max(bytes[i], rank[i]);
  }
  // Both gather, too, and end alike on all ranks.
  if (const Status opened = Open(); !opened.ok()) {
    failure_.Fail(failure_.OfChannel(opened));
    return nullptr;
  }
  const Status reserved = channel_->Reserve(bytes[0], bytes[1]);
  if (failure_.has_failed()) return nullptr;
  if (!reserved.ok()) return refused(failure_.OfChannel(reserved));
  CountOwned();
  (*made)->set_extents(agreed.extents);
  return std::move(*made);
}

}  // namespace ucudnn::spatial
