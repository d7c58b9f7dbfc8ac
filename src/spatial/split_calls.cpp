#include "spatial/split_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/launcher_note.h"
#include "base/log.h"
#include "base/signals_blocked.h"

namespace ucudnn::spatial {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);
// Of one convolution, where extents change.
constexpr size_t kMostKernels = 64;

// Of the calling thread, and never of a later one: std::thread::id is used again, on one rank and
// not on another.
uint64_t ThreadIdentity() {
  static std::atomic<uint64_t> count = 0;
  thread_local const uint64_t identity = ++count;
  return identity;
}

// FNV-1a.
uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

// The ranks as a channel needs them.
class RanksGatherer : public transport::Gatherer {
 public:
  explicit RanksGatherer(transport::Ranks& ranks) : ranks_(ranks) {}
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view doing) override {
    return ranks_.Gather(mine, doing);
  }

 private:
  transport::Ranks& ranks_;
};

CallForm FormOf(const cudnn::Functions& functions, const SplitCall& call) {
  CallForm form;
  const cudnn::BiasActivation* const bias = call.call.bias;
  if (bias == nullptr) {
    form.reads_result = cudnn::ScaleOf(call.call.beta, call.problem.type) != 0;
    return form;
  }
  form.is_fused = true;
  form.reads_result = bias->z == call.call.y;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  cudnnNanPropagation_t nan;
  double coefficient = 0;
  form.is_identity = functions.cudnnGetActivationDescriptor(bias->activation, &mode, &nan,
                                                            &coefficient) == CUDNN_STATUS_SUCCESS &&
                     mode == CUDNN_ACTIVATION_IDENTITY;
  return form;
}

// The box that the call writes: its extents and strides.
struct Output {
  BoxExtents extents;
  Strides strides;
  void* data;
};

Output OutputOf(const SplitCall& call) {
  const ConvolutionProblem& p = call.problem;
  void* const data = call.call.*cudnn::OutputOf(p.operation);
  switch (p.operation) {
    case Operation::kForward: {
      const Spatial y = OutputExtents(p);
      return {{p.n, p.k, y[0], y[1], y[2]}, p.y_strides, data};
    }
    case Operation::kBackwardData:
      return {{p.n, p.c, p.x[0], p.x[1], p.x[2]}, p.x_strides, data};
    case Operation::kBackwardFilter:
      break;
  }
  const BoxExtents filter = {p.k, p.c / p.groups, p.w[0], p.w[1], p.w[2]};
  return {filter, PackedStrides(p.layout, filter), data};
}

size_t OutputBytes(const ConvolutionProblem& problem) {
  switch (problem.operation) {
    case Operation::kForward:
      return cudnn::OutputBytes(problem);
    case Operation::kBackwardData:
      return cudnn::ImageBytes(problem);
    case Operation::kBackwardFilter:
      break;
  }
  return cudnn::FilterBytes(problem);
}

}  // namespace

SplitCalls::SplitCalls(SplitSettings settings, const cudnn::Functions& functions,
                       const cuda::Driver& driver, std::unique_ptr<transport::Ranks> ranks,
                       OpenChannel open)
    : settings_(std::move(settings)),
      process_(getpid()),
      functions_(functions),
      driver_(driver),
      ranks_(std::move(ranks)),
      gatherer_(std::make_unique<RanksGatherer>(*ranks_)),
      open_(std::move(open)),
      records_(ranks_->membership().group_rank, ranks_->membership().group_size,
               settings_.grid.RankInGroup(ranks_->membership().group, 0)),
      left_(static_cast<size_t>(ranks_->membership().group_size)) {
  for (std::atomic<uint64_t>& last : left_) last = kHere;
  ranks_->OnFailure([this](std::string_view line) { HearFailure(line); });
  ranks_->OnLeave([this](int rank, std::string_view last) { HearLeave(rank, last); });
  ranks_->OnPost([this](int rank, std::string_view record) { HearPost(rank, record); });
  const SignalsBlocked blocked;
  watch_ = std::thread([this] { Watch(); });
}

