#include "spatial/kernel_agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/byte_size.h"
#include "base/log.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

// Returns kNhwc if the stride along the channels is 1 and the stride along w is greater.
Layout LayoutOf(const ConvolutionProblem& problem) {
  const bool is_nhwc = problem.c > 1 && problem.x_strides[1] == 1 && problem.x_strides[4] > 1;
  return is_nhwc ? Layout::kNhwc : Layout::kNchw;
}

std::string NameOf(const SplitCall& call) {
  CallProperties form;
  form.work = call.work;
  form.pooling = call.pooling;
  return NameOf(form) + Describe(call.problem);
}

// Returns whether the inputs of all ranks may be equal although they are not copies. For example,
// the gradient of a global average is the same at all positions of a channel, and therefore on all
// ranks.
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

KernelAgreement::KernelAgreement(const SplitSettings& settings, RankDevice& device,
                                 transport::Ranks& ranks, RankFailure& failure,
                                 const CallRecords& records, KernelLog& log)
    : settings_(settings),
      functions_(device.functions()),
      driver_(device.driver()),
      device_(device),
      ranks_(ranks),
      failure_(failure),
      records_(records),
      log_(log) {}

bool KernelAgreement::OpenFirst(const Turn& turn) {
  if (device_.is_open()) return true;
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const auto ready = GatherNumbers({}, device_.Prepare(), "agreeing on " + NameOf(turn.call));
  if (!ready) return false;
  if (!ready->ok()) return true;
  const Status opened = device_.Open(settings_.timeout);
  if (!opened.ok()) failure_.Fail(failure_.OfChannel(opened));
  return opened.ok();
}

Status KernelAgreement::Try(const Turn& turn) {
  const SplitCall& call = turn.call;
  const cuda::RelaxedCaptureScope relaxed(driver_);
  UCUDNN_RETURN_IF_ERROR(device_.Prepare());
  cudnn::ConvolutionCall trial = call.call;
  // `plain` has no memory pool of the driver, because its Create is not called. So `scratch` is
  // freed with cuMemFree, which waits for the device.
  const cuda::MemoryPool plain(driver_);
  cuda::DeviceBuffer scratch(plain, driver_);
  if (turn.form.reads_result) {
    UCUDNN_RETURN_IF_ERROR(scratch.Reserve(cudnn::ResultBytes(call.problem)));
    trial.*cudnn::OutputOf(call.problem.operation) = scratch.data();
  }
  constexpr const char* kDoing = "its own convolution";
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions_, turn.local.Try(trial), kDoing));
  return cuda::DriverStatus(driver_, driver_.cuStreamSynchronize(call.stream), kDoing);
}

