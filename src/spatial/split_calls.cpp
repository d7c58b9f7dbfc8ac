#include "spatial/split_calls.h"

#include <unistd.h>

#include <cstring>

#include "base/log.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

// Returns the tensor that the call writes.
DeviceBox OutputOf(const SplitCall& call) {
  const ConvolutionProblem& p = call.problem;
  const CUdeviceptr data = ToDevice(call.call.*cudnn::OutputOf(p.operation));
  const size_t element = ElementBytes(p.type);
  switch (p.operation) {
    case Operation::kForward: {
      const Spatial y = call.work == SplitWork::kRows ? WithRowsBeside(p) : OutputExtents(p);
      return {{p.n, p.k, y[0], y[1], y[2]}, p.y_strides, element, data};
    }
    case Operation::kBackwardData:
      return {{p.n, p.c, p.x[0], p.x[1], p.x[2]}, p.x_strides, element, data};
    case Operation::kBackwardFilter:
      break;
  }
  const BoxExtents filter = {p.k, p.c / p.groups, p.w[0], p.w[1], p.w[2]};
  return {filter, PackedStrides(p.layout, filter), element, data};
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
      failure_(*ranks_, settings_.grid),
      times_(settings_.times_exchanges ? std::make_unique<ExchangeTimes>(driver_) : nullptr),
      watch_(*ranks_, failure_, {settings_.warning, settings_.timeout},
             [this](const DeviceCall& begun) {
               exchanged_bytes_ += begun.exchanged_bytes;
               log_.Count(begun.log_number, false);
             }),
      sequence_(settings_, *ranks_, failure_, records()),
      device_(functions, driver, *ranks_, failure_, std::move(open)),
      agreement_(settings_, device_, *ranks_, failure_, records(), log_) {
  ranks_->OnFailure([this](std::string_view line) { failure_.Hear(line, records()); });
  ranks_->OnLeave([this](int rank, std::string_view last) {
    if (settings_.grid.GroupOf(rank) != ranks_->membership().group) return;
    watch_.HearLeave(settings_.grid.GroupRankOf(rank), last);
  });
  ranks_->OnPost([this](int rank, std::string_view record) { HearPost(rank, record); });
  try {
    watch_.Start();
  } catch (...) {
    HearNoMore();
    throw;
  }
}

void SplitCalls::HearNoMore() {
  ranks_->OnPost(nullptr);
  ranks_->OnLeave(nullptr);
  ranks_->OnFailure(nullptr);
}

SplitCalls::~SplitCalls() {
  watch_.End();
  HearNoMore();
}

void SplitCalls::HearPost(int rank, std::string_view bytes) {
  CallRecord theirs;
  if (bytes.size() == sizeof theirs) std::memcpy(&theirs, bytes.data(), sizeof theirs);
  const bool is_begun = theirs.kind == RecordKind::kBegun;
  if (std::optional<std::string> difference =
          (is_begun ? watch_.begun() : watch_.calls()).records().AddOf(rank, bytes)) {
    return failure_.Fail(*difference);
  }
  if (!is_begun) agreement_.HearPost(rank, theirs);
}

cudnnStatus_t SplitCalls::Broken(const SplitCall& call) const {
  FillOutput(call);
  return CUDNN_STATUS_EXECUTION_FAILED;
}

void SplitCalls::FillOutput(const SplitCall& call) const {
  const cuda::ContextScope scope(driver_, call.context);
  // If filling fails, the device is lost, and nothing more can be done.
  Status filled = Fill(driver_, OutputOf(call), kNanByte, call.stream);
  if (const cudnn::NormGradient* const gradient = call.call.gradient) {
    const size_t number = call.problem.type == DataType::kDouble ? sizeof(double) : sizeof(float);
    for (void* const numbers : {gradient->dscale, gradient->dbias}) {
      driver_.cuMemsetD8Async(ToDevice(numbers), kNanByte,
                              static_cast<size_t>(call.problem.c) * number, call.stream);
    }
  }
  if (!filled.ok() && LogEnabled(LogLevel::kDebug)) Log(LogLevel::kDebug, filled.message());
}

void SplitCalls::FailTwoThreads() {
  failure_.Fail("two threads of " + failure_.OwnName() +
                " call split convolutions at once, so their order differs between ranks");
}

cudnnStatus_t SplitCalls::Run(const SplitCall& call, LocalCall& local) {
  if (!in_call_.TryLock()) {
    FailTwoThreads();
    return Broken(call);
  }
  const MutexLock in_call(in_call_, MutexLock::kAdopt);
  // Waits if another thread is in Await, which holds mutex_ while it enqueues.
  MutexLock lock(mutex_);
  if (failure_.has_failed()) return Broken(call);
  const cuda::ContextScope scope(driver_, call.context);
  sequence_.Begin();
  if (device_.IsAnother()) {
    failure_.Fail(failure_.OwnName() + " makes split calls on two devices; a rank has one");
    return Broken(call);
  }
  if (call.is_captured) return RunCaptured(call, local);
  const bool follows = received_.sequence + 1 == sequence_.number();
  const bool is_second = call.declared.pair == CallDeclarations::Pair::kSecond;
  const CallProperties form = FormOf(functions_, call);
  const auto [kernel, agreed_now] = agreement_.KernelOf(
      {call, local, sequence_.number(), form, follows && is_second ? received_.bytes : 0});
  if (kernel == nullptr) return Broken(call);
  const bool refused = !kernel->refusal().empty();
  // An agreement may have overwritten the received rows in the buffer.
  const bool has_rows = !agreed_now && !refused && HasRows(call, *kernel);
  sequence_.Post(call, kernel, {agreed_now, has_rows});
  if (refused) {
    log_.Count(kernel->log_number(), false);
    // KernelAgreement::Try may have left the rank's own result in the output. This result would
    // look like a correct result.
    if (agreed_now && !form.reads_result) FillOutput(call);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (kernel->needs_others()) watch_.calls().set_waiting(sequence_.number());
  if (watch_.FailIfLeftBehind() || !sequence_.AwaitIfChecked()) return Broken(call);
  if (!has_rows) exchanged_bytes_ += kernel->exchanged_bytes();
  const KernelOutcome outcome = RunCounted(call, local, *kernel, has_rows);
  watch_.NoteEnqueued(sequence_.number());
  if (call.declared.pair == CallDeclarations::Pair::kFirst &&
      kernel->exchanges_gradient_at_once()) {
    received_ = {sequence_.number(), call.call.y, call.problem, kernel->form().hides_nan,
                 kernel->received_end()};
  }
  return Conclude(call, outcome);
}

cudnnStatus_t SplitCalls::Conclude(const SplitCall& call, const KernelOutcome& outcome) {
  if (!outcome.exact.ok()) {
    failure_.FailAt(sequence_.number(),
                    failure_.OfChannel(outcome.exact) + SuspectFrom(sequence_.number()));
    return Broken(call);
  }
  if (outcome.status != CUDNN_STATUS_SUCCESS) {
    failure_.FailAt(sequence_.number(), std::string("its own call failed with ") +
                                            functions_.cudnnGetErrorString(outcome.status) +
                                            SuspectFrom(sequence_.number()));
    return outcome.status;
  }
  return failure_.has_failed() ? Broken(call) : CUDNN_STATUS_SUCCESS;
}

bool SplitCalls::HasRows(const SplitCall& call, const SplitKernel& kernel) const {
  if (call.declared.pair != CallDeclarations::Pair::kSecond ||
      received_.sequence + 1 != sequence_.number() || received_.dy != call.call.y ||
      received_.problem.operation == call.problem.operation ||
      received_.hides_nan != kernel.form().hides_nan || !kernel.exchanges_gradient_at_once()) {
    return false;
  }
  // x of one call is dx of the other call, so their strides may differ.
  ConvolutionProblem other = received_.problem;
  other.operation = call.problem.operation;
  other.x_strides = call.problem.x_strides;
  return other == call.problem;
}

Status SplitCalls::Await(CUcontext context, CUstream stream) {
  MutexLock lock(mutex_);
  if (!device_.is_prepared()) return Status::Ok();
  const cuda::Event& deferred = device_.resources().deferred;
  const cuda::ContextScope scope(driver_, context);
  if (!cuda::IsCapturing(driver_, stream)) return deferred.HoldBack(stream);
  // Captured calls never defer sums, so any pending sum is outside of the capture.
  const cuda::RelaxedCaptureScope relaxed(driver_);
  if (!deferred.Pending()) return Status::Ok();
  return Status::Error("a CUDA graph cannot wait for a sum that was deferred outside of it");
}

SplitFigures SplitCalls::figures() const {
  return {watch_.calls().records().last(), exchanged_bytes_.load(), device_.owned_bytes()};
}

void SplitCalls::Fail(const std::string& why) { failure_.Fail(failure_.OwnName() + ": " + why); }

std::optional<std::string> SplitCalls::Leave() {
  // In a forked child, a lock that another thread held at the fork stays locked for ever.
  if (getpid() != process_) return std::nullopt;
  if (failure_.has_failed()) failure_.AwaitTold();
  return watch_.Leave();
}

void SplitCalls::NoteRefused(Operation operation, cudnnHandle_t handle) {
  if (getpid() != process_) return;
  if (!in_call_.TryLock()) return FailTwoThreads();
  const MutexLock in_call(in_call_, MutexLock::kAdopt);
  MutexLock lock(mutex_);
  if (failure_.has_failed()) return;
  sequence_.Begin();
  ConvolutionProblem unread;
  unread.operation = operation;
  cudnn::ConvolutionCall call;
  call.handle = handle;
  sequence_.Post({unread, call}, nullptr, {});
}

KernelOutcome SplitCalls::RunCounted(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                                     bool has_rows) {
  const int number = kernel.log_number();
  const bool is_first = log_.Count(number, has_rows) == 0;
  ExchangeTimes* const times =
      times_ != nullptr && times_->Begin(number, is_first, call.stream) ? times_.get() : nullptr;
  const Result<DeviceLog::Point*> point = BeginOnDevice(call, kernel, device_.resources());
  KernelOutcome outcome;
  {
    const SpanScope span(times, Span::kCall, call.stream);
    outcome =
        kernel.Run({call.call, call.stream, local, has_rows, call.declared.is_deferred, times},
                   device_.resources(), device_.channel());
  }
  if (times != nullptr) times->End();
  const Status counted =
      point.ok() ? EndOnDevice(*point, call, device_.resources()) : point.status();
  if (outcome.exact.ok()) outcome.exact = counted;
  return outcome;
}

// Logs the beginning of a call, on the stream of exchanges. So the log has the calls in the same
// order on all ranks, whatever streams the program uses.
Result<DeviceLog::Point*> SplitCalls::BeginOnDevice(const SplitCall& call,
                                                    const SplitKernel& kernel,
                                                    ExchangeResources& device) {
  DeviceLog* const log = watch_.device_log();
  if (log == nullptr || call.declared.is_replicated) return nullptr;
  DeviceCall begun;
  begun.call = sequence_.number();
  begun.kernel = kernel.common_hash();
  begun.log_number = kernel.log_number();
  begun.exchanged_bytes = kernel.exchanged_bytes();
  begun.is_captured = call.is_captured;
  begun.needs_others = kernel.needs_others();
  UCUDNN_RETURN_IF_ERROR(device.entered.Record(call.stream));
  UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(device.stream.get()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceLog::Point* const point, log->Begin(begun, device.stream.get()));
  UCUDNN_RETURN_IF_ERROR(device.counted.Record(device.stream.get()));
  return point;
}

// Logs the end of a call, on the caller's stream and after the beginning of the call was logged.
// Later work on that stream, such as a launch of a graph, follows both entries of the log.
Status SplitCalls::EndOnDevice(DeviceLog::Point* point, const SplitCall& call,
                               ExchangeResources& device) {
  if (point == nullptr) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(device.counted.HoldBack(call.stream));
  return watch_.device_log()->End(point, call.stream);
}

RankFigures SplitCalls::kernel_figures() const {
  RankFigures figures = log_.Read();
  if (times_ != nullptr) times_->Read(figures);
  return figures;
}

}  // namespace ucudnn::spatial
