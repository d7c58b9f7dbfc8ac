// Tests that every decision keeps the invariants, on random kernels, programs and worlds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "decision_lines.h"
#include "decision_world.h"
#include "planning/compositions.h"
#include "planning/decision/offers.h"
#include "planning/owned_promise.h"
#include "tests/support/cases.h"

namespace ucudnn::planning {
namespace {

constexpr int kMostBytes = 9;
constexpr int kImageBytes = 64;

// Makes random worlds that can occur. Programs were told only answers that ucudnn may give. A store
// may hold any promise.
class Drawing {
 public:
  explicit Drawing(unsigned seed) : random_(seed) {}

  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Once(int in) { return Int(1, in) == 1; }
  size_t Bytes() { return static_cast<size_t>(Int(0, kMostBytes)); }

  // With `only_rows` a decision depends only on the kernel, its rows and its limits, which the test
  // then sets.
  World Call(bool only_rows = false) {
    World world;
    Facts& facts = world.facts;
    auto& call = std::get<CallFacts>(facts.program);
    DrawProblem(facts);
    call.kind = static_cast<CallKind>(Int(0, 5));
    const std::vector<Candidate> all = DrawRows(facts.problem.n, "legacy:", true);
    facts.asked = all[static_cast<size_t>(Int(0, static_cast<int>(all.size()) - 1))].micro.engine;
    if (facts.asked.of_graph_api()) facts.asked = "legacy:0";
    const Candidate* const own = FindUndivided(all, facts.asked, facts.problem.n);
    facts.numeric = own->numeric;
    call.need_bytes = own->micro.workspace_bytes;
    call.passed_bytes = Once(2) ? *call.need_bytes : Bytes();
    if (Once(2)) facts.user_limit = Bytes();
    facts.deterministic = Once(5);
    const bool any_engine = call.kind != CallKind::kMisaligned && call.kind != CallKind::kIdentity;
    const bool plain = call.kind == CallKind::kPlain || call.kind == CallKind::kAdding;
    call.graph_engines = plain && !Once(3);
    world.rows = all;
    if (only_rows) return world;
    DrawProcess(world);
    if (Once(30)) call.need_bytes.reset();
    call.graph_engines &= !facts.capturing;
    call.more_outside = Once(5);
    call.confirmed_later = Once(20);
    const bool in_budget = Once(4);
    if (in_budget) facts.user_limit = 0;
    if (in_budget && any_engine && !facts.observes) facts.share = {Bytes(), Bytes()};
    // One time in three, some of the rows are not measured.
    if (Once(3)) std::erase_if(world.rows, [&](const Candidate&) { return Once(3); });
    if (!facts.observes && Once(2)) DrawTold(all, in_budget, facts, call);
    if (!facts.observes && Once(5)) call.confirmed = DrawConfirmed(all, facts);
    if (Once(3)) facts.earlier = {Once(2), Once(2), false, Bytes()};
    DrawTrouble(all, world);
    if (Once(2)) DrawTiles(world);
    return world;
  }

  World Plan(bool only_rows = false) {
    World world;
    Facts& facts = world.facts;
    auto& plan = facts.program.emplace<PlanFacts>();
    DrawProblem(facts);
    facts.asked = "graph:0";
    plan.deterministic = !Once(4);
    plan.is_heuristics_first = Once(2);
    plan.is_vast = Once(3);
    const std::vector<Candidate> all = DrawRows(facts.problem.n, "graph:", plan.deterministic);
    plan.need_bytes = FindUndivided(all, facts.asked, facts.problem.n)->micro.workspace_bytes;
    for (const Candidate& row : all) {
      const bool whole = row.micro.micro_batch == facts.problem.n;
      if (!whole || row.micro.engine == facts.asked) continue;
      world.others.push_back(row.micro);
      world.others.back().time_ms = kUnknownTime;
    }
    world.rows = all;
    if (!Once(4)) facts.user_limit = Bytes();
    if (only_rows) return world;
    facts.deterministic = Once(5);
    DrawProcess(world);
    plan.store = Once(2);
    if (Once(4)) {
      facts.user_limit = 0;
      facts.share = {Bytes(), Bytes()};
    }
    if (Once(3)) std::erase_if(world.others, [&](const auto&) { return Once(2); });
    if (Once(3)) std::erase_if(world.rows, [&](const Candidate&) { return Once(3); });
    plan.in_workspace_plan = !facts.observes && Once(5);
    plan.file_waits = facts.share && Once(3);
    if (plan.in_workspace_plan && !plan.file_waits) DrawConfirmed(all, facts, plan);
    DrawPromised(world, facts, plan);
    DrawTrouble(all, world);
    if (Once(2)) DrawTiles(world);
    return world;
  }