SplitCalls::~SplitCalls() {
  {
    MutexLock lock(watch_mutex_);
    ends_ = true;
    watch_ends_.NotifyAll();
  }
  watch_.join();
  ranks_->OnPost(nullptr);
  ranks_->OnLeave(nullptr);
  ranks_->OnFailure(nullptr);
}

// Once for each rank: the first failure anywhere is told by every rank in the same words.
void SplitCalls::HearFailure(std::string_view line) {
  broken_.store(true, std::memory_order_release);
  transport::Channel* const channel = published_channel_.load(std::memory_order_acquire);
  if (channel != nullptr) channel->Abort();
  Log(LogLevel::kError, std::string(line) + "; after call " + std::to_string(records_.last()) +
                            " every split call of this rank fails");
  TellLauncher(LauncherNote::kFailed, line);
}

std::optional<std::string> SplitCalls::LeftBehind() const {
  for (size_t rank = 0; rank < left_.size(); ++rank) {
    const uint64_t last = left_[rank].load(std::memory_order_acquire);
    if (last >= waiting_.load(std::memory_order_acquire)) continue;
    return "rank " +
           std::to_string(
               settings_.grid.RankInGroup(ranks_->membership().group, static_cast<int>(rank))) +
           " ended after split call " + std::to_string(last) + ", but " + RankName() +
           " makes call " + std::to_string(waiting_.load());
  }
  return std::nullopt;
}

void SplitCalls::HearLeave(int rank, std::string_view last) {
  if (settings_.grid.GroupOf(rank) != ranks_->membership().group) return;
  const auto at = static_cast<size_t>(settings_.grid.GroupRankOf(rank));
  left_[at].store(std::strtoull(std::string(last).c_str(), nullptr, 10), std::memory_order_release);
  if (std::optional<std::string> line = LeftBehind()) Break(*line);
}

void SplitCalls::Watch() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{100};
  CallRecords::Slowest awaited;
  Clock::time_point since = Clock::now();
  bool told = false;
  MutexLock lock(watch_mutex_);
  while (!ends_ && !broken_.load(std::memory_order_acquire)) {
    watch_ends_.WaitUntil(watch_mutex_, Clock::now() + kLook);
    const CallRecords::Slowest slowest = records_.slowest();
    const bool comes = slowest.last >= waiting_.load(std::memory_order_acquire) ||
                       slowest.rank != awaited.rank || slowest.last != awaited.last;
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
    if (comes) {
      awaited = slowest;
      since = Clock::now();
      told = false;
      continue;
    }
    const std::string line =
        "rank " +
        std::to_string(settings_.grid.RankInGroup(ranks_->membership().group, slowest.rank)) +
        " has not come to split call " + std::to_string(slowest.last + 1) + " for " +
        std::to_string(waited.count() / 1000) + " s";
    if (waited > settings_.timeout) Break(line);
    if (waited > settings_.warning && !told) {
      Log(LogLevel::kWarn, RankName() + " waits: " + line);
      told = true;
    }
  }
}

void SplitCalls::HearPost(int rank, std::string_view bytes) {
  if (std::optional<std::string> difference = records_.Met(rank, bytes)) return Break(*difference);
  CallRecord theirs;
  if (bytes.size() != sizeof theirs) return;
  std::memcpy(&theirs, bytes.data(), sizeof theirs);
  if (theirs.sequence != gathering_.load(std::memory_order_acquire)) return;
  if (theirs.kind != CallKind::kAgreed) BreakNotNew(rank, theirs);
}

void SplitCalls::BreakNotNew(int rank, const CallRecord& theirs) {
  const std::string call = "call " + std::to_string(theirs.sequence) + " is new to " + RankName();
  const std::string other = "rank " + std::to_string(FirstRank() + rank);
  if (theirs.captured != 0) {
    return Break(call + ", and inside a CUDA graph capture on " + other);
  }
  const auto text = [](const Spatial& extents) {
    return std::to_string(extents[0]) + "x" + std::to_string(extents[1]) + "x" +
           std::to_string(extents[2]);
  };
  Break(call + " with extents " +
        text({gathered_extents_[0], gathered_extents_[1], gathered_extents_[2]}) + ", but not to " +
        other + " with extents " + text(theirs.extents) +
        "; where extents change, UCUDNN_SPATIAL_AGREE=each lets ranks gather at every call");
}

