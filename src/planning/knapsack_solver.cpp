#include "planning/knapsack_solver.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace ucudnn::planning {
namespace {

using Wide = __int128;

constexpr double kTicksPerMs = 1 << 30;
constexpr int64_t kMostTicks = int64_t{1} << 61;
constexpr int64_t kMostBytes = int64_t{1} << 61;
constexpr size_t kNone = ~size_t{0};

struct Item {
  int64_t bytes;
  int64_t ticks;
  size_t choice;  // index into the kernel's choices
};

// The choices of each kernel that no other choice of the kernel beats, in ascending order of bytes
// and descending order of ticks (1 / kTicksPerMs of a millisecond).
struct Kernels {
  std::vector<Item> items;
  // The index of each kernel's first item, and at the end the number of items.
  std::vector<size_t> first;

  size_t count() const { return first.size() - 1; }
};

// A ratio of ticks to bytes; `bytes` is positive.
struct Rate {
  int64_t ticks;
  int64_t bytes;
};

bool operator<(const Rate& a, const Rate& b) {
  return Wide{a.ticks} * b.bytes < Wide{b.ticks} * a.bytes;
}

Result<Kernels> Undominated(std::span<const Choices> kernels, size_t budget_bytes) {
  Kernels all;
  all.first.push_back(0);
  int64_t most_ticks = 0;
  int64_t most_bytes = 0;
  for (const Choices& choices : kernels) {
    const auto first = static_cast<std::ptrdiff_t>(all.items.size());
    int64_t longest = 0;
    for (size_t i = 0; i < choices.size(); ++i) {
      const Choice& choice = choices[i];
      if (!(choice.time_ms >= 0) || choice.time_ms > kMostTicks / kTicksPerMs) {
        return Status::Error("a time of " + std::to_string(choice.time_ms) + " ms");
      }
      if (choice.workspace_bytes > budget_bytes) continue;
      if (choice.workspace_bytes > static_cast<size_t>(kMostBytes)) {
        return Status::Error("a workspace of " + std::to_string(choice.workspace_bytes) + " bytes");
      }
      const int64_t ticks = std::llround(choice.time_ms * kTicksPerMs);
      all.items.push_back({static_cast<int64_t>(choice.workspace_bytes), ticks, i});
      longest = std::max(longest, ticks);
    }
    const auto begin = all.items.begin() + first;
    std::sort(begin, all.items.end(), [](const Item& a, const Item& b) {
      return std::tie(a.bytes, a.ticks, a.choice) < std::tie(b.bytes, b.ticks, b.choice);
    });
    auto end = begin;
    for (auto item = begin; item != all.items.end(); ++item) {
      if (end == begin || item->ticks < (end - 1)->ticks) *end++ = *item;
    }
    all.items.erase(end, all.items.end());
    if (end == begin) return Status::Error("a kernel has no choice within the budget");
    all.first.push_back(all.items.size());
    most_ticks += longest;
    most_bytes += all.items.back().bytes;
    if (most_ticks > kMostTicks) return Status::Error("times of more than 2^31 ms in total");
    if (most_bytes > kMostBytes) return Status::Error("workspaces of more than 2^61 bytes");
  }
  return all;
}

// A step from one corner of the lower convex hull of a kernel's items to the next corner.
struct Step {
  Rate rate;      // ticks saved per byte spent
  size_t kernel;  // kernel that the hull belongs to
  size_t item;    // the item at the end of the step
};

// Returns the steps of all kernels by descending rate. Rates descend along each hull, so the steps
// of one kernel stay in their order.
std::vector<Step> HullSteps(const Kernels& kernels) {
  std::vector<Step> steps;
  std::vector<size_t> hull;
  const auto rate = [&](size_t from, size_t to) {
    return Rate{kernels.items[from].ticks - kernels.items[to].ticks,
                kernels.items[to].bytes - kernels.items[from].bytes};
  };
  for (size_t kernel = 0; kernel < kernels.count(); ++kernel) {
    hull.clear();
    for (size_t item = kernels.first[kernel]; item < kernels.first[kernel + 1]; ++item) {
      while (hull.size() >= 2 && !(rate(hull.back(), item) < rate(hull.end()[-2], hull.back()))) {
        hull.pop_back();
      }
      hull.push_back(item);
    }
    for (size_t i = 1; i < hull.size(); ++i) {
      steps.push_back({rate(hull[i - 1], hull[i]), kernel, hull[i]});
    }
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    if (a.rate < b.rate || b.rate < a.rate) return b.rate < a.rate;
    return std::tie(a.kernel, a.item) < std::tie(b.kernel, b.item);
  });
  return steps;
}

