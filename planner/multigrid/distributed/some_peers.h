// Some ranks of a job, seen as a separate job.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/multigrid/distributed/peers.h"

namespace ucudnn::multigrid {

class SomePeers : public Peers {
 public:
  // Rank i of this object is rank members[i] of `all`. The caller's rank must be among the members.
  // `all` must outlive the object. At most one thread at a time may use the objects made from one
  // `all`.
  SomePeers(Peers& all, std::vector<int> members) : all_(all), members_(std::move(members)) {
    const auto own = std::find(members_.begin(), members_.end(), all.rank());
    rank_ = static_cast<int>(own - members_.begin());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Status Send(int to, std::span<const double> numbers) override {
    return all_.Send(members_[to], numbers);
  }
  Result<std::vector<double>> Receive(int from) override { return all_.Receive(members_[from]); }
  void Fail(const std::string& line) override { all_.Fail(line); }
  FailureListeners& failure_listeners() override { return all_.failure_listeners(); }

 private:
  Peers& all_;
  std::vector<int> members_;
  int rank_ = 0;
};

// The ranks of data-parallel training. Each of the `replicas` replicas of the network is on equally
// many consecutive ranks.
struct ReplicaPeers {
  ReplicaPeers(Peers& all, int replicas)
      : network(all, NetworkOf(all.rank(), all.size() / replicas)),
        same_layers(all, SameLayersAs(all.rank(), replicas, all.size() / replicas)) {}

  SomePeers network;      // the ranks of this rank's replica
  SomePeers same_layers;  // by replica: the rank that has this rank's layers

 private:
  static std::vector<int> NetworkOf(int rank, int size) {
    std::vector<int> members(size);
    for (int i = 0; i < size; ++i) members[i] = rank / size * size + i;
    return members;
  }
  static std::vector<int> SameLayersAs(int rank, int replicas, int size) {
    std::vector<int> members(replicas);
    for (int i = 0; i < replicas; ++i) members[i] = i * size + rank % size;
    return members;
  }
};

}  // namespace ucudnn::multigrid
