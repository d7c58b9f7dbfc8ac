#include "transport/nccl_communicators.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/resources.h"
#include "transport/background.h"

namespace ucudnn::transport::nccl {
namespace {

// The most blocks (CTAs) of a CUDA kernel. Exchanging the rows at cuts needs few blocks, and each
// block is taken from the convolution that runs at the same time.
constexpr int kMostExchangeCtas = 2;
constexpr int kMostReductionCtas = 4;

// How long an abort waits for another thread's CallWaiting. A call of NCCL normally only enqueues.
// A call that takes longer waits for something that only the abort ends.
constexpr std::chrono::milliseconds kCallTime{2000};
constexpr std::chrono::milliseconds kDestroyingTime{2000};

const void* Pointer(CUdeviceptr address) { return reinterpret_cast<const void*>(address); }

// Communicators that a background thread makes. The thread that waits for them may give up.
struct Making {
  enum State { kMaking, kMade, kAbandoned };
  std::atomic<State> state{kMaking};
  std::shared_ptr<Communicators> communicators;
  Status status = Status::Ok();
};

std::string Seconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000.0).substr(0, 5) + " s";
}

}  // namespace

Result<std::shared_ptr<Communicators>> Communicators::Make(const ChannelSetup& setup,
                                                           const Functions& functions,
                                                           const UniqueIds& ids) {
  const auto making = std::make_shared<Making>();
  making->communicators = std::make_shared<Communicators>(functions);
  const auto work = [making, setup, ids] {
    {
      const cuda::ContextScope scope(*setup.driver, setup.context);
      const cuda::RelaxedCaptureScope relaxed(*setup.driver);
      making->status = making->communicators->Connect(setup, ids);
    }
    const bool wanted = making->state.exchange(Making::kMade) != Making::kAbandoned;
    if (!wanted || !making->status.ok()) Abort(making->communicators);
  };
  const Ending ending = RunBounded(work, setup.timeout, setup.given_up);
  if (ending == Ending::kNoThread) return Status::Error("NCCL: the system gives no thread");
  if (ending == Ending::kThrew) {
    Abort(making->communicators);
    return Status::Error("NCCL: out of memory while the ranks were connected");
  }
  if (making->state.exchange(Making::kAbandoned) == Making::kMade) {
    UCUDNN_RETURN_IF_ERROR(making->status);
    return making->communicators;
  }
  Abort(making->communicators);  // ends the NCCL calls of the thread that runs `work`
  return Status::Error(ending == Ending::kGivenUp
                           ? "connecting the ranks with NCCL was given up"
                           : "NCCL did not connect the ranks within " + Seconds(setup.timeout));
}

Status Communicators::Connect(const ChannelSetup& setup, const UniqueIds& ids) {
  UCUDNN_RETURN_IF_ERROR(Init(setup, ids.exchanges, kMostExchangeCtas, &exchanges_));
  UCUDNN_RETURN_IF_ERROR(Init(setup, ids.reductions, kMostReductionCtas, &reductions_));
  return WarmUp(setup);
}

Status Communicators::Init(const ChannelSetup& setup, const UniqueId& id, int most_ctas,
                           std::atomic<Communicator*>* communicator) {
  Config config;
  config.min_ctas = 1;
  config.max_ctas = most_ctas;
  Communicator* made = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      functions_.StatusOf(functions_.CommInitRankConfig(&made, setup.size, id, setup.rank, &config),
                          "making a communicator", nullptr));
  *communicator = made;
  if (!ended_) return Status::Ok();
  // The caller gave up while this thread was connecting.
  AbortOne(exchanges_);
  AbortOne(reductions_);
  return Status::Error("the exchange was aborted");
}

// NCCL connects two ranks when they first send to each other, and connecting takes long. So all
// ranks send to each other here.
Status Communicators::WarmUp(const ChannelSetup& setup) {
  constexpr size_t kBytes = 256;
  cuda::Stream stream(*setup.driver);
  const cuda::MemoryPool plain(*setup.driver);
  cuda::DeviceBuffer buffer(plain, *setup.driver);
  const int size = setup.size;
  UCUDNN_RETURN_IF_ERROR(stream.Create());
  UCUDNN_RETURN_IF_ERROR(buffer.Reserve(kBytes * 2 * size));
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == setup.rank && size > 1) continue;
    sends.push_back({peer, buffer.address() + kBytes * 2 * peer, kBytes});
    receives.push_back({peer, buffer.address() + kBytes * (2 * peer + 1), kBytes});
  }
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *setup.driver,
      setup.driver->cuMemsetD8Async(buffer.address(), 0, buffer.size(), stream.get()),
      "filling a buffer"));
  UCUDNN_RETURN_IF_ERROR(Exchange(sends, receives, stream.get()));
  UCUDNN_RETURN_IF_ERROR(
      AllReduce(buffer.address(), buffer.address(), 1, Element::kFloat32, stream.get()));
  UCUDNN_RETURN_IF_ERROR(stream.Synchronize());
  return Check();
}

template <class Call>
Status Communicators::CallWaiting(Call call, const char* doing, Communicator* communicator) {
  waits_ = true;
  const int result = call();
  waits_ = false;
  if (ended_) return Status::Error("the exchange was aborted");
  return functions_.StatusOf(result, doing, communicator);
}