// The optimum of the linear relaxation, without its last step, which fits the budget only in part.
// `price` is the rate of that step, and `slack` the bytes that are left for it. The relaxation
// bounds every selection: if a choice differs from its kernel's pick by (bytes, ticks), then ticks
// + price * bytes >= 0. So no selection saves more ticks than price * slack compared with the
// picks.
struct Relaxation {
  std::vector<size_t> pick;  // index of the item that each kernel has
  int64_t slack = 0;
  Rate price = {0, 1};         // 0 ticks if every kernel has its fastest item
  std::vector<size_t> greedy;  // like `pick`, with the later steps that still fit
};

Relaxation Relax(const Kernels& kernels, const std::vector<Step>& steps, int64_t slack) {
  Relaxation relaxation;
  relaxation.pick.assign(kernels.first.begin(), kernels.first.end() - 1);
  size_t at = 0;
  for (; at < steps.size() && steps[at].rate.bytes <= slack; ++at) {
    slack -= steps[at].rate.bytes;
    relaxation.pick[steps[at].kernel] = steps[at].item;
  }
  relaxation.slack = slack;
  relaxation.greedy = relaxation.pick;
  if (at == steps.size()) return relaxation;
  relaxation.price = steps[at].rate;
  std::vector<bool> stopped(kernels.count(), false);
  for (; at < steps.size(); ++at) {
    if (stopped[steps[at].kernel] || steps[at].rate.bytes > slack) {
      stopped[steps[at].kernel] = true;
      continue;
    }
    slack -= steps[at].rate.bytes;
    relaxation.greedy[steps[at].kernel] = steps[at].item;
  }
  return relaxation;
}

// The change in bytes and ticks if an item replaces a kernel's pick.
struct Change {
  int64_t bytes;
  int64_t ticks;
  size_t item;
};

// A kernel, with the changes of its pick that the optimum may contain.
struct Core {
  // For each change, CostOf() is divided by the number of bytes that the change adds or saves. This
  // is the least of these quotients.
  double distance;
  size_t kernel;
  std::vector<Change> changes;
};

// Bounds on what the kernels that are not searched yet can contribute. `saves` is the most ticks
// that one more byte saves. `costs` is the fewest ticks that giving up one byte costs.
struct Prospects {
  Rate saves = {0, 1};
  Rate costs = {1, 0};  // infinite: no kernel can use fewer bytes
};

// A selection in which only kernels that were searched already may differ from their picks.
struct State {
  int64_t bytes;  // `bytes` and `ticks` say by how much the selection exceeds the picks
  int64_t ticks;
  size_t made;  // index in made_ of the latest change before `item`; kNone: none
  // The item that replaces the pick of the kernel that is being searched; kNone: the pick stays.
  size_t item = kNone;
};

struct Made {
  size_t before;  // index in made_ of the previous change; kNone: none
  size_t kernel;
  size_t item;
};

// Searches the kernels of the core in ascending order of `distance`. Drops states that another
// state beats in bytes and ticks, and states that cannot beat the best selection so far. When no
// state is left, or all kernels are searched, the best selection is proven optimal.
class Search {
 public:
  Search(const Kernels& kernels, const Relaxation& relaxation)
      : kernels_(kernels), relaxation_(relaxation) {
    for (size_t kernel = 0; kernel < kernels.count(); ++kernel) {
      const Item& from = kernels.items[relaxation.pick[kernel]];
      const Item& to = kernels.items[relaxation.greedy[kernel]];
      best_.bytes += to.bytes - from.bytes;
      best_.ticks += to.ticks - from.ticks;
    }
  }