void SplitCalls::Break(const std::string& line) {
  broken_.store(true, std::memory_order_release);
  ranks_->Fail(line);
}

cudnnStatus_t SplitCalls::Broken(const SplitCall& call) const {
  FillOutput(call);
  return CUDNN_STATUS_EXECUTION_FAILED;
}

void SplitCalls::FillOutput(const SplitCall& call) const {
  const Output output = OutputOf(call);
  const cuda::ContextScope scope(driver_, call.context);
  // What cannot even be filled belongs to a device that is lost.
  const Status filled =
      FillWithNan(driver_, output.extents, output.strides, ElementBytes(call.problem.type),
                  reinterpret_cast<CUdeviceptr>(output.data), call.stream);
  if (!filled.ok() && LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, filled.message());
}

cudnnStatus_t SplitCalls::Run(const SplitCall& call, LocalCall& local) {
  if (!mutex_.TryLock()) {
    Break("two threads of rank " + std::to_string(ranks_->membership().group_rank) +
          " call split convolutions at once, so their order differs between ranks");
    return Broken(call);
  }
  MutexLock lock(mutex_, MutexLock::kAdopt);
  if (broken_.load(std::memory_order_acquire)) return Broken(call);
  const cuda::ContextScope scope(driver_, call.context);
  ++sequence_;
  if (device_ && device_->context != nullptr && CurrentContext() != device_->context) {
    Break(RankName() + " makes split calls on two devices; a rank has one");
    return Broken(call);
  }
  if (call.is_captured) {
    Post(call, nullptr, CallKind::kRefused);
    WarnOnce("spatial capture", "a split convolution inside a CUDA graph capture is not supported");
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  bool agreed_now = false;
  SplitKernel* const kernel = KernelOf(call, local, agreed_now);
  if (kernel == nullptr) return Broken(call);
  const bool refused = !kernel->refusal().empty();
  Post(call, kernel,
       agreed_now ? CallKind::kAgreed
       : refused  ? CallKind::kRefused
                  : CallKind::kExchanged);
  if (refused) {
    // The trial may have left the rank's own result there, which looks like one.
    if (agreed_now) FillOutput(call);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (kernel->needs_others()) waiting_.store(sequence_, std::memory_order_release);
  if (std::optional<std::string> line = LeftBehind()) {
    Break(*line);
    return Broken(call);
  }
  if (settings_.waits_for_records) {
    AwaitRecords(0);
    if (broken_.load(std::memory_order_acquire) || records_.differ()) return Broken(call);
  }
  const KernelOutcome outcome = kernel->Run({call.call, call.stream, local}, *device_, *channel_);
  if (!outcome.exact.ok()) {
    Break(RankName() + ", call " + std::to_string(sequence_) + ": " + outcome.exact.message());
    return Broken(call);
  }
  if (outcome.status != CUDNN_STATUS_SUCCESS) {
    Break(RankName() + ", call " + std::to_string(sequence_) +
          ": its own convolution failed with " + functions_.cudnnGetErrorString(outcome.status));
    return outcome.status;
  }
  return broken_.load(std::memory_order_acquire) ? Broken(call) : CUDNN_STATUS_SUCCESS;
}

void SplitCalls::Fail(const std::string& why) { Break(RankName() + ": " + why); }

std::optional<std::string> SplitCalls::Leave() {
  // A lock may be held for ever in a child.
  if (getpid() != process_) return std::nullopt;
  const transport::Membership& own = ranks_->membership();
  const auto last = ranks_->Leave(std::to_string(records_.last()));
  if (broken_.load(std::memory_order_acquire)) return std::nullopt;
  const auto calls_of = [&](int group_rank) -> std::optional<uint64_t> {
    const int rank = settings_.grid.RankInGroup(own.group, group_rank);
    const std::optional<std::string>& text = last[static_cast<size_t>(rank)];
    if (!text) return std::nullopt;
    return std::strtoull(text->c_str(), nullptr, 10);
  };
  int least = own.group_rank, most = own.group_rank;
  for (int rank = 0; rank < own.group_size; ++rank) {
    const auto calls = calls_of(rank);
    if (!calls) continue;
    if (*calls < *calls_of(least)) least = rank;
    if (*calls > *calls_of(most)) most = rank;
  }
  if (least == most || !calls_of(own.group_rank)) return std::nullopt;
  const uint64_t more = *calls_of(most) - *calls_of(least);
  if (more == 0) return std::nullopt;
  return "rank " + std::to_string(settings_.grid.RankInGroup(own.group, most)) + " made " +
         std::to_string(more) + (more == 1 ? " split call" : " split calls") + " more than rank " +
         std::to_string(settings_.grid.RankInGroup(own.group, least)) +
         ": what was computed meanwhile may be wrong";
}

int SplitCalls::FirstRank() const {
  return settings_.grid.RankInGroup(ranks_->membership().group, 0);
}

std::string SplitCalls::RankName() const {
  return "rank " + std::to_string(ranks_->membership().rank);
}

void SplitCalls::Forget(cudnnHandle_t handle) {
  MutexLock lock(handles_mutex_);
  handles_.erase(handle);
}

int SplitCalls::NumberOfThread() {
  return threads_.try_emplace(ThreadIdentity(), static_cast<int>(threads_.size())).first->second;
}

int SplitCalls::NumberOf(cudnnHandle_t handle) {
  MutexLock lock(handles_mutex_);
  const auto [at, is_new] = handles_.try_emplace(handle, handle_count_);
  if (is_new) ++handle_count_;
  return at->second;
}

void SplitCalls::Post(const SplitCall& call, const SplitKernel* kernel, CallKind kind) {
  CallRecord record;
  record.sequence = sequence_;
  record.extents = call.problem.x;
  record.operation = static_cast<int32_t>(call.problem.operation);
  record.thread = NumberOfThread();
  record.handle = NumberOf(call.call.handle);
  record.kind = kind;
  record.captured = call.is_captured ? 1 : 0;
  const auto size = static_cast<size_t>(ranks_->membership().group_size);
  // Of a captured call only its number and kind are compared.
  if (kernel == nullptr) record.extents = {};
  if (kernel != nullptr) record.kernel = kernel->common_hash();
  const std::vector<Spatial> none(kernel == nullptr ? size : 0, Spatial{});
  AwaitRecords(CallRecords::kMostAhead - 1);
  const std::optional<std::string> difference =
      records_.Add(record, kernel == nullptr ? std::span(none) : std::span(kernel->extents()));
  ranks_->Post({reinterpret_cast<const char*>(&record), sizeof record});
  if (difference) Break(*difference);
}

// Waits until this rank is at most `most_ahead` calls ahead of the slowest other one.
void SplitCalls::AwaitRecords(uint64_t most_ahead) {
  const auto deadline = std::chrono::steady_clock::now() + settings_.timeout;
  while (!broken_.load(std::memory_order_acquire) && records_.ahead() > most_ahead) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Break(RankName() + " is " + std::to_string(records_.ahead()) +
                   " calls ahead of the slowest rank");
    }
    std::this_thread::sleep_for(kPause);
  }
}