Status Communicators::Exchange(std::span<const Message> sends, std::span<const Message> receives,
                               CUstream stream) {
  MutexLock lock(mutex_);
  if (ended_) return Status::Error("the exchange was aborted");
  Communicator* const communicator = exchanges_;
  UCUDNN_RETURN_IF_ERROR(functions_.StatusOf(functions_.GroupStart(), "an exchange", communicator));
  const Status enqueued = EnqueueMessages(sends, receives, communicator, stream);
  // GroupEnd is called even after an error. If GroupEnd fails, too, the earlier error is the cause
  // and is returned.
  const Status ended =
      CallWaiting([this] { return functions_.GroupEnd(); }, "an exchange", communicator);
  return enqueued.ok() ? ended : enqueued;
}

Status Communicators::EnqueueMessages(std::span<const Message> sends,
                                      std::span<const Message> receives, Communicator* communicator,
                                      CUstream stream) {
  for (const Message& message : sends) {
    UCUDNN_RETURN_IF_ERROR(
        functions_.StatusOf(functions_.Send(Pointer(message.data), message.bytes, kInt8,
                                            message.peer, communicator, stream),
                            "sending a message", communicator));
  }
  for (const Message& message : receives) {
    UCUDNN_RETURN_IF_ERROR(
        functions_.StatusOf(functions_.Recv(const_cast<void*>(Pointer(message.data)), message.bytes,
                                            kInt8, message.peer, communicator, stream),
                            "receiving a message", communicator));
  }
  return Status::Ok();
}

Status Communicators::AllReduce(CUdeviceptr from, CUdeviceptr to, size_t count, Element element,
                                CUstream stream) {
  MutexLock lock(mutex_);
  if (ended_) return Status::Error("the exchange was aborted");
  const int type = element == Element::kFloat32 ? kFloat32 : kFloat64;
  Communicator* const communicator = reductions_;
  const auto reduce = [&] {
    return functions_.AllReduce(Pointer(from), const_cast<void*>(Pointer(to)), count, type, kSum,
                                communicator, stream);
  };
  return CallWaiting(reduce, "a reduction", communicator);
}

Status Communicators::Check() {
  const auto aborted = [] { return Status::Error("the exchange was aborted"); };
  if (ended_)
    return aborted();  // checked before TryLock, because an aborting thread also holds
                       // the lock for a moment
  // A call in progress holds the lock. That call returns its own error, and it may be waiting for
  // other ranks, so this function does not wait for the lock.
  if (!mutex_.TryLock()) return Status::Ok();
  MutexLock lock(mutex_, MutexLock::kAdopt);
  if (ended_) return aborted();
  for (Communicator* const communicator : {exchanges_.load(), reductions_.load()}) {
    int error = kSuccess;
    UCUDNN_RETURN_IF_ERROR(functions_.StatusOf(functions_.CommGetAsyncError(communicator, &error),
                                               "asking for errors", communicator));
    if (error == kInProgress) continue;
    UCUDNN_RETURN_IF_ERROR(functions_.StatusOf(error, "an exchange", communicator));
  }
  return Status::Ok();
}

void Communicators::Abort(const std::shared_ptr<Communicators>& communicators) {
  if (communicators->ended_.exchange(true)) return;
  // CommAbort returns only when no graph holds the communicator any more. A graph that holds one of
  // the two communicators may have to wait until the other one is aborted, so each communicator is
  // aborted on a separate thread.
  for (std::atomic<Communicator*>* const slot :
       {&communicators->exchanges_, &communicators->reductions_}) {
    const auto work = [communicators, slot] { communicators->AbortOne(*slot); };
    if (!RunInBackground(work)) work();
  }
}

// Waits until no other thread uses the communicator. A call that has begun either ends, or waits in
// CallWaiting, where it does not touch the communicator any more; no new call begins. The
// thread-safety analysis cannot follow TryLock in a loop.
void Communicators::AbortOne(std::atomic<Communicator*>& slot)
    UCUDNN_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  constexpr std::chrono::milliseconds kPause{1};
  std::chrono::milliseconds waited{0};
  bool locked = mutex_.TryLock();
  while (!locked && waited < kCallTime) {
    std::this_thread::sleep_for(kPause);
    if (waits_) waited += kPause;
    locked = mutex_.TryLock();
  }
  if (locked) mutex_.Unlock();
  Communicator* const communicator = slot.exchange(nullptr);
  if (communicator != nullptr) functions_.CommAbort(communicator);
}

// Waits no longer than kDestroyingTime, because ranks may have to destroy communicators together,
// and some ranks may be gone.
void Communicators::Destroy(const std::shared_ptr<Communicators>& communicators) {
  const auto work = [communicators] {
    if (communicators->ended_.exchange(true)) return;
    MutexLock lock(communicators->mutex_);
    for (std::atomic<Communicator*>* const slot :
         {&communicators->reductions_, &communicators->exchanges_}) {
      Communicator* const communicator = slot->exchange(nullptr);
      if (communicator != nullptr) communicators->functions_.CommDestroy(communicator);
    }
  };
  (void)RunBounded(work, kDestroyingTime, {});
}

}  // namespace ucudnn::transport::nccl