  // Searches for the optimum. Returns false if this would take more than `most_states` states.
  bool Run(size_t most_states) {
    const std::vector<Core> cores = FindCores();
    const std::vector<Prospects> prospects = FindProspects(cores);
    std::vector<State> states = {{0, 0, kNone}};
    size_t tried_states = 0;
    for (size_t at = 0; at < cores.size() && !states.empty(); ++at) {
      tried_states += states.size() * (cores[at].changes.size() + 1);
      if (tried_states > most_states) return false;
      Expand(cores[at], prospects[at + 1], states);
    }
    return true;
  }

  std::vector<size_t> Best() const {
    if (best_is_greedy_) return relaxation_.greedy;
    std::vector<size_t> items = relaxation_.pick;
    for (size_t change = best_.made; change != kNone; change = made_[change].before) {
      items[made_[change].kernel] = made_[change].item;
    }
    return items;
  }

  // Returns the time by which the best selection exceeds the relaxation's bound. No selection is
  // faster than the best one by more than this.
  double GapMs() const {
    const Rate& price = relaxation_.price;
    return (static_cast<double>(best_.ticks) + static_cast<double>(price.ticks) *
                                                   static_cast<double>(relaxation_.slack) /
                                                   static_cast<double>(price.bytes)) /
           kTicksPerMs;
  }

 private:
  // Returns (ticks + price * bytes) * price.bytes, which is a whole number: the cost of a change if
  // its bytes are valued at the price.
  Wide CostOf(int64_t bytes, int64_t ticks) const {
    return Wide{ticks} * relaxation_.price.bytes + Wide{bytes} * relaxation_.price.ticks;
  }

  // Returns whether every selection with this change is slower than the best selection so far.
  bool IsHopeless(const Change& change) const {
    return CostOf(change.bytes, change.ticks) > CostOf(relaxation_.slack, best_.ticks);
  }