 private:
  void DrawProblem(Facts& facts) {
    ConvolutionProblem& problem = facts.problem;
    problem.n = Once(12) ? 1 : Int(2, 10);
    problem.x = {1, 4, 4};
    SetPackedStrides(problem);
    problem.alignment = kImageBytes * (1 << std::max(Int(-2, 2), 0));
  }

  void DrawProcess(World& world) {
    Facts& facts = world.facts;
    facts.observes = Once(40);
    facts.strict_limit = Once(5);
    facts.tunes = !Once(5);
    facts.capturing = Once(6);
    facts.failed = Once(10);
    world.settled = !Once(3);
    world.late = !world.settled && Once(3);
  }

  // Makes rows of two to four engines: for each engine one row of the whole mini-batch, and rows of
  // some smaller sizes. In half of the cases times are nearly linear in the size, so that gains are
  // about as large as the hysteresis.
  std::vector<Candidate> DrawRows(int n, const std::string& prefix, bool own_deterministic) {
    std::vector<Candidate> rows;
    const bool graph = prefix == "graph:", linear = Once(2);
    const int engines = Int(2, 4);
    for (int engine = 0; engine < engines; ++engine) {
      Candidate row;
      // The first engine is always of the caller's API. Engines that may replace a plan must be as
      // exact as the plan, so all engines of plans are kDirect.
      row.native = graph || engine == 0 || !Once(4);
      row.micro.engine = (row.native ? prefix : "graph:") + std::to_string(engine);
      row.numeric = graph ? NumericClass::kDirect : static_cast<NumericClass>(Int(0, 2));
      row.micro.deterministic = graph ? own_deterministic : Once(2);
      const int whole_bytes = Once(3) ? 0 : Int(0, kMostBytes);
      for (int size = n; size >= 1; --size) {
        if (size < n && !Once(3)) continue;
        row.micro.micro_batch = size;
        row.micro.time_ms = linear ? 100 * size + Int(0, 20) : size * Int(4, 12);
        const int bytes = size == n ? whole_bytes : Int(0, whole_bytes);
        row.micro.workspace_bytes = static_cast<size_t>(bytes);
        rows.push_back(row);
      }
    }
    return rows;
  }

  // Makes up to three grids of tiles, each with one or two kinds, and engines for the kinds.
  void DrawTiles(World& world) {
    Facts& facts = world.facts;
    facts.tiles = static_cast<TileUse>(Int(0, 2));
    world.tilings.settled = !Once(4);
    world.tilings.least_bytes = Bytes();
    const auto* const plan = std::get_if<PlanFacts>(&facts.program);
    const bool graph = plan != nullptr, vast = graph && plan->is_vast;
    for (int grid = Int(0, 3); grid > 0; --grid) {
      Tiling tiling{{.n = facts.problem.n, .spatial = {1, 2 * grid, 1}}, {}};
      for (int kind = Int(1, 2); kind > 0; --kind) {
        Tiling::Kind& of = tiling.kinds.emplace_back();
        of.count = facts.problem.n * (kind == 2 ? 2 * grid - 1 : 1);
        if (tiling.kinds.size() == 1 && kind == 1) of.count = tiling.grid.Parts();
        for (int engine = graph && !vast ? 0 : Int(0, 2); engine >= 0; --engine) {
          Candidate row;
          const bool own = graph && engine == 0;
          row.micro.engine = own ? facts.asked : "graph:" + std::to_string(4 + engine);
          row.native = graph;
          row.numeric = graph ? facts.numeric : static_cast<NumericClass>(engine);
          row.micro.micro_batch = 1;
          row.micro.tile.spatial[1] = 1;
          row.micro.time_ms = Int(1, 60) / 10.0;
          row.micro.workspace_bytes = Bytes();
          row.micro.deterministic = graph ? plan->deterministic : Once(2);
          of.candidates.push_back(std::move(row));
        }
      }
      if (Once(3)) {
        const EngineId& engine = tiling.kinds[0].candidates[0].micro.engine;
        std::vector<PieceName>* const found[] = {&world.wrong, &world.uncompared, &world.slower};
        found[Int(0, 2)]->emplace_back(engine, -tiling.grid.Parts());
      }
      world.tilings.measured.push_back(std::move(tiling));
    }
  }

