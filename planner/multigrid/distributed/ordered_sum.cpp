#include "planner/multigrid/distributed/ordered_sum.h"

#include <algorithm>
#include <utility>

namespace ucudnn::multigrid {
namespace {

std::vector<double> Packed(const std::vector<std::span<double>>& parts, size_t count) {
  std::vector<double> numbers;
  numbers.reserve(count);
  for (const auto& part : parts) numbers.insert(numbers.end(), part.begin(), part.end());
  return numbers;
}

void Unpack(const std::vector<double>& numbers, const std::vector<std::span<double>>& parts) {
  auto next = numbers.begin();
  for (const auto& part : parts) {
    std::copy_n(next, part.size(), part.begin());
    next += static_cast<int64_t>(part.size());
  }
}

}  // namespace

Status OrderedSum::Begin(std::vector<std::span<double>> parts) {
  Sum sum = {.parts = std::move(parts)};
  for (const auto& part : sum.parts) sum.count += part.size();
  const int summer = SummerOf(begun_.size());
  begun_.push_back(std::move(sum));
  if (summer == peers_.rank()) return Status::Ok();
  return peers_.Send(summer, Packed(begun_.back().parts, begun_.back().count));
}

Status OrderedSum::AddUp(Sum& sum) {
  std::vector<double> total(sum.count, 0.0);
  std::vector<double> others(sum.count);
  const std::vector<double> mine = Packed(sum.parts, sum.count);
  for (int rank = 0; rank < peers_.size(); ++rank) {
    const bool is_mine = rank == peers_.rank();
    if (!is_mine) UCUDNN_RETURN_IF_ERROR(ReceiveInto(peers_, rank, others));
    const std::vector<double>& added = is_mine ? mine : others;
    for (size_t i = 0; i < total.size(); ++i) {
      total[i] = rank == 0 ? added[i] : total[i] + added[i];
    }
  }
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (rank != peers_.rank()) UCUDNN_RETURN_IF_ERROR(peers_.Send(rank, total));
  }
  Unpack(total, sum.parts);
  return Status::Ok();
}

// Computes the sums of this rank (SummerOf) before it waits for sums of other ranks. Otherwise two
// ranks might wait for each other.
Status OrderedSum::Finish() {
  for (size_t i = 0; i < begun_.size(); ++i) {
    if (SummerOf(i) == peers_.rank()) UCUDNN_RETURN_IF_ERROR(AddUp(begun_[i]));
  }
  for (size_t i = 0; i < begun_.size(); ++i) {
    if (SummerOf(i) == peers_.rank()) continue;
    std::vector<double> total(begun_[i].count);
    UCUDNN_RETURN_IF_ERROR(ReceiveInto(peers_, SummerOf(i), total));
    Unpack(total, begun_[i].parts);
  }
  begun_.clear();
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
