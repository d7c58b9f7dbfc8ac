// Sends states of devices between ranks, over whichever transport serves the ranks
// (transport/opening.h), on a stream of its own, so that lanes run on meanwhile.
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

// How ranks that solve on devices reach each other.
struct RankTransport {
  Transport wanted = Transport::kAuto;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of each wait for other ranks
  std::string cudnn_file;  // cuDNN's file, beside which NCCL may lie; empty: unknown
};

// The channel of the ranks that share a stage. If their job fails, the channel is aborted, so that
// no stream waits for it any longer. Thread-compatible.
class RankChannel {
 public:
  // All of `ranks` call it. `peers` and what `target` points to outlive the channel.
  static Result<std::shared_ptr<RankChannel>> Open(const DeviceTarget& target, Peers& peers,
                                                   RankRange ranks, const RankTransport& how);
  ~RankChannel();

  transport::Channel& channel() { return *opened_.channel; }
  int ranks() const { return ranks_; }
  // Sums `count` numbers in single precision over all ranks, in place, with the same bits on all
  // ranks; waits for `lane`.
  Status Sum(Address numbers, int64_t count, DeviceLane& lane);
  // Returns the name of the transport, such as "loopback"; with NCCL also the library's file.
  std::string Text() const;

 private:
  class PeersGatherer;

  RankChannel(const DeviceTarget& target, Peers& peers, int ranks);
  // Adds for the channel, on the lane of the current sum.
  Status Add(CUdeviceptr to, CUdeviceptr from, int64_t count);

  DeviceTarget target_;  // in single precision
  Peers& peers_;
  const int ranks_;
  DeviceLane* summing_ = nullptr;  // the lane of the last sum; null before the first
  std::unique_ptr<PeersGatherer> gatherer_;
  transport::OpenedChannel opened_;
  int listener_ = 0;
};

enum class Transfer { kSend, kReceive };

class DeviceExchange : public StateExchange {
 public:
  // The states to exchange, which are PlacedStates, and their ranks.
  struct Setting {
    Peers& peers;
    RankRange ranks;
    int64_t state_size = 0;  // numbers in a state of one image
    int batch = 1;
  };
  // `channel` is null if the rank is alone; else `lanes` has an exchange lane. What `target` and
  // `setting` refer to outlives the object.
  DeviceExchange(const DeviceTarget& target, std::shared_ptr<RankChannel> channel,
                 std::shared_ptr<DeviceLanes> lanes, const Setting& setting);
  ~DeviceExchange() override;

  Status Reserve(const ExchangeRoom& room) override;
  Status Begin(std::span<const StateMessage> sends,
               std::span<const StateMessage> receives) override;
  Status Finish(int lane) override;
  Status Check() override;
  void Close() override { channel_.reset(); }
  // Sends numbers that are no states to `rank`, or receives them, in pieces that the channel has
  // room for. The message follows the work that lane 0 has been given; later work of lane 0 follows
  // the message.
  Status MoveNumbers(Transfer transfer, int rank, Address numbers, int64_t count);
  Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override;

 private:
  // A received state that Finish must copy to its place.
  struct Landed {
    Address from = nullptr;
    State to = nullptr;
  };

  bool IsPacked(const StatesView& view) const {
    return setting_.batch == 1 || view.image_distance == 1;
  }
  Status Copy(DeviceLane& lane, const StatesView& from, const StatesView& to);
  Address Behind(const std::optional<DeviceNumbers>& room, size_t states) const {
    return target_.Behind(room->data(), static_cast<int64_t>(states) * size_);
  }
  transport::Message MessageOf(int rank, Address data, size_t states) const;
  // Returns `status`. If it is an error, waits for the job to fail first: an error of the channel
  // usually follows from a failure of the job, whose message says more.
  Status OfJob(Status status);
  // Copies the states to send, so that they may change afterwards.
  Status Pack(std::span<const StateMessage> sends);
  Status LayOut(std::span<const StateMessage> receives);

  DeviceTarget target_;
  std::shared_ptr<RankChannel> channel_;
  std::shared_ptr<DeviceLanes> lanes_;
  const Setting setting_;
  int64_t size_;  // numbers in a state of the mini-batch
  StateSums sums_;
  std::optional<DeviceNumbers> sent_, received_;
  ExchangeRoom room_;
  std::vector<transport::Message> sends_, receives_;
  std::vector<Landed> landed_;
};

}  // namespace ucudnn::multigrid
