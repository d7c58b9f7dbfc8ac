// The resources that a rank has on its device for split calls. The stream, the buffer and the
// channel are made when the ranks agree on their first kernel. Captures have further resources. Not
// thread-safe, except for owned_bytes(): a rank makes one call at a time. REQUIRES: the device's
// context is current.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "spatial/capture_memory.h"
#include "spatial/rank_failure.h"
#include "spatial/split_kernel.h"
#include "transport/channel.h"
#include "transport/ranks.h"

namespace ucudnn::spatial {

class RankDevice {
 public:
  // Opens the rank's channel. While it is called, the context of the rank's first call is current.
  using OpenChannel =
      std::function<Result<std::unique_ptr<transport::Channel>>(const transport::ChannelSetup&)>;

  // All arguments but `open` must outlive the object.
  RankDevice(const cudnn::Functions& functions, const cuda::Driver& driver, transport::Ranks& ranks,
             RankFailure& failure, OpenChannel open);

  // Makes the resources if they do not exist.
  Status Prepare();
  // Opens the channel if it is not open. Gathers values of all ranks of the group, so it succeeds
  // on all of them or fails on all of them. REQUIRES: Prepare has succeeded.
  Status Open(std::chrono::milliseconds timeout);
  bool is_prepared() const { return resources_.has_value(); }
  bool is_open() const { return channel_ != nullptr; }
  // Returns whether the current context differs from the context of the resources.
  bool IsAnother() const;

  const cudnn::Functions& functions() const { return functions_; }
  const cuda::Driver& driver() const { return driver_; }
  // resources() requires is_prepared(), and channel() requires is_open().
  ExchangeResources& resources() { return *resources_; }
  transport::Channel& channel() const { return *channel_; }

  // Makes the buffer large enough for `made`, and tries the kernel. Afterwards restores the first
  // `kept_bytes` of the buffer, because the other ranks will not send them again.
  Status GrowAndTry(SplitKernel& made, const KernelCall& call, size_t kept_bytes);
  // Returns the resources for a call of `kernel` on `origin`, which is in `capture`. Fails if the
  // memory that the rank owns would exceed `most_bytes`.
  Result<ExchangeResources*> TakeForCapture(const cuda::Capture& capture, CUstream origin,
                                            SplitKernel& kernel, size_t most_bytes);
  size_t captured_bytes() const { return captures_.bytes(); }
  // Updates owned_bytes(), the device memory for exchanges, sums and captures. REQUIRES: is_open().
  void CountOwned();
  size_t owned_bytes() const { return owned_bytes_; }

 private:
  // Copies on the stream of exchanges, and waits until the copy is done.
  Status CopyNow(CUdeviceptr to, CUdeviceptr from, size_t bytes);

  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  transport::Ranks& ranks_;
  RankFailure& failure_;
  const OpenChannel open_;
  std::optional<ExchangeResources> resources_;
  std::unique_ptr<transport::Channel> channel_;
  CaptureMemory captures_;
  std::atomic<size_t> owned_bytes_ = 0;
};

}  // namespace ucudnn::spatial