  // Sets what a program was told about the algorithm that it names, at a time when other rows were
  // measured.
  void DrawTold(std::vector<Candidate> rows, bool in_budget, Facts& facts, CallFacts& call) {
    std::erase_if(rows, [&](const Candidate&) { return Once(5); });
    const size_t limit = in_budget ? Bytes() : std::min(facts.user_limit, Bytes());
    std::optional<Promise> told;
    if (Once(2)) {
      std::vector<Offer> offers;
      const PromiseRequest request = RequestFor(facts.problem, limit, facts.deterministic);
      if (in_budget) {
        AddOffersInBudget(facts.problem.operation, MathType::kDefault, rows, request, offers);
      } else {
        AddOffers(facts.problem.operation, MathType::kDefault, rows, request, offers);
      }
      if (offers.empty()) {
        (in_budget ? AddPiecesInBudget : AddPieces)(facts.problem.operation, MathType::kDefault,
                                                    rows, request, offers);
      }
      std::erase_if(
          offers, [&](const Offer& offer) { return offer.promise.reported.engine != facts.asked; });
      if (!offers.empty()) told = offers[Int(0, static_cast<int>(offers.size()) - 1)].promise;
    } else if (call.need_bytes && *call.need_bytes > (in_budget ? 0 : limit)) {
      // If the need of an algorithm fits the limit, a program is told this need. Another engine is
      // promised in the algorithm's place only if the need exceeds the limit.
      NamedOffer offer{{facts.problem, facts.asked, facts.numeric, in_budget ? 0 : limit,
                        facts.deterministic, in_budget},
                       *call.need_bytes};
      offer.budget_bytes = in_budget ? limit : 0;
      offer.settled = Once(2);
      offer.tunes = facts.tunes;
      offer.ranked = Once(3);
      if (offer.ranked) {
        std::erase_if(rows, [&](const Candidate& row) {
          return row.micro.micro_batch < facts.problem.n || !row.native;
        });
      }
      told = OfferFor(offer, rows);
      if (!told) told = PiecesFor(offer, rows);
    }
    if (!told || told->workspace_bytes > call.passed_bytes) return;
    // The promise may have been given on another device. On this device ucudnn may set aside less
    // than the promise needs.
    facts.assured_bytes = Once(8) ? Bytes() : AssuredBytes(*told);
    told->provisional |= Once(4);
    if (call.kind != CallKind::kIdentity) {
      call.told_alone = told;
    } else if (!told->alone.runs.empty()) {
      call.told_alone = Alone(*told);
    }
    call.told = std::move(told);
    call.was_told = true;
  }

  // Makes an entry of a workspace plan. Its candidates are the rows of the entry's pieces and all
  // undivided native rows.
  std::optional<ConfirmedLegacyKernel> DrawConfirmed(const std::vector<Candidate>& all,
                                                     const Facts& facts) {
    ConfirmedLegacyKernel confirmed;
    confirmed.limit_bytes = Once(2) ? kNoLimit : Bytes();
    std::vector<Candidate> native = all;
    std::erase_if(native, [](const Candidate& row) { return !row.native; });
    const auto configuration = FastestDivision(native, RequestFor(facts.problem, Bytes(), false));
    if (!configuration) return std::nullopt;
    confirmed.configuration = *configuration;
    for (Candidate row : native) {
      if (row.micro == configuration->Largest()) confirmed.largest = row.numeric;
      const bool piece = std::any_of(configuration->runs.begin(), configuration->runs.end(),
                                     [&](const Run& run) { return run.micro == row.micro; });
      if (!piece && row.micro.micro_batch < facts.problem.n) continue;
      confirmed.candidates.push_back(std::move(row));
    }
    return confirmed;
  }

  void DrawConfirmed(const std::vector<Candidate>& all, const Facts& facts, PlanFacts& plan) {
    ConfirmedGraphKernel confirmed;
    confirmed.limit_bytes = facts.share ? std::min(facts.share->bytes, facts.share->limit_bytes)
                                        : std::min(facts.user_limit, plan.need_bytes);
    std::vector<Candidate> rows = all;
    // An engine other than the plan's own may run only in place of the first plan of a heuristics
    // list.
    std::erase_if(rows, [&](const Candidate& row) {
      return row.micro.engine != facts.asked && !plan.is_heuristics_first;
    });
    const PromiseRequest request =
        RequestFor(facts.problem, confirmed.limit_bytes, facts.deterministic);
    const auto division = FastestDivision(rows, request);
    if (!division || Once(4)) {
      plan.unconfirmed_why = "no engine of that name";
      return;
    }
    confirmed.configuration = *division;
    confirmed.reason.because =
        Once(2) ? ReasonKind::kWorkspacePlan : ReasonKind::kWorkspacePlanOwnEngine;
    plan.confirmed = std::move(confirmed);
  }