CUcontext SplitCalls::CurrentContext() const {
  CUcontext current = nullptr;
  return driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS ? current : nullptr;
}

void SplitCalls::NoteRefused(Operation operation, cudnnHandle_t handle) {
  MutexLock lock(mutex_);
  if (broken_.load(std::memory_order_acquire)) return;
  ++sequence_;
  ConvolutionProblem unread;
  unread.operation = operation;
  cudnn::ConvolutionCall call;
  call.handle = handle;
  Post({unread, call}, nullptr, CallKind::kRefused);
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
  setup.gatherer = gatherer_.get();
  setup.timeout = settings_.timeout;
  setup.given_up = [this] { return broken_.load(std::memory_order_acquire); };
  setup.add = [device = &*device_](CUdeviceptr to, CUdeviceptr from, size_t count,
                                   transport::Element element, CUstream) {
    static constexpr float kOne = 1;
    static constexpr double kWideOne = 1;
    const bool wide = element == transport::Element::kFloat64;
    return device->add.Run(device->handle, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, from, count,
                           wide ? static_cast<const void*>(&kWideOne) : &kOne, to);
  };
  UCUDNN_ASSIGN_OR_RETURN(channel_, open_(setup));
  published_channel_.store(channel_.get(), std::memory_order_release);
  if (broken_.load(std::memory_order_acquire)) channel_->Abort();
  return Status::Ok();
}

