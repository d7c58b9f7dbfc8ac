#include "planner/multigrid/distributed/distributed_system.h"

#include <utility>

namespace ucudnn::multigrid {

DistributedSystem::DistributedSystem(const RankPart& part, std::unique_ptr<BlockSystem> local,
                                     std::unique_ptr<BlockSystem> coarse)
    : part_(part),
      local_(std::move(local)),
      coarse_(std::move(coarse)),
      is_awaited_(part.distributed, false) {
  if (part.position > 0) local_->SetInlet(*this);
}

Status DistributedSystem::AwaitFirst(int level, int lane) {
  if (!is_awaited_[level]) return Status::Ok();
  is_awaited_[level] = false;
  return part_.exchange->Finish(lane);
}

Status DistributedSystem::Receive(int from, std::span<const State> states) {
  UCUDNN_RETURN_IF_ERROR(part_.exchange->Receive(from, states));
  return local_->Join();
}

Status DistributedSystem::Broadcast() {
  const State first = local_->first();
  if (part_.position > 0) {
    UCUDNN_RETURN_IF_ERROR(Receive(part_.line.RankOf(0), {&first, 1}));
    return local_->Broadcast();
  }
  std::vector<StateMessage> sends;
  for (int p = 1; p < positions(); ++p) sends.push_back({part_.line.RankOf(p), {&first, 1}});
  UCUDNN_RETURN_IF_ERROR(part_.exchange->Begin(sends, {}));
  return local_->Broadcast();
}

// Sends the first state of the gathered levels (those on rank 0 alone) to rank 0. Called for
// Source::kNone, because then no Restrict has sent this state.
Status DistributedSystem::SendFirst() {
  const int from = part_.line.RankOf(0);
  const bool is_here = part_.position == 0;
  if (is_here && is_gatherer()) return coarse_->SetFirst(local_->c_point(part_.distributed - 1, 0));
  if (is_here) {
    const State first = local_->c_point(part_.distributed - 1, 0);
    return part_.exchange->Send(0, {&first, 1});
  }
  if (!is_gatherer()) return Status::Ok();
  const State first = coarse_->first();
  UCUDNN_RETURN_IF_ERROR(Receive(from, {&first, 1}));
  return coarse_->SetFirst(first);
}

Status DistributedSystem::StepLead(int level, Source source) {
  if (level == part_.distributed && source == Source::kNone) UCUDNN_RETURN_IF_ERROR(SendFirst());
  return Run(level, &BlockSystem::StepLead, source);
}

Status DistributedSystem::RelaxC(int level) {
  if (IsGathered(level)) return Run(level, &BlockSystem::RelaxC);
  UCUDNN_RETURN_IF_ERROR(local_->RelaxC(level));
  is_awaited_[level] = part_.position > 0;
  const State first = local_->c_point(level, 0);
  const State last = local_->c_point(level, part_.hierarchy->level(level).blocks());
  const StateMessage from_before = {part_.line.RankOf(part_.position - 1), {&first, 1}};
  const StateMessage to_next = {part_.line.RankOf(part_.position + 1), {&last, 1}};
  return part_.exchange->Begin({&to_next, has_last() ? 0U : 1U},
                               {&from_before, has_first() ? 0U : 1U});
}

Status DistributedSystem::Restrict(int level) {
  UCUDNN_RETURN_IF_ERROR(Run(level, &BlockSystem::Restrict));
  return level + 1 == part_.distributed ? GatherCoarse() : Status::Ok();
}

std::vector<State> DistributedSystem::Restricted() const {
  const int level = part_.distributed - 1;
  const int count = part_.hierarchy->level(level).blocks();
  std::vector<State> states;
  if (part_.position == 0) states.push_back(local_->c_point(level, 0));
  for (int i = 1; i <= count; ++i) {
    states.push_back(local_->source(level + 1, i));
    if (part_.relaxes_gathered) states.push_back(local_->c_point(level, i));
  }
  return states;
}

std::vector<State> DistributedSystem::RestrictedOf(int position) const {
  std::vector<State> states;
  if (position == 0) states.push_back(coarse_->first());
  for (int i = part_.coarse_begins[position] + 1; i <= part_.coarse_begins[position + 1]; ++i) {
    states.push_back(coarse_->source(0, i));
    if (part_.relaxes_gathered) states.push_back(coarse_->state(0, i));
  }
  return states;
}

Status DistributedSystem::CopyAll(std::span<const State> from, std::span<const State> to) {
  for (size_t i = 0; i < from.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(local_->Copy(from[i], to[i]));
  }
  return Status::Ok();
}

Status DistributedSystem::GatherCoarse() {
  const std::vector<State> own = Restricted();
  if (!is_gatherer()) return part_.exchange->Send(0, own);
  std::vector<std::vector<State>> by_position;
  std::vector<StateMessage> receives;
  for (int p = 0; p < positions(); ++p) by_position.push_back(RestrictedOf(p));
  for (int p = 0; p < positions(); ++p) {
    if (p != part_.position) receives.push_back({part_.line.RankOf(p), by_position[p]});
  }
  UCUDNN_RETURN_IF_ERROR(part_.exchange->Begin({}, receives));
  UCUDNN_RETURN_IF_ERROR(CopyAll(own, by_position[part_.position]));
  if (!receives.empty()) UCUDNN_RETURN_IF_ERROR(part_.exchange->Finish(0));
  return local_->Join();
}

Status DistributedSystem::ScatterCoarse() {
  // Each rank receives its own first state, too. The exception is the rank at position 0, whose
  // first state is u0.
  std::vector<State> own;
  const int count = part_.hierarchy->level(part_.distributed).steps;
  for (int i = part_.position == 0 ? 1 : 0; i <= count; ++i) {
    own.push_back(local_->state(part_.distributed, i));
  }
  if (!is_gatherer()) return Receive(0, own);
  std::vector<std::vector<State>> by_position(positions());
  std::vector<StateMessage> sends;
  for (int p = 0; p < positions(); ++p) {
    for (int i = part_.coarse_begins[p] + (p == 0 ? 1 : 0); i <= part_.coarse_begins[p + 1]; ++i) {
      by_position[p].push_back(coarse_->state(0, i));
    }
    if (p != part_.position) sends.push_back({part_.line.RankOf(p), by_position[p]});
  }
  UCUDNN_RETURN_IF_ERROR(part_.exchange->Begin(sends, {}));
  UCUDNN_RETURN_IF_ERROR(CopyAll(by_position[part_.position], own));
  return local_->Join();
}

// Solves a level one rank after the other.
Status DistributedSystem::SolveInTurn(int level, Source source) {
  if (!has_first()) {
    const State first = local_->state(level, 0);
    UCUDNN_RETURN_IF_ERROR(Receive(part_.line.RankOf(part_.position - 1), {&first, 1}));
  }
  UCUDNN_RETURN_IF_ERROR(local_->SolveSerially(level, source));
  if (has_last()) return Status::Ok();
  const State last =
      level == 0 ? local_->last() : local_->state(level, part_.hierarchy->level(level).steps);
  return part_.exchange->Send(part_.line.RankOf(part_.position + 1), {&last, 1});
}

Status DistributedSystem::SolveSerially(int level, Source source) {
  if (!IsGathered(level)) return SolveInTurn(level, source);
  return Run(level, &BlockSystem::SolveSerially, source);
}

Status DistributedSystem::Correct(int level) {
  if (level + 1 == part_.distributed) UCUDNN_RETURN_IF_ERROR(ScatterCoarse());
  return Run(level, &BlockSystem::Correct);
}

Result<std::span<const double>> DistributedSystem::Parts(NormParts parts) {
  UCUDNN_ASSIGN_OR_RETURN(const std::span<const double> mine, local_->Parts(parts));
  if (positions() == 1) return mine;
  UCUDNN_ASSIGN_OR_RETURN(const auto by_rank, part_.exchange->Gather(mine));
  all_parts_.clear();
  for (int p = 0; p < positions(); ++p) {
    const std::vector<double>& of_rank = by_rank[part_.line.RankOf(p)];
    all_parts_.insert(all_parts_.end(), of_rank.begin(), of_rank.end());
  }
  return std::span<const double>(all_parts_);
}

}  // namespace ucudnn::multigrid
