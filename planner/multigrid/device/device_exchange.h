// Sends states of devices between ranks, over the transport that the ranks can use
// (transport/opening.h). Messages have a separate stream, so lanes continue while states are sent.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/placed_state.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/distributed/state_exchange.h"
#include "transport/opening.h"

namespace ucudnn::multigrid {

// How ranks that solve on devices exchange their states.
struct RankTransport {
  Transport wanted = Transport::kAuto;
  // Limit of each wait for other ranks.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::string cudnn_file;  // path of the cuDNN library, next to which NCCL may be; empty if unknown
};

// The channel between the ranks that share a stage. If the ranks' job fails, the channel is
// aborted, so that no stream waits for it any longer. Thread-compatible.
class RankChannel {
 public:
  // The first `ranks` ranks must all call it. `peers` and everything to which `target` points must
  // outlive the channel.
  static Result<std::shared_ptr<RankChannel>> Open(const DeviceTarget& target, Peers& peers,
                                                   int ranks, const RankTransport& how);
  ~RankChannel();

  transport::Channel& channel() { return *opened_.channel; }
  int ranks() const { return ranks_; }
  // Replaces each of `count` numbers in single precision by its sum over all ranks. All ranks get
  // the same bits. Waits for `lane`.
  Status Sum(Address numbers, int64_t count, DeviceLane& lane);
  // Returns the name of the transport, such as "loopback"; for NCCL, also the library's file.
  std::string Text() const;

 private:
  class PeersGatherer;

  RankChannel(const DeviceTarget& target, Peers& peers, int ranks);
  // Computes to += from for the channel, on the lane of the current sum.
  Status Add(CUdeviceptr to, CUdeviceptr from, int64_t count);

  DeviceTarget target_;  // in single precision
  Peers& peers_;
  const int ranks_;
  // The lane of the current or last sum; null before the first sum.
  DeviceLane* summing_ = nullptr;
  std::unique_ptr<PeersGatherer> gatherer_;
  transport::OpenedChannel opened_;
  int listener_ = 0;
};

enum class Transfer { kSend, kReceive };

class DeviceExchange : public StateExchange {
 public:
  // The states to exchange, which are PlacedStates, and the ranks that exchange them.
  struct Setting {
    Peers& peers;
    int ranks = 1;
    int64_t state_size = 0;  // numbers in one image's state
    int batch = 1;
  };
  // `channel` is null if the rank is alone; otherwise `lanes` must have an exchange lane.
  // Everything to which `target` and `setting` refer must outlive the object.
  DeviceExchange(const DeviceTarget& target, std::shared_ptr<RankChannel> channel,
                 std::shared_ptr<DeviceLanes> lanes, const Setting& setting);
  ~DeviceExchange() override;

  Status Reserve(const ExchangeRoom& room) override;
  Status Begin(std::span<const StateMessage> sends,
               std::span<const StateMessage> receives) override;
  Status Finish(int lane) override;
  Status Check() override;
  void Close() override { channel_.reset(); }
  // Sends `count` numbers other than states to `rank`, or receives them from it, in portions that
  // fit the channel. The message follows the earlier work of lane 0, and later work of lane 0
  // follows the message.
  Status MoveNumbers(Transfer transfer, int rank, Address numbers, int64_t count);
  Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override;

 private:
  // A received state that Finish must copy to its place.
  struct Landed {
    Address from = nullptr;
    State to = nullptr;
  };

  Address Behind(const std::optional<DeviceNumbers>& room, size_t states) const {
    return target_.Behind(room->data(), static_cast<int64_t>(states) * size_);
  }
  transport::Message MessageOf(int rank, Address data, size_t states) const;
  // Returns `status`. If `status` is an error, first waits a short time for the job to fail. Calls
  // of Peers then return the job's own error, which says more about the cause.
  Status OfJob(Status status);
  // Copies the states to send into a buffer, so that the states may change afterwards.
  Status Pack(std::span<const StateMessage> sends);
  Status LayOut(std::span<const StateMessage> receives);

  DeviceTarget target_;
  std::shared_ptr<RankChannel> channel_;
  std::shared_ptr<DeviceLanes> lanes_;
  const Setting setting_;
  int64_t size_;  // numbers in a state of the whole mini-batch
  StateSums sums_;
  std::optional<DeviceNumbers> sent_, received_;
  ExchangeRoom room_;
  std::vector<transport::Message> sends_, receives_;
  std::vector<Landed> landed_;
};

}  // namespace ucudnn::multigrid