  std::vector<Core> FindCores() const {
    std::vector<Core> cores;
    for (size_t kernel = 0; kernel < kernels_.count(); ++kernel) {
      const size_t pick = relaxation_.pick[kernel];
      Core core{0, kernel, {}};
      for (size_t item = kernels_.first[kernel]; item < kernels_.first[kernel + 1]; ++item) {
        const Change change{kernels_.items[item].bytes - kernels_.items[pick].bytes,
                            kernels_.items[item].ticks - kernels_.items[pick].ticks, item};
        if (item == pick || IsHopeless(change)) continue;
        const double distance = static_cast<double>(CostOf(change.bytes, change.ticks)) /
                                static_cast<double>(std::abs(change.bytes));
        core.distance = core.changes.empty() ? distance : std::min(core.distance, distance);
        core.changes.push_back(change);
      }
      if (!core.changes.empty()) cores.push_back(std::move(core));
    }
    std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) {
      return std::tie(a.distance, a.kernel) < std::tie(b.distance, b.kernel);
    });
    return cores;
  }

  // Returns, for each position in `cores`, the prospects of the cores from that position on.
  static std::vector<Prospects> FindProspects(const std::vector<Core>& cores) {
    std::vector<Prospects> prospects(cores.size() + 1);
    for (size_t at = cores.size(); at-- > 0;) {
      Prospects& own = prospects[at];
      own = prospects[at + 1];
      for (const Change& change : cores[at].changes) {
        if (change.bytes > 0) {
          own.saves = std::max(own.saves, Rate{-change.ticks, change.bytes});
        } else {
          own.costs = std::min(own.costs, Rate{change.ticks, -change.bytes});
        }
      }
    }
    return prospects;
  }

  // Returns whether the kernels that are not searched yet may save `ticks` by using at most `bytes`
  // more. If `ticks` is negative, these kernels may lose up to -ticks. If `bytes` is negative, they
  // must give up -bytes.
  static bool MayReach(int64_t ticks, int64_t bytes, const Prospects& to_come) {
    if (bytes >= 0) return Wide{ticks} * to_come.saves.bytes <= Wide{bytes} * to_come.saves.ticks;
    return Wide{-ticks} * to_come.costs.bytes >= Wide{-bytes} * to_come.costs.ticks;
  }

  // Returns whether changes of the kernels that are not searched yet could turn the state into a
  // selection that is faster than the best one, or as fast with fewer bytes.
  bool MayImprove(const State& state, const Prospects& to_come) const {
    const int64_t behind = state.ticks - best_.ticks;
    return MayReach(behind + 1, relaxation_.slack - state.bytes, to_come) ||
           MayReach(behind, best_.bytes - 1 - state.bytes, to_come);
  }

  // Merges two lists that are sorted by bytes. Drops each state that a state with at most as many
  // bytes beats or equals in ticks.
  void Merge(const std::vector<State>& a, const std::vector<State>& b,
             std::vector<State>& merged) const {
    merged.clear();
    const auto before = [](const State& left, const State& right) {
      return std::tie(left.bytes, left.ticks) < std::tie(right.bytes, right.ticks);
    };
    auto in_a = a.begin();
    auto in_b = b.begin();
    while (in_a != a.end() || in_b != b.end()) {
      const bool from_b = in_a == a.end() || (in_b != b.end() && before(*in_b, *in_a));
      const State& next = from_b ? *in_b++ : *in_a++;
      if (merged.empty() || next.ticks < merged.back().ticks) merged.push_back(next);
    }
  }

  void Expand(const Core& core, const Prospects& to_come, std::vector<State>& states) {
    std::vector<State> all = states;
    std::vector<State> changed;
    std::vector<State> merged;
    for (const Change& change : core.changes) {
      if (IsHopeless(change)) continue;
      changed.clear();
      for (const State& state : states) {
        const State with{state.bytes + change.bytes, state.ticks + change.ticks, state.made,
                         change.item};
        if (MayImprove(with, to_come)) changed.push_back(with);
      }
      Merge(all, changed, merged);
      all.swap(merged);
    }
    KeepBest(core.kernel, all);
    states.clear();
    for (State& state : all) {
      if (!MayImprove(state, to_come)) continue;
      Make(core.kernel, state);
      states.push_back(state);
    }
  }

  void Make(size_t kernel, State& state) {
    if (state.item == kNone) return;
    made_.push_back({state.made, kernel, state.item});
    state.made = made_.size() - 1;
    state.item = kNone;
  }

  void KeepBest(size_t kernel, const std::vector<State>& states) {
    // States are in ascending order of bytes and descending order of ticks, so the last one that
    // fits is the fastest.
    const auto past = std::partition_point(states.begin(), states.end(), [&](const State& state) {
      return state.bytes <= relaxation_.slack;
    });
    if (past == states.begin()) return;
    const State& fastest = *(past - 1);
    if (std::tie(fastest.ticks, fastest.bytes) >= std::tie(best_.ticks, best_.bytes)) return;
    best_ = fastest;
    Make(kernel, best_);
    best_is_greedy_ = false;
  }

  const Kernels& kernels_;
  const Relaxation& relaxation_;
  State best_ = {0, 0, kNone};
  bool best_is_greedy_ = true;
  std::vector<Made> made_;
};

}  // namespace

Result<Selection> KnapsackSolver::Solve(std::span<const Choices> kernels, size_t budget_bytes) {
  UCUDNN_ASSIGN_OR_RETURN(const Kernels undominated, Undominated(kernels, budget_bytes));
  int64_t least = 0;
  int64_t most = 0;
  for (size_t kernel = 0; kernel < undominated.count(); ++kernel) {
    least += undominated.items[undominated.first[kernel]].bytes;
    most += undominated.items[undominated.first[kernel + 1] - 1].bytes;
  }
  if (static_cast<size_t>(least) > budget_bytes) {
    return Status::Error("the budget is short of " + std::to_string(least - budget_bytes) +
                         " bytes");
  }
  const int64_t budget = static_cast<int64_t>(std::min(budget_bytes, static_cast<size_t>(most)));
  const Relaxation relaxation = Relax(undominated, HullSteps(undominated), budget - least);
  Search search(undominated, relaxation);
  Selection selection;
  selection.optimal = relaxation.price.ticks == 0 || search.Run(most_states_);
  if (!selection.optimal) selection.gap_ms = search.GapMs();
  for (const size_t item : search.Best()) {
    selection.chosen.push_back(undominated.items[item].choice);
  }
  return selection;
}

}  // namespace ucudnn::planning
