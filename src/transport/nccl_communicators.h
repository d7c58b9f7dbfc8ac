// The two communicators of one rank, from their making to their end, which no call of NCCL may
// delay. Thread-safe.
#pragma once

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "transport/channel.h"
#include "transport/nccl_functions.h"

namespace ucudnn::transport::nccl {

struct UniqueIds {
  UniqueId exchanges, reductions;
};

class Communicators {
 public:
  explicit Communicators(Functions functions) : functions_(std::move(functions)) {}

  // Makes both, and has them connect all ranks. Gives up what it made when it fails, is too late or
  // was given up.
  static Result<std::shared_ptr<Communicators>> Make(const ChannelSetup& setup,
                                                     const Functions& functions,
                                                     const UniqueIds& ids);

  // Enqueues all messages at once.
  Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                  CUstream stream);
  Status AllReduce(CUdeviceptr from, CUdeviceptr to, size_t count, Element element,
                   CUstream stream);
  // What NCCL found since.
  Status Check();
  // Lets kernels that wait for peers end. Returns at once; a thread of its own does it.
  static void Abort(const std::shared_ptr<Communicators>& communicators);
  // After the last call, when the device is done with all.
  static void Destroy(const std::shared_ptr<Communicators>& communicators);

 private:
  Status Connect(const ChannelSetup& setup, const UniqueIds& ids);
  Status Init(const ChannelSetup& setup, const UniqueId& id, int most_ctas,
              std::atomic<Communicator*>* communicator);
  Status WarmUp(const ChannelSetup& setup);
  Status EnqueueMessages(std::span<const Message> sends, std::span<const Message> receives,
                         Communicator* communicator, CUstream stream);
  // Makes a call that may wait for other ranks. Nothing looks at `communicator` after an abort,
  // which frees it while the call still waits.
  template <class Call>
  Status CallWaiting(Call call, const char* doing, Communicator* communicator)
      UCUDNN_REQUIRES(mutex_);
  void AbortOne(std::atomic<Communicator*>& slot);

  const Functions functions_;
  Mutex
      mutex_;  // held during calls of NCCL with a communicator, but for an abort that must not wait
  std::atomic<bool> ended_{false};
  std::atomic<bool> waits_{false};  // a thread is in CallWaiting
  // Whoever ends one takes it away.
  std::atomic<Communicator*> exchanges_{nullptr}, reductions_{nullptr};
};

}  // namespace ucudnn::transport::nccl