  // Sets what was promised before for a plan of the graph API. A promise of less than the plan's
  // need occurs only if the need exceeds the limit, or if a workspace plan gives the plan a share.
  // A promise of more occurs only for vast plans.
  void DrawPromised(World& world, Facts& facts, PlanFacts& plan) {
    const size_t limit = std::min(facts.user_limit, plan.need_bytes);
    const bool shrinks =
        plan.need_bytes > facts.user_limit || (facts.share && plan.in_workspace_plan);
    // If `other` is empty, the plan's own pieces keep the promise.
    const EngineId other = Once(6) ? EngineId() : "graph:" + std::to_string(Int(0, 4));
    if (!facts.observes && shrinks && Once(3)) {
      plan.told_here = Once(2);
      const size_t bytes =
          plan.told_here ? static_cast<size_t>(Int(0, static_cast<int>(limit))) : Bytes();
      plan.told = {bytes, other, Once(2)};
      if (plan.told_here) facts.earlier = {Once(2), Once(2), true, bytes};
    } else if (!facts.observes && !shrinks && plan.is_vast && facts.user_limit != kNoLimit &&
               facts.user_limit > plan.need_bytes && Once(2)) {
      plan.told_here = Once(2);
      const int least = static_cast<int>(plan.need_bytes) + 1;
      const int most = static_cast<int>(facts.user_limit);
      const size_t bytes = plan.told_here ? static_cast<size_t>(Int(least, most)) : Bytes();
      plan.told = {bytes, facts.asked, true};
      if (plan.told_here) facts.earlier = {Once(2), Once(2), false, bytes};
    } else if (Once(3)) {
      facts.earlier = {Once(2), Once(2), false, plan.need_bytes};
    } else if (Once(3)) {
      world.rival = KeptPromise{Bytes(), other, Once(2)};
    }
  }

  void DrawTrouble(const std::vector<Candidate>& all, World& world) {
    const bool trouble = Once(2);
    for (const Candidate& row : all) {
      if (!trouble || !Once(4)) continue;
      auto& pieces = Once(2) ? world.wrong : world.uncompared;
      pieces.emplace_back(row.micro.engine, row.micro.micro_batch);
    }
    world.breaks_pieces = Once(12);
    world.breaks_whole = Once(12);
  }

  std::mt19937 random_;
};

// Expects that the decision breaks no invariant, and that the same world leads to the same decision
// again. Adds 1 to `divided` if the decision runs pieces.
void ExpectKeepsItsWord(World world, int& divided) {
  World again = world;
  const std::optional<Decision> decision = DecideIn(world);
  ASSERT_TRUE(decision) << "no decision after " << kMostSteps << " steps";
  const char* const broken = BrokenInvariant(world.facts, *decision);
  EXPECT_EQ(broken, nullptr) << broken << "\n" << Describe(world, *decision);
  EXPECT_EQ(DecideIn(again), decision);
  EXPECT_EQ(again.fallbacks, world.fallbacks);
  divided += decision->action == CallAction::kSchedule && decision->configuration.Pieces() > 1;
}

// TSan builds and debug builds try fewer cases. The test has one thread, so TSan can find no race
// in it. In debug builds each case is many times slower, because of asserts and little
// optimisation.
#ifdef __SANITIZE_THREAD__
constexpr int kFewer = 20;
#elif !defined(NDEBUG)
constexpr int kFewer = 5;
#else
constexpr int kFewer = 1;
#endif
const int kCases = test::Cases(100000, 25000) / kFewer;  // the number of calls, and of plans

TEST(DecisionProperty, EveryDecisionKeepsTheInvariants) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Drawing drawing(seed);
  int calls = 0, plans = 0;
  for (int i = 0; i < kCases && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    ExpectKeepsItsWord(drawing.Call(), calls);
    ExpectKeepsItsWord(drawing.Plan(), plans);
  }
  EXPECT_GT(calls, kCases / 30);
  EXPECT_GT(plans, kCases / 30);
}

// Returns the time of the decision's schedule or, if the call runs as asked, the time of the engine
// that was asked for. Returns kNoTime if that engine's workspace exceeds `room` bytes, if the
// engine is not as deterministic as required, or if the call is refused.
double TimeOf(const World& world, const Decision& decision, size_t room) {
  const Facts& facts = world.facts;
  if (decision.action == CallAction::kSchedule) return decision.configuration.TimeMs();
  const Candidate* const own = FindUndivided(world.rows, facts.asked, facts.problem.n);
  const bool suits = !facts.deterministic || own->micro.deterministic;
  const bool fits = own->micro.workspace_bytes <= room;
  return decision.action == CallAction::kReal && suits && fits ? own->micro.time_ms : kNoTime;
}

// Makes random worlds. In each world `give` sets one limit of workspace after the other, from 0 to
// kMostBytes bytes. Expects that no decision is slower than a decision under a smaller limit, and
// that in some worlds a larger limit gives a faster decision.
template <typename Draw, typename Give>
void ExpectDecidesNoSlower(Draw draw, Give give) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Drawing drawing(seed);
  int helped = 0;
  const int cases = test::Cases(40000, 8000) / kFewer;
  for (int i = 0; i < cases && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const World drawn = draw(drawing);
    double fastest_ms = kNoTime;
    for (size_t room = 0; room <= kMostBytes; ++room) {
      World world = drawn;
      give(world, room);
      const std::optional<Decision> decision = DecideIn(world);
      ASSERT_TRUE(decision);
      const double time_ms = TimeOf(world, *decision, room);
      EXPECT_LE((1 - kHysteresis) * time_ms, fastest_ms)
          << "within " << room << ": " << Describe(world, *decision);
      helped += time_ms < fastest_ms && fastest_ms < kNoTime;
      fastest_ms = std::min(fastest_ms, time_ms);
    }
  }
  EXPECT_GT(helped, cases * 3 / 40);
}

