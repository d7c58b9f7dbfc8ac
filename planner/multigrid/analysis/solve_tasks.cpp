#include "planner/multigrid/analysis/solve_tasks.h"

#include <algorithm>
#include <utility>

#include "planner/multigrid/analysis/balanced_runs.h"

namespace ucudnn::multigrid {
namespace {

// Returns the number of integers that are in both [begin, end) and [other_begin, other_end).
int CommonNumbers(int begin, int end, int other_begin, int other_end) {
  return std::max(0, std::min(end, other_end) - std::max(begin, other_begin));
}

}  // namespace

SolveTasks::SolveTasks(Cluster& cluster, const planner::Device& device, const LevelCosts& costs,
                       const MultigridSetting& setting, double state_bytes, BlockRuns runs)
    : cluster_(cluster),
      device_(device),
      costs_(costs),
      setting_(setting),
      state_bytes_(state_bytes),
      runs_(std::move(runs)) {
  levels_.resize(static_cast<size_t>(costs.hierarchy().levels()));
  for (int level = 0; level < costs.hierarchy().levels(); ++level) MakeShares(level);
}

int SolveTasks::BlocksOf(int level) const {
  const Level& shape = costs_.hierarchy().level(level);
  return (shape.steps + shape.coarsening - 1) / shape.coarsening;
}

int SolveTasks::OwnerOf(int level, int block) const {
  const Hierarchy& hierarchy = costs_.hierarchy();
  if (level > 0 && setting_.place == CoarsePlace::kAllOnOne) return 0;
  if (level == hierarchy.coarsest() && setting_.place == CoarsePlace::kCoarsestOnOne) return 0;
  const Level& shape = hierarchy.level(level);
  const int layer = block * shape.coarsening * shape.span;
  const int fine = layer / hierarchy.level(0).coarsening;
  const std::vector<int>& begins = runs_.begins;
  return static_cast<int>(std::upper_bound(begins.begin(), begins.end() - 1, fine) -
                          begins.begin()) -
         1;
}

void SolveTasks::MakeShares(int level) {
  std::vector<Share>& shares = levels_[level];
  const int blocks = BlocksOf(level);
  for (int block = 0; block < blocks; ++block) {
    const int device = runs_.DeviceOf(OwnerOf(level, block));
    if (shares.empty() || shares.back().device != device) {
      shares.push_back({.device = device, .begin = block});
    }
    shares.back().end = block + 1;
  }
  if (level == costs_.hierarchy().coarsest()) return;
  for (size_t i = 0; i < shares.size(); ++i) {
    MakeUnits(level, shares[i], i > 0, i + 1 < shares.size());
  }
}

// Divides the share's blocks into units. The next device waits for the state of the last block, so
// that block is the first unit. The first block waits for the previous device, so it is the last
// unit: the host launches all other blocks before it waits.
void SolveTasks::MakeUnits(int level, Share& share, bool has_before, bool has_behind) {
  int begin = share.begin;
  int end = share.end;
  const auto add = [&](int unit_begin, int unit_end) {
    if (unit_begin == unit_end) return;
    share.units.push_back({.begin = unit_begin, .end = unit_end});
    CostUnit(level, share.units.back());
  };
  if (has_behind && end - begin > 1) {
    --end;
    add(end, end + 1);
  }
  const bool waits = has_before && end - begin > 1;
  if (waits) ++begin;
  const int streams = setting_.StreamsFor(end - begin, device_);
  for (int i = 0; i < streams; ++i) {
    add(begin + (end - begin) * i / streams, begin + (end - begin) * (i + 1) / streams);
  }
  if (waits) add(begin - 1, begin);
}

void SolveTasks::CostUnit(int level, Unit& unit) const {
  const Level& shape = costs_.hierarchy().level(level);
  const int full_end = std::min(unit.end, shape.blocks());
  if (setting_.blocks == BlocksAtOnce::kGrouped) {
    for (int position = 0; position + 1 < shape.coarsening; ++position) {
      unit.relax += costs_.AtOnce(level, unit.begin, unit.end, position);
    }
    unit.advance = costs_.AtOnce(level, unit.begin, full_end, shape.coarsening - 1);
    // Step b of the next level begins at the same state as block b, so both have the same number.
    unit.restrict_ = costs_.StepsAtOnce(level + 1, unit.begin, full_end);
    return;
  }
  // If F-points are not kept, relaxing a full block does nothing, and Advance computes the block's
  // F-points on the way to the next C-point. The steps of the adjoint then compute again the states
  // at which they are linearised.
  const bool keeps_f = level > 0 || setting_.storage == Storage::kAll;
  for (int block = unit.begin; block < unit.end; ++block) {
    const int begin = block * shape.coarsening;
    const int last = std::min(begin + shape.coarsening - 1, shape.steps);
    RunCost& f_steps = keeps_f || block >= full_end ? unit.relax : unit.advance;
    f_steps += costs_.InRow(level, begin, last);
    if (block < full_end) unit.advance += costs_.InRow(level, last, last + 1);
    if (!keeps_f) f_steps += costs_.StatesAgain(begin, block < full_end ? last + 1 : last);
  }
  unit.restrict_ = costs_.InRow(level + 1, unit.begin, full_end);
}

SolveTasks::Phase& SolveTasks::PhaseOf(int level) {
  if (phase_level_ != level) RunPhase();
  phase_level_ = level;
  return phase_;
}

void SolveTasks::RunPhase() {
  if (phase_level_ == kNoLevel) return;
  const Phase phase = std::exchange(phase_, Phase());
  std::vector<Share>& shares = levels_[std::exchange(phase_level_, kNoLevel)];
  std::vector<TaskList> arriving(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    Share& share = shares[i];
    TaskList all;
    for (size_t number = 0; number < share.units.size(); ++number) {
      const Unit& unit = share.units[number];
      RunCost cost;
      if (phase.relaxes) cost += unit.relax;
      if (phase.advances) cost += unit.advance;
      if (phase.restricts) cost += unit.restrict_;
      TaskList after = share.ready;
      if (unit.begin == share.begin) Append(after, share.arrived);
      const auto stream = cluster_.Stream(share.device, StreamOf(static_cast<int>(number)));
      const TaskList done = cluster_.Run(share.device, stream, cost, std::move(after));
      Append(all, done);
      if (phase.sends && unit.end == share.end && i + 1 < shares.size()) {
        arriving[i + 1] =
            cluster_.Send(share.device, shares[i + 1].device, state_bytes_, Port::kOfSender, done);
      }
    }
    share.ready = cluster_.Join(std::move(all));
  }
  for (size_t i = 0; i < shares.size(); ++i) shares[i].arrived = std::move(arriving[i]);
}

Status SolveTasks::RelaxF(int level, Source) {
  if (phase_.relaxes || phase_.advances) RunPhase();
  PhaseOf(level).relaxes = true;
  return Status::Ok();
}

Status SolveTasks::Advance(int level) {
  if (phase_.advances) RunPhase();
  PhaseOf(level).advances = true;
  return Status::Ok();
}

// If Parts was called after Advance, Parts has already run the phase and sent the advanced states.
// RelaxC then does nothing.
Status SolveTasks::RelaxC(int level) {
  if (phase_level_ != level) return Status::Ok();
  phase_.sends = true;
  RunPhase();
  return Status::Ok();
}

template <typename Count>
void SolveTasks::SendStates(int from, int to, Port port, const Count& count) {
  for (Share& reader : levels_[to]) {
    for (const Share& writer : levels_[from]) {
      const int states = count(writer, reader);
      if (states == 0) continue;
      Append(reader.ready, cluster_.Send(writer.device, reader.device, states * state_bytes_, port,
                                         writer.ready));
    }
    reader.ready = cluster_.Join(std::move(reader.ready));
    reader.arrived.clear();
  }
}

// Sends the right sides of the next level to the devices that have its blocks. If that level is
// relaxed, the same messages carry the first states of its blocks.
Status SolveTasks::Restrict(int level) {
  PhaseOf(level).restricts = true;
  RunPhase();
  const Level& next = costs_.hierarchy().level(level + 1);
  const int c = next.coarsening;
  const bool takes_states = level + 1 < costs_.hierarchy().coarsest();
  for (Share& coarse : levels_[level + 1]) coarse.ready.clear();
  SendStates(level, level + 1, Port::kOfReceiver, [&](const Share& fine, const Share& coarse) {
    const int count =
        CommonNumbers(fine.begin, std::min(fine.end, next.steps), coarse.begin * c, coarse.end * c);
    return count + (takes_states ? (count + c - 1) / c : 0);
  });
  return Status::Ok();
}

// Solves the coarsest level. A nested start begins with this solve, which therefore waits for the
// first state of the stage.
Status SolveTasks::SolveSerially(int level, Source source) {
  RunPhase();
  if (source == Source::kNone) levels_.back().front().ready = first_;
  std::vector<Share>& shares = levels_[level];
  for (size_t i = 0; i < shares.size(); ++i) {
    Share& share = shares[i];
    TaskList after = share.ready;
    if (i > 0) {
      const Share& before = shares[i - 1];
      Append(after, cluster_.Send(before.device, share.device, state_bytes_, Port::kOfSender,
                                  before.ready));
    }
    share.ready =
        cluster_.Join(cluster_.Run(share.device, cluster_.Stream(share.device, 0),
                                   costs_.InRow(level, share.begin, share.end), std::move(after)));
  }
  return Status::Ok();
}

Status SolveTasks::Correct(int level) {
  RunPhase();
  const int c = costs_.hierarchy().level(level + 1).coarsening;
  SendStates(level + 1, level, Port::kOfSender, [&](const Share& coarse, const Share& fine) {
    // The last state of level + 1 comes after the last block. The share with that block has this
    // state, too.
    const bool is_last = coarse.end == BlocksOf(level + 1);
    return CommonNumbers(fine.begin, fine.end, std::max(1, coarse.begin * c),
                         is_last ? fine.end : coarse.end * c);
  });
  return Status::Ok();
}

// Sends the first state to all devices along a binomial tree. Each device copies the state into all
// its states.
Status SolveTasks::Broadcast() {
  std::vector<Share>& finest = levels_[0];
  const double bandwidth = device_.memory_gb_per_s * 1e6;
  std::vector<TaskList> has_first(finest.size());
  for (size_t i = 0; i < finest.size(); ++i) {
    const size_t parent = i & (i - 1);
    has_first[i] = i == 0 ? first_
                          : cluster_.Send(finest[parent].device, finest[i].device, state_bytes_,
                                          Port::kOfSender, has_first[parent]);
    const int states_of_block =
        setting_.storage == Storage::kAll ? costs_.hierarchy().level(0).coarsening : 1;
    const int states = (finest[i].end - finest[i].begin) * states_of_block;
    const double write_ms = states * state_bytes_ / bandwidth;
    finest[i].ready = cluster_.Join(
        cluster_.Run(finest[i].device, cluster_.Stream(finest[i].device, 0),
                     {device_.kernel_us / 1e3 + write_ms, write_ms, 1}, has_first[i]));
  }
  return Status::Ok();
}

Result<std::span<const double>> SolveTasks::Parts(NormParts) {
  // The residual itself needs no state of another device, but a C-relaxation that follows does.
  if (phase_level_ == 0) phase_.sends = SweepsOf(setting_.c_sweeps, 0) > 0;
  RunPhase();
  constexpr double kSumBytes = 8;
  constexpr int kKernels = 2;  // the residual, and the norm of the states
  std::vector<Share>& finest = levels_[0];
  for (Share& share : finest) {
    const double read_ms =
        3 * (share.end - share.begin) * state_bytes_ / (device_.memory_gb_per_s * 1e6);
    share.ready = cluster_.Join(cluster_.Run(
        share.device, cluster_.Stream(share.device, 0),
        {kKernels * device_.kernel_us / 1e3 + read_ms, read_ms, kKernels}, std::move(share.ready)));
  }
  for (size_t i = finest.size(); --i > 0;) {
    Share& parent = finest[i & (i - 1)];
    Append(parent.ready, cluster_.Send(finest[i].device, parent.device, kSumBytes,
                                       Port::kOfReceiver, finest[i].ready));
  }
  finest[0].ready = cluster_.Join(std::move(finest[0].ready));
  for (size_t i = 1; i < finest.size(); ++i) {
    const Share& parent = finest[i & (i - 1)];
    finest[i].ready =
        cluster_.Send(parent.device, finest[i].device, kSumBytes, Port::kOfSender, parent.ready);
  }
  return std::span<const double>();
}

void SolveTasks::BeginGraphs() {
  for (const Share& share : levels_[0]) cluster_.BeginGraph(share.device);
}

Status SolveTasks::RunCycle(int, const std::function<Status()>& cycle) {
  BeginGraphs();
  return cycle();
}

Status SolveTasks::Add(const TaskList& first) {
  first_ = first;
  BeginGraphs();
  SolveOptions options = {.c_sweeps = setting_.c_sweeps,
                          .start = setting_.start,
                          .skips_first_down = setting_.skips_first_down,
                          .cycles = setting_.cycles,
                          .measures_cycles = setting_.measures_residuals};
  UCUDNN_RETURN_IF_ERROR(RunCycles(*this, costs_.hierarchy(), options));
  RunPhase();
  return Status::Ok();
}

std::vector<int> BalancedBlocks(const LevelCosts& costs, double launch_us, int devices) {
  const Level& finest = costs.hierarchy().level(0);
  std::vector<double> block_ms;
  for (int block = 0; block < finest.blocks(); ++block) {
    const int begin = block * finest.coarsening;
    const int end = block + 1 == finest.blocks() ? finest.steps : begin + finest.coarsening;
    const RunCost cost = costs.InRow(0, begin, end);
    block_ms.push_back(std::max(cost.ms, cost.launches * launch_us / 1e3));
  }
  return BalancedRuns(block_ms, devices);
}

}  // namespace ucudnn::multigrid
