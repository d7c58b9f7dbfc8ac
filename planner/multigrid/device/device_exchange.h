// States of devices as messages between ranks, over whichever transport serves them
// (transport/opening.h): by a stream of its own, so that lanes go on meanwhile.
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
  std::string cudnn_file;  // whose NCCL may lie beside it; empty: unknown
};

// The channel of the ranks that have a stage together, which ends with their job: when that fails,
// nothing on any stream waits for it any longer. Thread-compatible.
class RankChannel {
 public:
  // All of `ranks` call it. `peers` and what `target` points to outlive it.
  static Result<std::shared_ptr<RankChannel>> Open(const DeviceTarget& target, Peers& peers,
                                                   RankRange ranks, const RankTransport& how);
  ~RankChannel();

  transport::Channel& channel() { return *opened_.channel; }
  int ranks() const { return ranks_; }
  // Enqueues the sum over all ranks of `count` numbers in single precision, in place: the same bits
  // on all of them.
  Status Sum(Address numbers, int64_t count, DeviceLane& lane);
  // "loopback"; of NCCL also which.
  std::string Text() const;

 private:
  class PeersGatherer;

  RankChannel(const DeviceTarget& target, Peers& peers, int ranks);
  // Adds up for the channel, on the lane whose sum it is.
  Status Add(CUdeviceptr to, CUdeviceptr from, int64_t count);

  DeviceTarget target_;  // in single precision
  Peers& peers_;
  const int ranks_;
  DeviceLane* summing_ = nullptr;  // the lane of the last sum; null: there was none
  std::unique_ptr<PeersGatherer> gatherer_;
  transport::OpenedChannel opened_;
  int listener_ = 0;
};

class DeviceExchange : public StateExchange {
 public:
  // Whose states, which are PlacedStates.
  struct Setting {
    Peers& peers;
    RankRange ranks;
    int64_t state_size = 0;  // numbers of one image
    int batch = 1;
  };
  // A null channel is of a rank alone. `lanes` have one for it where it is not alone; what `target`
  // and the setting refer to outlives it.
  DeviceExchange(const DeviceTarget& target, std::shared_ptr<RankChannel> channel,
                 std::shared_ptr<DeviceLanes> lanes, const Setting& setting);
  ~DeviceExchange() override;

  Status Reserve(const ExchangeRoom& room) override;
  Status Begin(std::span<const StateMessage> sends,
               std::span<const StateMessage> receives) override;
  Status Finish(int lane) override;
  Status Check() override;
  void Close() override { channel_.reset(); }
  // A message of numbers that are no states, behind what lane 0 was given, and before what it is
  // given from now on.
  Status SendNumbers(int to, Address numbers, int64_t count);
  Status ReceiveNumbers(int from, Address numbers, int64_t count);
  Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) override;

 private:
  // What was received beside the state that it is for.
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
  // An error of the channel's follows from a failure of the job, which says more, if it is not
  // that.
  Status OfJob(Status status);
  // In pieces that the channel has room for.
  Status MoveNumbers(int rank, Address numbers, int64_t count, bool sends);
  // Copies what is sent, so that it may change.
  Status Pack(std::span<const StateMessage> sends);
  Status LayOut(std::span<const StateMessage> receives);

  DeviceTarget target_;
  std::shared_ptr<RankChannel> channel_;
  std::shared_ptr<DeviceLanes> lanes_;
  const Setting setting_;
  int64_t size_;  // numbers of a state
  StateSums sums_;
  std::optional<DeviceNumbers> sent_, received_;
  ExchangeRoom room_;
  std::vector<transport::Message> sends_, receives_;
  std::vector<Landed> landed_;
};

}  // namespace ucudnn::multigrid
