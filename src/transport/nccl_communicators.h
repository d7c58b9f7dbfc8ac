// The two communicators of one rank, from creation to destruction. Make and Destroy return after a
// bounded time, even if NCCL does not. An Exchange or AllReduce in which NCCL waits returns only
// after an Abort. Thread-safe.
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

  // Makes both communicators and connects all ranks. If that fails, takes longer than setup.timeout
  // or is given up, destroys the communicators that were made, and returns an error.
  static Result<std::shared_ptr<Communicators>> Make(const ChannelSetup& setup,
                                                     const Functions& functions,
                                                     const UniqueIds& ids);

  // Enqueues all messages as one group.
  Status Exchange(std::span<const Message> sends, std::span<const Message> receives,
                  CUstream stream);
  Status AllReduce(CUdeviceptr from, CUdeviceptr to, size_t count, Element element,
                   CUstream stream);
  // Returns an error that NCCL found after a call had returned, or an error if there was an abort.
  // Returns Ok while another thread's call is in progress.
  Status Check();
  // Ends CUDA kernels that wait for peers. Background threads do this. Abort waits for the end of
  // these CUDA kernels only if the system has no thread left.
  static void Abort(const std::shared_ptr<Communicators>& communicators);
  // To be called after the last call, when the device has finished all work.
  static void Destroy(const std::shared_ptr<Communicators>& communicators);

 private:
  Status Connect(const ChannelSetup& setup, const UniqueIds& ids);
  Status Init(const ChannelSetup& setup, const UniqueId& id, int most_ctas,
              std::atomic<Communicator*>* communicator);
  Status WarmUp(const ChannelSetup& setup);
  Status EnqueueMessages(std::span<const Message> sends, std::span<const Message> receives,
                         Communicator* communicator, CUstream stream);
  // Makes a call that may wait for other ranks. An abort frees `communicator` while the call still
  // waits, so after an abort the function does not use `communicator`.
  template <class Call>
  Status CallWaiting(Call call, const char* doing, Communicator* communicator)
      UCUDNN_REQUIRES(mutex_);
  void AbortOne(std::atomic<Communicator*>& slot);

  const Functions functions_;
  // Held during calls of NCCL with a communicator. AbortOne calls NCCL without holding the mutex,
  // because another thread's call may hold the mutex until AbortOne ends that call.
  Mutex mutex_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> waits_{false};  // a thread is in CallWaiting
  // Null once a thread has taken the communicator to end it.
  std::atomic<Communicator*> exchanges_{nullptr}, reductions_{nullptr};
};

}  // namespace ucudnn::transport::nccl
