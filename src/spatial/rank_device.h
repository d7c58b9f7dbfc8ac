// What a rank has on its device for its split calls: resources and a channel, which are made where
// the ranks agree on their first kernel, and what captures have. The device's context is current
// wherever this is used. Not thread-safe, but for owned_bytes(): a rank makes one call at a time.
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
  // Opens the rank's channel with the context of its first call current.
  using OpenChannel =
      std::function<Result<std::unique_ptr<transport::Channel>>(const transport::ChannelSetup&)>;

  // All but `open` outlive this.
  RankDevice(const cudnn::Functions& functions, const cuda::Driver& driver, transport::Ranks& ranks,
             RankFailure& failure, OpenChannel open);

  // Makes the resources, once.
  Status Prepare();
  // REQUIRES: Prepare has succeeded. Opens the channel, once: gathers, and ends alike on all ranks.
  Status Open(std::chrono::milliseconds timeout);
  bool is_prepared() const { return resources_.has_value(); }
  bool is_open() const { return channel_ != nullptr; }
  // Whether the current context is not that of the resources.
  bool IsAnother() const;

  const cudnn::Functions& functions() const { return functions_; }
  const cuda::Driver& driver() const { return driver_; }
  // REQUIRES: is_prepared(), or is_open().
  ExchangeResources& resources() { return *resources_; }
  transport::Channel& channel() const { return *channel_; }

  // Makes room in the buffer for `made` and tries it. The buffer's first `kept_bytes` stay what
  // they are: the other ranks do not send again what this one alone would lose.
  Status GrowAndTry(SplitKernel& made, const KernelCall& call, size_t kept_bytes);
  // The resources for a call of `kernel` on `origin`, which is in `capture`, where all that the
  // rank owns may be `most_bytes`.
  Result<ExchangeResources*> TakeForCapture(const cuda::Capture& capture, CUstream origin,
                                            SplitKernel& kernel, size_t most_bytes);
  size_t captured_bytes() const { return captures_.bytes(); }
  // REQUIRES: is_open(). Sets what owned_bytes() is: for exchanges, sums and captures.
  void CountOwned();
  size_t owned_bytes() const { return owned_bytes_; }

 private:
  // Copies behind what the stream of exchanges had, and waits.
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
