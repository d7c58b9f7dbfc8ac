// ncclCommSplit: ranks tell each other their colors on the parent's board, and those of one color
// make a communicator under the root of the first of them.
#include <algorithm>
#include <utility>
#include <vector>

#include "shim/host/nccl/make.h"

namespace hostgpu::nccl {
namespace {

// What is waited for on the parent's board.
struct Stage {
  std::atomic<uint64_t> SplitSeat::*counter;
  uint64_t number;
};

// The first of `ranks` whose counter has not come to the number; -1 without one.
int FirstMissing(const Communicator& parent, const std::vector<int>& ranks, const Stage& stage) {
  for (const int rank : ranks) {
    if ((parent.board().seat(rank).split.*stage.counter).load() < stage.number) return rank;
  }
  return -1;
}

Outcome AwaitRanks(const Communicator& parent, const std::atomic<bool>& cancelled,
                   const std::vector<int>& ranks, const Stage& stage) {
  const std::atomic<uint32_t>& bell = parent.board().seat(parent.rank()).bell;
  for (;;) {
    const uint32_t seen = bell.load();
    const int missing = FirstMissing(parent, ranks, stage);
    if (missing < 0) return {};
    if (cancelled) return {ncclInvalidUsage, "the communicator was aborted"};
    if (parent.GivenUp()) return {ncclInvalidUsage, "the parent was aborted or failed"};
    Outcome lost = parent.CheckPeer(missing, Communicator::Look::kProcess);
    if (!lost.ok() && FirstMissing(parent, {missing}, stage) >= 0) return lost;
    if (lost.ok()) parent.board().AwaitBell(parent.rank(), seen, NowNs() + kLookNs);
  }
}

std::vector<int> AllRanks(const Communicator& parent) {
  std::vector<int> ranks(static_cast<size_t>(parent.ranks()));
  for (int rank = 0; rank < parent.ranks(); ++rank) ranks[static_cast<size_t>(rank)] = rank;
  return ranks;
}

// Those of the color, in the order of the new communicator.
std::vector<int> RanksOfColor(const Communicator& parent, int color) {
  std::vector<std::pair<int, int>> keyed;
  for (int rank = 0; rank < parent.ranks(); ++rank) {
    const SplitSeat& seat = parent.board().seat(rank).split;
    if (seat.color == color) keyed.emplace_back(seat.key, rank);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> ranks;
  for (const auto& [key, rank] : keyed) ranks.push_back(rank);
  return ranks;
}

}  // namespace

SplitPart::~SplitPart() {
  if (!took_part_) parent_->Fail({ncclInvalidUsage, "a split was left out"});
}

Outcome SplitPart::Agree(const std::atomic<bool>& cancelled, Found* found) {
  Communicator& parent = *parent_;
  const std::vector<int> all = AllRanks(parent);
  SplitSeat& mine = parent.board().seat(parent.rank()).split;
  const Stage earlier{&SplitSeat::read, number_ - 1};
  if (Outcome o = AwaitRanks(parent, cancelled, all, earlier); !o.ok()) return o;
  mine.color = color_;
  mine.key = key_;
  mine.told = number_;
  parent.board().RingAll();
  const Stage told{&SplitSeat::told, number_};
  Outcome outcome = AwaitRanks(parent, cancelled, all, told);
  if (outcome.ok() && color_ != NCCL_SPLIT_NOCOLOR) outcome = FindId(cancelled, found);
  if (cancelled) return outcome;
  took_part_ = true;
  mine.read = number_;
  parent.board().RingAll();
  return outcome;
}

Outcome SplitPart::FindId(const std::atomic<bool>& cancelled, Found* found) {
  Communicator& parent = *parent_;
  SplitSeat& mine = parent.board().seat(parent.rank()).split;
  const std::vector<int> ranks = RanksOfColor(parent, color_);
  const auto me = std::find(ranks.begin(), ranks.end(), parent.rank());
  found->ranks = static_cast<int>(ranks.size());
  found->rank = static_cast<int>(me - ranks.begin());
  if (found->rank == 0) {
    // The others find an id that is none where there is no new one.
    mine.id = {};
    Outcome made = NewUniqueId(&mine.id);
    mine.named = number_;
    parent.board().RingAll();
    if (!made.ok()) return made;
  }
  const Stage named{&SplitSeat::named, number_};
  if (Outcome o = AwaitRanks(parent, cancelled, {ranks[0]}, named); !o.ok()) return o;
  found->id = parent.board().seat(ranks[0]).split.id;
  return {};
}

Outcome SplitPart::Run(Making& making) {
  Found found;
  Outcome outcome = Agree(making.communicator().aborted(), &found);
  if (!outcome.ok() || found.ranks == 0) return making.GiveUp(std::move(outcome));
  if (!IsUniqueId(found.id)) {
    return making.GiveUp({ncclRemoteError, "the first rank of the color could make no unique id"});
  }
  making.communicator().TakePlace(found.ranks, found.rank);
  return making.Join(found.id);
}

}  // namespace hostgpu::nccl