Status SplitCalls::Try(const SplitCall& call, LocalCall& local) {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  UCUDNN_RETURN_IF_ERROR(Prepare());
  cudnn::ConvolutionCall trial = call.call;
  CUdeviceptr scratch = 0;
  if (FormOf(functions_, call).reads_result) {
    const size_t bytes = OutputBytes(call.problem);
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(driver_, driver_.cuMemAlloc(&scratch, bytes), "memory to try the call"));
    trial.*cudnn::OutputOf(call.problem.operation) = reinterpret_cast<void*>(scratch);
  }
  const cudnnStatus_t status = local.Run(trial);
  if (scratch != 0) {
    driver_.cuStreamSynchronize(call.stream);
    driver_.cuMemFree(scratch);
  }
  return cudnn::CudnnStatus(functions_, status, "its own convolution");
}

Claim SplitCalls::ClaimOf(const SplitCall& call, LocalCall& local, const Kernels& made) {
  Claim claim;
  claim.options = settings_.shared_options;
  claim.kernel = KernelText(call.problem, FormOf(functions_, call).is_fused, settings_.grid);
  claim.extents = call.problem.x;
  claim.sequence = sequence_;
  bool has_run = false;
  for (const auto& kernel : made) {
    claim.prepared.push_back(ExtentsHash(kernel->extents()));
    has_run = has_run || kernel->refusal().empty();
  }
  if (has_run) return claim;
  const Status tried = Try(call, local);
  if (!tried.ok()) claim.not_ready = tried.message();
  return claim;
}

// Every rank of the group comes here at the same call, and leaves with the same verdict.
SplitKernel* SplitCalls::KernelOf(const SplitCall& call, LocalCall& local, bool& agreed_now) {
  const KernelKey key{call.problem, FormOf(functions_, call)};
  Kernels& kernels = kernels_[key];
  if (!kernels.empty() && !settings_.agrees_each_time) return kernels.front().get();
  agreed_now = true;
  const std::string name = Describe(call.problem);
  const Claim claim = ClaimOf(call, local, kernels);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) gathered_extents_[axis] = call.problem.x[axis];
  gathering_.store(sequence_, std::memory_order_release);
  // A record that comes from now on is compared as it comes.
  if (const auto early = records_.NotAgreeing()) BreakNotNew(early->rank, early->record);
  const auto gathered = ranks_->Gather(EncodeClaim(claim), "agreeing on " + name);
  gathering_.store(0, std::memory_order_release);
  if (!gathered.ok()) {
    Break(gathered.message());
    return nullptr;
  }
  Result<Agreed> agreed = AgreeOn(*gathered, FirstRank());
  if (!agreed.ok()) {
    Break(agreed.message());
    return nullptr;
  }
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    return kernel->extents() == agreed->extents;
  });
  // Only what all ranks have made is used again, because making it is a gather.
  if (agreed->is_prepared && found != kernels.end()) return found->get();
  auto made = MakeKernel(call, local, *agreed);
  if (made == nullptr) return nullptr;
  made->set_common_hash(HashOf(claim.kernel));
  if (!made->refusal().empty()) {
    Log(LogLevel::kError, name + " cannot be split: " + made->refusal());
  }
  if (found != kernels.end()) return (*found = std::move(made)).get();
  if (kernels.size() == kMostKernels) kernels.erase(kernels.begin());
  return kernels.emplace_back(std::move(made)).get();
}