TEST(DecisionProperty, ACallIsNoSlowerWhereMoreIsPassed) {
  ExpectDecidesNoSlower([](Drawing& drawing) { return drawing.Call(true); },
                        [](World& world, size_t room) {
                          world.facts.user_limit = kNoLimit;
                          std::get<CallFacts>(world.facts.program).passed_bytes = room;
                        });
}

TEST(DecisionProperty, ACallIsNoSlowerUnderALargerLimit) {
  ExpectDecidesNoSlower([](Drawing& drawing) { return drawing.Call(true); },
                        [](World& world, size_t room) {
                          world.facts.user_limit = room;
                          std::get<CallFacts>(world.facts.program).passed_bytes = kMostBytes;
                        });
}

// The caller passes no workspace, so a call that runs as asked has only the share. If its engine
// needs more, TimeOf returns kNoTime.
TEST(DecisionProperty, ACallIsNoSlowerWithALargerShareOfTheBudget) {
  ExpectDecidesNoSlower(
      [](Drawing& drawing) {
        World world = drawing.Call(true);
        std::get<CallFacts>(world.facts.program).kind = CallKind::kScaled;
        std::get<CallFacts>(world.facts.program).graph_engines = false;
        return world;
      },
      [](World& world, size_t room) {
        world.facts.user_limit = 0;
        world.facts.share = {room, kMostBytes};
        std::get<CallFacts>(world.facts.program).passed_bytes = 0;
      });
}

// A plan that is not the first of a heuristics list may be divided with its own engine only,
// whatever the limit.
TEST(DecisionProperty, APlanIsNoSlowerUnderALargerLimit) {
  ExpectDecidesNoSlower(
      [](Drawing& drawing) {
        World world = drawing.Plan(true);
        std::get<PlanFacts>(world.facts.program).is_heuristics_first = false;
        return world;
      },
      [](World& world, size_t room) { world.facts.user_limit = room; });
}

// The first plan of a heuristics list keeps its engine if it fits the limit, because it is the
// program's choice. If it exceeds the limit, a much faster engine may replace it. So a larger
// limit, which the plan fits, may make the kernel slower without bound (docs/design.md, invariant
// 7; DecisionTable has rows that show this). In this test the plan exceeds all limits.
TEST(DecisionProperty, AFirstPlanIsNoSlowerUnderALargerLimitThatItExceeds) {
  ExpectDecidesNoSlower(
      [](Drawing& drawing) {
        World world = drawing.Plan(true);
        auto& plan = std::get<PlanFacts>(world.facts.program);
        plan.is_heuristics_first = true;
        plan.need_bytes = kMostBytes + 1;
        return world;
      },
      [](World& world, size_t room) { world.facts.user_limit = room; });
}

TEST(DecisionProperty, APlanIsNoSlowerWithALargerShareOfTheBudget) {
  ExpectDecidesNoSlower([](Drawing& drawing) { return drawing.Plan(true); },
                        [](World& world, size_t room) {
                          world.facts.user_limit = 0;
                          world.facts.share = {room, kMostBytes};
                        });
}

}  // namespace
}  // namespace ucudnn::planning