std::string KernelAgreement::TextOf(const Turn& turn) const {
  const SplitCall& call = turn.call;
  std::string text = KernelText(call.problem, turn.form, settings_.grid);
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

uint64_t KernelAgreement::InputHash(const SplitCall& call) const {
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

Claim KernelAgreement::ClaimOf(const Turn& turn, std::span<const AgreedKernel> made) {
  const SplitCall& call = turn.call;
  Claim claim;
  most_buffer_bytes_ = settings_.most_buffer_bytes();
  claim.options = settings_.shared_options + ", at most " + FormatByteSize(most_buffer_bytes_) +
                  " for exchanges";
  claim.kernel = TextOf(turn);
  claim.extents = call.problem.x;
  if (call.work == SplitWork::kPooling) {
    claim.window = {call.problem.w, call.problem.stride, LayoutOf(call.problem)};
  }
  claim.sequence = turn.sequence;
  bool has_run = false;
  for (const AgreedKernel& kernel : made) {
    claim.prepared.push_back(ExtentsHash(kernel.first().extents(), kernel.first().windows()));
    has_run = has_run || kernel.first().refusal().empty();
  }
  if (has_run) return claim;
  ranks_.Doing("measuring and trying " + NameOf(call));
  const Status tried = Try(turn);
  if (!tried.ok()) claim.not_ready = tried.message();
  if (!call.declared.is_replicated && !MayBeEqual(call)) claim.input_hash = InputHash(call);
  return claim;
}

void KernelAgreement::HearPost(int rank, const CallRecord& theirs) {
  if (theirs.sequence != gathering_.load(std::memory_order_acquire)) return;
  if (theirs.kind != RecordKind::kAgreed) FailNotNew(rank, theirs);
}

void KernelAgreement::FailNotNew(int rank, const CallRecord& theirs) {
  const std::string call =
      "call " + std::to_string(theirs.sequence) + " is new to " + failure_.OwnName();
  const std::string other = failure_.NameOf(rank);
  const std::string suspect = SuspectFrom(theirs.sequence);
  if (theirs.captured != 0) {
    return failure_.Fail(call + ", and inside a CUDA graph capture on " + other + suspect);
  }
  if (theirs.kind == RecordKind::kReplicated) {
    return failure_.Fail("call " + std::to_string(theirs.sequence) + " is declared replicated on " +
                         other + ", but not on " + failure_.OwnName() + suspect);
  }
  if (theirs.kernel != gathered_kernel_.load(std::memory_order_acquire)) {
    return failure_.Fail(
        call + ", and another kernel" +
        (theirs.kind == RecordKind::kRefused ? ", which was refused, on " : " on ") + other + ". " +
        kPrivateCalls + suspect);
  }
  failure_.Fail(
      call + " with extents " +
      ExtentsText({gathered_extents_[0], gathered_extents_[1], gathered_extents_[2]}) +
      ", but not to " + other + " with extents " + ExtentsText(theirs.extents) +
      "; where extents change, UCUDNN_SPATIAL_AGREE=each lets ranks gather at every call" +
      suspect);
}

// All ranks of the group gather claims at the same call, and get the same agreement.
KernelAgreement::Found KernelAgreement::FindOrAgree(const Turn& turn) {
  const SplitCall& call = turn.call;
  const KernelKey key = KernelKey::Of(call.problem, turn.form);
  const std::span<AgreedKernel> kernels = kernels_.Find(key);
  if (!kernels.empty() && !settings_.agrees_each_time) return {ForTensorsOf(turn, kernels[0])};
  const std::string name = NameOf(call);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) gathered_extents_[axis] = call.problem.x[axis];
  gathered_kernel_.store(HashOf(TextOf(turn)), std::memory_order_release);
  gathering_.store(turn.sequence, std::memory_order_release);
  // HearPost compares records that arrive from now on; this line compares the records that have
  // already arrived.
  if (const auto early = records_.NotAgreeing()) FailNotNew(early->rank, early->record);
  // Opens the channel before ClaimOf measures and runs the rank's own call, because an open channel
  // occupies memory, and because connecting takes time.
  if (!OpenFirst(turn)) return {};
  const Claim claim = ClaimOf(turn, kernels);
  const auto gathered = ranks_.Gather(EncodeClaim(claim), "agreeing on " + name);
  gathering_.store(0, std::memory_order_release);
  if (!gathered.ok()) {
    failure_.Fail(gathered.message());
    return {};
  }
  Result<Agreed> agreed = AgreeOn(*gathered, failure_.RankOfJob(0));
  if (!agreed.ok()) {
    failure_.Fail(agreed.message());
    return {};
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
  // All ranks make a kernel together, because MakeKernel gathers values of all ranks. So a kernel
  // that this rank has made before is used again only if all ranks still have that kernel.
  if (agreed->is_prepared && found != kernels.end()) return {ForTensorsOf(turn, *found), true};
  auto made = MakeKernel(turn, *agreed);
  if (made == nullptr) return {};
  made->set_windows(agreed->windows);
  made->set_common_hash(HashOf(claim.kernel));
  if (!made->refusal().empty()) {
    Log(LogLevel::kError, name + " cannot be split: " + made->refusal());
  } else if (HasParameterGradient(call.problem.operation, call.work)) {
    has_gradients_ = true;
  }
  const Result<GroupStripes> group = made->refusal().empty()
                                         ? StripesOf(call, made->extents(), made->windows())
                                         : Status::Error(made->refusal());
  made->set_log_number(log_.Add(FactsOf(call, *made, claim.kernel, group)));
  return {&kernels_.Add(key, std::move(made)).first(), true};
}

KernelAgreement::Found KernelAgreement::KernelOf(const Turn& turn) {
  const bool is_gradient = HasParameterGradient(turn.call.problem.operation, turn.call.work);
  if (has_gradients_ || !is_gradient) return FindOrAgree(turn);
  const std::optional<bool> sums = settings_.sums->Begin();
  if (std::exchange(sums_gradients_, sums) != sums) kernels_.ForgetGradients();
  const Found found = FindOrAgree(turn);
  settings_.sums->End(has_gradients_);
  return found;
}

Result<SplitKernel*> KernelAgreement::FindForCapture(const SplitCall& call) {
  const KernelKey key = KernelKey::Of(call.problem, FormOf(functions_, call));
  const std::span<AgreedKernel> kernels = kernels_.Find(key);
  if (kernels.empty()) {
    return Status::Error(
        "it has not run outside of a capture before, which is where ranks agree on it");
  }
  if (settings_.agrees_each_time) {
    return Status::Error(
        "with UCUDNN_SPATIAL_AGREE=each ranks agree at every call, and a graph makes none");
  }
  if (device_.is_open()) UCUDNN_RETURN_IF_ERROR(device_.channel().CanBeCaptured());
  return kernels[0].For(call.problem);
}

Result<std::unique_ptr<SplitKernel>> KernelAgreement::MakeForTensorsOf(const Turn& turn,
                                                                       const SplitKernel& agreed) {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  UCUDNN_ASSIGN_OR_RETURN(const GroupStripes group,
                          StripesOf(turn.call, agreed.extents(), agreed.windows()));
  UCUDNN_ASSIGN_OR_RETURN(auto made, SplitKernel::Make(ContextOf(turn), group, turn.form,
                                                       sums_gradients_.value_or(true),
                                                       agreed.slice_images(), most_buffer_bytes_));
  UCUDNN_RETURN_IF_ERROR(
      device_.GrowAndTry(*made, {turn.call.call, turn.call.stream, turn.local}, turn.kept_bytes));
  made->set_extents(agreed.shared_extents());
  made->set_windows(agreed.windows());
  made->set_common_hash(agreed.common_hash());
  made->set_log_number(agreed.log_number());
  return made;
}

SplitKernel* KernelAgreement::ForTensorsOf(const Turn& turn, AgreedKernel& agreed) {
  if (SplitKernel* const known = agreed.For(turn.call.problem)) return known;
  Result<std::unique_ptr<SplitKernel>> made = MakeForTensorsOf(turn, agreed.first());
  if (made.ok()) return agreed.Add(std::move(*made));
  failure_.FailAt(
      turn.sequence,
      "its tensors lie as never before, and its part cannot be made for them: " + made.message());
  return nullptr;
}

bool KernelAgreement::HoldsStripes(const Agreed& agreed) const {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (IsOneOnAll(settings_.grid, agreed.extents, axis)) return false;
  }
  return true;
}

Result<GroupStripes> KernelAgreement::PooledStripesOf(const SplitCall& call,
                                                      std::span<const Spatial> extents,
                                                      std::span<const OwnWindow> windows) const {
  const int rank = ranks_.membership().group_rank;
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

Result<GroupStripes> KernelAgreement::StripesOf(const SplitCall& call,
                                                std::span<const Spatial> extents,
                                                std::span<const OwnWindow> windows) const {
  const int rank = ranks_.membership().group_rank;
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

PlanContext KernelAgreement::ContextOf(const Turn& turn) const {
  PlanContext context{functions_, driver_, turn.call.call.handle, {}};
  context.demand.deterministic = settings_.deterministic;
  context.demand.most_workspace_bytes = most_buffer_bytes_ / 2;
  context.demand.is_fused = turn.form.is_fused;
  context.demand.is_identity = turn.form.is_identity;
  if (turn.form.is_fused) context.demand.fused_plan = turn.call.plan;
  return context;
}

std::optional<Result<std::vector<std::vector<uint64_t>>>> KernelAgreement::GatherNumbers(
    std::span<const uint64_t> mine, const Status& own, const std::string& doing) {
  const auto gathered = ranks_.Gather(EncodeNumbers(mine, own), doing);
  if (gathered.ok()) return DecodeNumbers(*gathered, mine.size(), failure_.RankOfJob(0));
  failure_.Fail(gathered.message());
  return std::nullopt;
}

// Calls GatherNumbers equally often on every rank, even if this rank's own part fails.
std::unique_ptr<SplitKernel> KernelAgreement::MakeKernel(const Turn& turn, const Agreed& agreed) {
  const auto refused = [&](const std::string& why) {
    return SplitKernel::Refused(agreed.extents, why);
  };
  if (!agreed.refusal.empty()) return refused(agreed.refusal);
  const Result<GroupStripes> group = StripesOf(turn.call, agreed.extents, agreed.windows);
  if (!group.ok()) return refused(group.message());
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const std::string doing = "preparing " + NameOf(turn.call);
  const PlanContext context = ContextOf(turn);
  const bool sums = sums_gradients_.value_or(true);
  Result<std::unique_ptr<SplitKernel>> made =
      SplitKernel::MakeFitting(context, *group, turn.form, sums, most_buffer_bytes_);
  const std::array<uint64_t, 1> images = {made.ok() ? static_cast<uint64_t>((*made)->slice_images())
                                                    : uint64_t{1}};
  const auto slices = GatherNumbers(images, made.status(), doing);
  if (!slices) return nullptr;
  if (!slices->ok()) return refused(slices->message());
  uint64_t slice = images[0];
  for (const auto& rank : slices->value()) slice = std::min(slice, rank[0]);

  if (slice < images[0]) {
    made->reset();
    made = SplitKernel::Make(context, *group, turn.form, sums, static_cast<int>(slice),
                             most_buffer_bytes_);
  }
  ExchangeResources& resources = device_.resources();
  const size_t before = resources.buffer.size();
  Status own = made.status();
  // Another rank may have asked for smaller slices than this rank has planned for. A call in
  // smaller slices may need more memory.
  const size_t in_graphs = std::min(most_buffer_bytes_, device_.captured_bytes());
  if (own.ok() && (*made)->device_bytes() > most_buffer_bytes_ - in_graphs) {
    own = Status::Error("in slices of " + std::to_string(slice) + " images a call takes " +
                        FormatByteSize((*made)->device_bytes()) + ", and the limit leaves " +
                        FormatByteSize(most_buffer_bytes_ - in_graphs));
  }
  if (own.ok()) own = resources.Grow((*made)->buffer_bytes());
  if (resources.buffer.size() < before) {
    failure_.Fail(failure_.OwnName() + " lost its memory for exchanges: " + own.message());
    return nullptr;
  }
  if (own.ok()) own = (*made)->Try({turn.call.call, turn.call.stream, turn.local}, resources);
  std::array<uint64_t, 2> bytes = {0, 0};
  if (own.ok()) bytes = {(*made)->largest_message_bytes(), (*made)->reduced_bytes()};
  const auto sizes = GatherNumbers(bytes, own, doing);
  if (!sizes) return nullptr;
  if (!sizes->ok()) return refused(sizes->message());
  for (const auto& rank : sizes->value()) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::max(bytes[i], rank[i]);
  }
  // Open and Reserve gather values of all ranks, so they succeed on all ranks or fail on all ranks.
  if (const Status opened = device_.Open(settings_.timeout); !opened.ok()) {
    failure_.Fail(failure_.OfChannel(opened));
    return nullptr;
  }
  const Status reserved = device_.channel().Reserve(bytes[0], bytes[1]);
  if (failure_.has_failed()) return nullptr;
  if (!reserved.ok()) return refused(failure_.OfChannel(reserved));
  device_.CountOwned();
  (*made)->set_extents(agreed.extents);
  return std::move(*made);
}

}  // namespace ucudnn::spatial