Result<GroupStripes> SplitCalls::StripesOf(const SplitCall& call, const Agreed& agreed) const {
  const bool gradient = call.problem.operation == Operation::kBackwardFilter;
  if (gradient && !call.is_legacy && !settings_.sums_gradients) {
    return Status::Error(
        "a filter gradient of the graph API: UCUDNN_SPATIAL_REDUCE=all sums it over ranks here, "
        "none leaves that to the program");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto copied,
                          CopiedAxes(call.problem, settings_.grid, agreed.extents, settings_.ones));
  return GroupStripes::Make(call.problem, settings_.grid, ranks_->membership().group_rank,
                            agreed.extents, copied);
}

PlanContext SplitCalls::ContextOf(const SplitCall& call) const {
  PlanContext context{functions_, driver_, call.call.handle, {}};
  context.demand.deterministic = settings_.deterministic;
  context.demand.most_workspace_bytes = settings_.most_buffer_bytes / 2;
  context.demand.is_fused = call.call.bias != nullptr;
  context.demand.is_identity = FormOf(functions_, call).is_identity;
  return context;
}

std::optional<Result<std::vector<std::vector<uint64_t>>>> SplitCalls::GatherNumbers(
    std::span<const uint64_t> mine, const Status& own, const std::string& doing) {
  const auto gathered = ranks_->Gather(EncodeNumbers(mine, own), doing);
  if (gathered.ok()) return DecodeNumbers(*gathered, mine.size(), FirstRank());
  Break(gathered.message());
  return std::nullopt;
}

// Whatever becomes of a rank's own part, every rank gathers as often as the others.
std::unique_ptr<SplitKernel> SplitCalls::MakeKernel(const SplitCall& call, LocalCall& local,
                                                    const Agreed& agreed) {
  const auto refused = [&](const std::string& why) {
    return SplitKernel::Refused(agreed.extents, why);
  };
  if (!agreed.refusal.empty()) return refused(agreed.refusal);
  const Result<GroupStripes> group = StripesOf(call, agreed);
  if (!group.ok()) return refused(group.message());
  const cuda::RelaxedCaptureScope relaxed(driver_);
  const std::string doing = "preparing " + Describe(call.problem);
  const PlanContext context = ContextOf(call);
  const CallForm form = FormOf(functions_, call);

  const Result<int> fitting =
      SplitKernel::FittingImages(context, *group, form, settings_.most_buffer_bytes);
  const std::array<uint64_t, 1> images = {fitting.ok() ? static_cast<uint64_t>(*fitting)
                                                       : uint64_t{1}};
  const auto slices = GatherNumbers(images, fitting.status(), doing);
  if (!slices) return nullptr;
  if (!slices->ok()) return refused(slices->message());
  uint64_t slice = images[0];
  for (const auto& rank : slices->value()) slice = std::min(slice, rank[0]);

  Result<std::unique_ptr<SplitKernel>> made = SplitKernel::Make(
      context, *group, form, settings_.sums_gradients.value_or(true), static_cast<int>(slice));
  const size_t before = device_->buffer.size();
  Status own = made.ok() ? device_->Grow((*made)->buffer_bytes()) : made.status();
  if (device_->buffer.size() < before) {
    Break(RankName() + " lost its memory for exchanges: " + own.message());
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
  Status ready = Open();
  if (ready.ok()) ready = channel_->Reserve(bytes[0], bytes[1]);
  if (!ready.ok()) {
    Break(ready.message());
    return nullptr;
  }
  (*made)->set_extents(agreed.extents);
  return std::move(*made);
}

}  // namespace ucudnn::spatial
