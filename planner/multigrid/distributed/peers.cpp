#include "planner/multigrid/distributed/peers.h"

#include <algorithm>

namespace ucudnn::multigrid {

Status ReceiveInto(Peers& peers, int from, std::span<double> numbers) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> received, peers.Receive(from));
  if (received.size() == numbers.size()) {
    std::copy(received.begin(), received.end(), numbers.begin());
    return Status::Ok();
  }
  const std::string line = "rank " + std::to_string(from) + " sent " +
                           std::to_string(received.size()) + " numbers to rank " +
                           std::to_string(peers.rank()) + ", which expected " +
                           std::to_string(numbers.size());
  peers.Fail(line);
  return Status::Error(line);
}

Status ShareNumber(Peers& peers, int from, double& number) {
  if (peers.rank() != from) return ReceiveInto(peers, from, {&number, 1});
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (rank != from) UCUDNN_RETURN_IF_ERROR(peers.Send(rank, {&number, 1}));
  }
  return Status::Ok();
}

// Rank 0 collects all numbers. It sends every other rank one message: the count of numbers of each
// rank, and then all numbers.
Result<std::vector<std::vector<double>>> GatherNumbers(Peers& peers, int ranks,
                                                       std::span<const double> mine) {
  std::vector<std::vector<double>> all(ranks);
  if (peers.rank() != 0) {
    UCUDNN_RETURN_IF_ERROR(peers.Send(0, mine));
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> told, peers.Receive(0));
    auto next = told.begin() + ranks;
    for (int i = 0; i < ranks; ++i) {
      const auto end = next + static_cast<int64_t>(told[i]);
      all[i].assign(next, end);
      next = end;
    }
    return all;
  }
  all[0].assign(mine.begin(), mine.end());
  for (int i = 1; i < ranks; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(all[i], peers.Receive(i));
  }
  std::vector<double> told;
  for (const auto& one : all) told.push_back(static_cast<double>(one.size()));
  for (const auto& one : all) told.insert(told.end(), one.begin(), one.end());
  for (int i = 1; i < ranks; ++i) {
    UCUDNN_RETURN_IF_ERROR(peers.Send(i, told));
  }
  return all;
}

}  // namespace ucudnn::multigrid
