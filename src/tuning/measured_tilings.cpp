// The functions of MeasuredKernels for grids of tiles. Grids are chosen by the workspaces that
// engines need, and each kind of tile of a grid is measured. Before tiles run, Verify compares
// their results, and times all tiles of the grid on the whole tensors.
#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "convolution/tiles.h"
#include "cuda/resources.h"
#include "tuning/fitting_grids.h"
#include "tuning/measured_kernels.h"
#include "tuning/race.h"
#include "tuning/stored_tiles.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

using planning::Tiling;
using planning::Tilings;

// The most grids that are measured for a kernel. They are few, because every kind of tile of every
// grid is measured.
constexpr size_t kMostGrids = 4;

struct Grids {
  std::vector<TileGrid> fitting;
  size_t least_bytes = 0;  // the least FoundGrids::least_bytes of all engines; 0: no engine has one
  std::string why;
};

// Returns the grids that FittingGrids finds for `engines` within `limits`. Uses a handle of
// ucudnn's own.
Grids FindGrids(const Device& device, const Question& question,
                const std::vector<EngineId>& engines, const GridLimits& limits) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  Grids grids;
  TuningHandle handle(*device.driver, *device.functions);
  if (engines.empty()) grids.why = "no engine is known that could serve tiles";
  if (const Status status = handle.Create(); !status.ok()) {
    grids.why = status.message();
    return grids;
  }
  const auto made = MakeEngines(question.scope, *device.functions, handle.get());
  const FusedOperands fused = FusedIn(question.scope);
  for (const EngineId& engine : engines) {
    FoundGrids found = FittingGrids(*made, question.problem, engine, limits, fused);
    for (const Division& division : found.fitting) {
      const TileGrid& grid = division.configuration.grid;
      const bool known =
          std::find(grids.fitting.begin(), grids.fitting.end(), grid) != grids.fitting.end();
      if (!known && grids.fitting.size() < kMostGrids) grids.fitting.push_back(grid);
    }
    const bool less = grids.least_bytes == 0 || found.least_bytes < grids.least_bytes;
    if (found.least_bytes > 0 && less) grids.least_bytes = found.least_bytes;
    if (grids.why.empty()) grids.why = std::move(found.why);
  }
  return grids;
}

// Formats the numbers of `grid` in the order of its members, for a note in the store.
std::string NoteOf(const TileGrid& grid) {
  std::string note;
  for (const int parts :
       {grid.n, grid.groups, grid.k, grid.spatial[0], grid.spatial[1], grid.spatial[2]}) {
    note += (note.empty() ? "" : " ") + std::to_string(parts);
  }
  return note;
}

// Returns the key of a search's note in the store: a text of all inputs of a search for grids
// except the kernel and the platform.
std::string AboutGrids(const std::vector<EngineId>& engines, const GridLimits& limits) {
  std::string about = "grids within " + std::to_string(limits.workspace_bytes) + ", L2 " +
                      std::to_string(limits.cache_bytes) + ", " +
                      BatchSizePolicyName(limits.policy) + ":";
  for (const EngineId& engine : engines) about += " " + engine.Text();
  return about;
}

std::string NoteOf(const Grids& grids) {
  std::string note = std::to_string(grids.least_bytes) + " " + std::to_string(grids.fitting.size());
  for (const TileGrid& grid : grids.fitting) note += " " + NoteOf(grid);
  return note + " " + grids.why;
}

// Parses a note that NoteOf(grids) has made; returns none if `note` is malformed.
std::optional<Grids> GridsOfNote(const std::string& note) {
  std::istringstream text(note);
  Grids grids;
  size_t count = 0;
  if (!(text >> grids.least_bytes >> count) || count > kMostGrids) return std::nullopt;
  for (; count > 0; --count) {
    TileGrid& grid = grids.fitting.emplace_back();
    for (int* const parts :
         {&grid.n, &grid.groups, &grid.k, &grid.spatial[0], &grid.spatial[1], &grid.spatial[2]}) {
      if (!(text >> *parts) || *parts < 1 || *parts > kMostTiles) return std::nullopt;
    }
  }
  std::getline(text >> std::ws, grids.why);
  return grids;
}

std::string NoteOf(const MicroConfiguration& micro) {
  return " " + micro.engine.Text() + " in " + std::to_string(micro.workspace_bytes);
}

// Returns the key of a comparison's note in the store: a text of all inputs of a comparison of
// tiles except the kernel and the platform.
std::string AboutTiles(const Configuration& configuration) {
  std::string about = "tiles " + NoteOf(configuration.grid) + ":";
  for (const Run& run : configuration.runs) about += NoteOf(run.micro);
  return about;
}
// The notes about comparisons: the result of each kind of tile, or the output of all tiles
// together, matched the expected values.
constexpr const char* kKinds = "each kind equals";
constexpr const char* kWhole = "the whole equals";
// The notes about timings on the whole tensors (RaceTiles). After kNotFaster the two times follow.
constexpr const char* kFaster = "faster";
constexpr const char* kNotFaster = "not faster in place: ";

// Fails if no engine was measured for some kind; the error names the first such kind.
Status CheckAll(const Tiles& tiles, const std::vector<std::vector<MicroConfiguration>>& rows,
                const MeasureLimits& limits) {
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    if (!rows[kind].empty()) continue;
    return Status::Error("no engine was measured within " + std::to_string(*limits.fit_bytes) +
                         " bytes for " + Describe(tiles.kinds[kind].problem));
  }
  return Status::Ok();
}

// Returns the tiling that has for each kind the candidates that `task` accepts.
Tiling TilingOf(const Tiles& tiles, const std::vector<std::vector<MicroConfiguration>>& rows,
                const TilingTask& task) {
  Tiling tiling{tiles.grid, {}};
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    tiling.kinds.push_back(
        {tiles.CountOf(kind), task.candidates(tiles.kinds[kind].problem, rows[kind])});
  }
  return tiling;
}

GridLimits LimitsOf(const Device& device, const Question& question) {
  return {question.request.limit_bytes, L2Bytes(device), question.policy};
}

// Returns whether every kind of the tiling has a candidate within `limit_bytes`.
bool Fits(const Tiling& tiling, size_t limit_bytes) {
  return std::all_of(tiling.kinds.begin(), tiling.kinds.end(), [&](const Tiling::Kind& kind) {
    return std::any_of(kind.candidates.begin(), kind.candidates.end(), [&](const auto& candidate) {
      return candidate.micro.workspace_bytes <= limit_bytes;
    });
  });
}

// Returns `configuration` without times, which differ from measurement to measurement.
Configuration Untimed(Configuration configuration) {
  for (Run& run : configuration.runs) run.micro.time_ms = run.micro.pack_ms = 0;
  return configuration;
}

}  // namespace

Tilings MeasuredKernels::KnownTilings(const Family& family, size_t limit_bytes) {
  MutexLock lock(mutex_);
  const TilesOfFamily& known = tilings_[family];
  Tilings tilings;
  std::copy_if(known.measured.begin(), known.measured.end(), std::back_inserter(tilings.measured),
               [&](const Tiling& tiling) { return Fits(tiling, limit_bytes); });
  const auto tried = known.tried.find(limit_bytes);
  tilings.settled = tried != known.tried.end() || !tilings.measured.empty();
  if (tried != known.tried.end()) std::tie(tilings.least_bytes, tilings.why) = tried->second;
  return tilings;
}

Tilings MeasuredKernels::GetTilings(const Device& device, const Question& question,
                                    const TilingTask& task) {
  Family family = FamilyAsked(device, question);
  KnownRows& account = AccountOf(device, question, RowsOf(family));
  family.problem = question.problem;
  const size_t limit_bytes = question.request.limit_bytes;
  Tilings tilings = KnownTilings(family, limit_bytes);
  if (tilings.settled) return tilings;
  if (RecallTilings(device, question, task, family)) return KnownTilings(family, limit_bytes);
  if (!question.may_measure) return tilings;
  const int n = question.problem.n;
  const Waiting waiting(progress_);
  Clock::duration spent;
  {
    MutexLock lock(mutex_);
    spent = account.spent[n];
  }
  const auto turn = turns_.Take(Use::kMeasuring, device, spent, question.until);
  if (turn.ok() && turn->lock) {
    const Clock::time_point begin = Clock::now();
    MeasureLimits limits = turns_.LimitsNow(device, turn->deadline);
    limits.fit_bytes = limit_bytes;
    MeasureTilings(device, question, task, family, limits);
    const Clock::duration taken = Clock::now() - begin;
    turns_.Spend(Use::kMeasuring, taken);
    MutexLock lock(mutex_);
    account.spent[n] += taken;
  }
  tilings = KnownTilings(family, limit_bytes);
  tilings.late = !tilings.settled && !HasTimeFor(n, account);
  return tilings;
}

bool MeasuredKernels::RecallTilings(const Device& device, const Question& question,
                                    const TilingTask& task, const Family& family) {
  if (store_ == nullptr || task.candidates == nullptr) return false;
  {
    MutexLock lock(mutex_);
    const bool is_new = tilings_[family].asked_of_store.insert(question.request.limit_bytes).second;
    if (!is_new && !question.may_measure) return false;
  }
  const auto note = store_->FindNote(question.problem, device.platform,
                                     AboutGrids(task.engines, LimitsOf(device, question)));
  if (!note.ok() || !*note) return false;
  std::optional<Grids> grids = GridsOfNote(**note);
  if (!grids) return false;
  MeasureLimits limits;
  limits.fit_bytes = question.request.limit_bytes;
  std::vector<Tiling> known;
  for (const TileGrid& grid : grids->fitting) {
    const auto tiles = CutIntoTiles(question.problem, grid);
    if (!tiles.ok()) return false;
    const auto kinds = MeasureStoredKinds(device, question.problem, *tiles,
                                          {question.scope, task.engines, store_, false}, limits);
    if (!kinds.ok() || !CheckAll(*tiles, kinds->rows, limits).ok()) return false;
    known.push_back(TilingOf(*tiles, kinds->rows, task));
  }
  KeepTilings(family, std::move(known));
  MutexLock lock(mutex_);
  tilings_[family].tried[question.request.limit_bytes] = {grids->least_bytes,
                                                          std::move(grids->why)};
  return true;
}

void MeasuredKernels::MeasureTilings(const Device& device, const Question& question,
                                     const TilingTask& task, const Family& family,
                                     const MeasureLimits& limits) {
  const ConvolutionProblem& problem = question.problem;
  Log(LogLevel::kInfo, "measuring tiles of " + Describe(problem));
  progress_.Tell({Activity::kBuildingEngines, &problem});
  GridLimits sought = LimitsOf(device, question);
  sought.deadline = limits.deadline;
  Grids grids = FindGrids(device, question, task.engines, sought);
  std::vector<Tiling> measured;
  bool late = Clock::now() >= limits.deadline;
  for (const TileGrid& grid : grids.fitting) {
    const auto tiles = CutIntoTiles(problem, grid);
    if (!tiles.ok()) continue;
    const auto kinds =
        MeasureStoredKinds(device, problem, *tiles, {question.scope, task.engines, store_}, limits);
    late = Clock::now() >= limits.deadline;
    const Status missing = kinds.ok() ? CheckAll(*tiles, kinds->rows, limits) : kinds.status();
    if (kinds.ok()) {
      measured_ += kinds->measured;
      if (kinds->unstored) unstored_ = true;
    }
    if (!missing.ok()) {
      grids.why = missing.message();
      Log(LogLevel::kInfo, Describe(problem) + " is not tiled: " + grids.why);
      if (late) break;
      continue;
    }
    measured.push_back(TilingOf(*tiles, kinds->rows, task));
    if (late) break;
  }
  grids.fitting.clear();
  for (const Tiling& tiling : measured) grids.fitting.push_back(tiling.grid);
  KeepTilings(family, std::move(measured));
  if (late) return;
  KeepNote(problem, device, AboutGrids(task.engines, sought), NoteOf(grids));
  MutexLock lock(mutex_);
  tilings_[family].tried[question.request.limit_bytes] = {grids.least_bytes, std::move(grids.why)};
}

void MeasuredKernels::KeepTilings(const Family& family, std::vector<Tiling> tilings) {
  MutexLock lock(mutex_);
  std::vector<Tiling>& known = tilings_[family].measured;
  for (Tiling& tiling : tilings) {
    std::erase_if(known, [&](const Tiling& other) { return other.grid == tiling.grid; });
    known.push_back(std::move(tiling));
  }
}

void MeasuredKernels::KeepNote(const ConvolutionProblem& problem, const Device& device,
                               const std::string& about, const std::string& note) {
  if (store_ == nullptr) return;
  const Status kept = store_->KeepNote(problem, device.platform, about, note);
  if (!kept.ok()) WarnOnce("store write", "measurements cannot be stored: " + kept.message());
}

void MeasuredKernels::DropTiles(const ConvolutionProblem& problem,
                                const Configuration& configuration) {
  MutexLock lock(mutex_);
  for (auto& [family, known] : tilings_) {
    if (family.problem != problem) continue;
    for (Tiling& tiling : known.measured) {
      if (tiling.grid != configuration.grid) continue;
      for (size_t kind = 0; kind < tiling.kinds.size(); ++kind) {
        std::erase_if(tiling.kinds[kind].candidates, [&](const planning::Candidate& candidate) {
          return candidate.micro.engine == configuration.runs[kind].micro.engine;
        });
      }
    }
  }
}

Verification MeasuredKernels::CompareKinds(const Device& device, const ConvolutionProblem& problem,
                                           const Division& division, const MeasureLimits& limits,
                                           const EngineScope& scope) {
  for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
    const TrustedTile of = {ComparedTileOf(problem, division, kind), device.platform};
    const auto is_trusted = [&]() UCUDNN_REQUIRES(mutex_) {
      return std::find(trusted_tiles_.begin(), trusted_tiles_.end(), of) != trusted_tiles_.end();
    };
    {
      MutexLock lock(mutex_);
      if (is_trusted()) continue;
    }
    const Verification verification = VerifyTile(device, of.tile, limits, scope);
    if (verification.result != ComparisonResult::kEqual) return verification;
    MutexLock lock(mutex_);
    if (!is_trusted()) trusted_tiles_.push_back(of);
  }
  return {ComparisonResult::kEqual, ""};
}

Trust MeasuredKernels::VerifyTiles(const Device& device, const ConvolutionProblem& problem,
                                   const planning::Compare& question, const EngineScope& scope) {
  ComparedTiles compared{problem, device.platform, Untimed(question.configuration), true, {}};
  const auto find = [&]() UCUDNN_REQUIRES(mutex_) {
    return std::find_if(compared_tiles_.begin(), compared_tiles_.end(), [&](const auto& other) {
      return other.problem == problem && other.platform == device.platform &&
             other.configuration == compared.configuration;
    });
  };
  const auto keep = [&] {
    MutexLock lock(mutex_);
    const auto before = find();
    if (before == compared_tiles_.end()) {
      compared_tiles_.push_back(compared);
    } else if (compared.in_place) {
      *before = compared;
    }
  };
  {
    MutexLock lock(mutex_);
    const auto before = find();
    if (before != compared_tiles_.end() && (before->in_place || !question.need_whole))
      return before->trust;
  }
  const std::string about = AboutTiles(compared.configuration);
  std::optional<std::string> noted;
  if (store_ != nullptr) {
    if (auto note = store_->FindNote(problem, device.platform, about); note.ok()) noted = *note;
  }
  const bool equal = noted == kWhole || (noted == kKinds && !question.need_whole);
  if (equal && !IsHere(question.proof)) {
    compared.in_place = noted == kWhole;
    keep();
    return compared.trust;
  }
  if (!MayCompare(question.proof)) return {Trust::Kind::kUnknown, "not now"};
  const auto division = DivisionOf(problem, question.configuration);
  if (!division.ok()) return {Trust::Kind::kUnknown, division.message()};
  const Waiting waiting(progress_);
  const Result<MeasuringTurns::Turn> turn = TurnToCompare(device, problem, question.configuration);
  if (!turn.ok()) return {Trust::Kind::kUnknown, turn.message()};
  if (!turn->lock) return {Trust::Kind::kUnknown, turn->why};
  const auto compare = [&](const MeasureLimits& limits) {
    Verification kinds = CompareKinds(device, problem, *division, limits, scope);
    if (kinds.result != ComparisonResult::kEqual) return kinds;
    Verification whole = VerifyPlan(device, problem, *division, question.against, limits, scope);
    compared.in_place = !whole.lacks_memory;
    return whole.lacks_memory && !question.need_whole ? kinds : whole;
  };
  const Verification verification =
      CompareNow(device, problem, question.configuration, *turn, compare);
  if (verification.result == ComparisonResult::kNotCompared) {
    return {Trust::Kind::kUnknown, verification.message};
  }
  if (verification.result != ComparisonResult::kEqual) {
    compared.trust = {Trust::Kind::kWrong, verification.message};
    DropTiles(problem, question.configuration);
  } else if (compared.in_place || !noted) {
    KeepNote(problem, device, about, compared.in_place ? kWhole : kKinds);
  }
  keep();
  return compared.trust;
}

std::optional<Trust> MeasuredKernels::FindRace(const Device& device,
                                               const ConvolutionProblem& problem,
                                               const std::string& about) {
  {
    MutexLock lock(mutex_);
    for (const RacedTiles& raced : raced_tiles_) {
      const bool same = raced.problem == problem && raced.platform == device.platform;
      if (same && raced.about == about) return raced.trust;
    }
  }
  if (store_ == nullptr) return std::nullopt;
  const auto note = store_->FindNote(problem, device.platform, about);
  if (!note.ok() || !*note) return std::nullopt;
  if (**note == kFaster) return Trust();
  if (!(*note)->starts_with(kNotFaster)) return std::nullopt;
  return Trust{Trust::Kind::kSlower, "tiles are " + **note};
}

Trust MeasuredKernels::RaceTiles(const Device& device, const ConvolutionProblem& problem,
                                 const planning::Compare& question, const EngineScope& scope) {
  const Configuration& tiles = question.configuration;
  const Configuration whole{{{question.faster_than, 1}}};
  const std::string about = AboutTiles(tiles) + " or" + NoteOf(question.faster_than);
  if (const auto raced = FindRace(device, problem, about)) return *raced;
  if (!MayCompare(question.proof)) return {Trust::Kind::kUnknown, "not timed in place, not now"};
  const auto division = DivisionOf(problem, tiles);
  if (!division.ok()) return {Trust::Kind::kUnknown, division.message()};
  const Waiting waiting(progress_);
  const Result<MeasuringTurns::Turn> turn = TurnToCompare(device, problem, tiles);
  if (!turn.ok()) return {Trust::Kind::kUnknown, turn.message()};
  // The process that held the device before may have timed the same tiles.
  if (const auto raced = FindRace(device, problem, about)) return *raced;
  if (!turn->lock) return {Trust::Kind::kUnknown, turn->why};
  RaceResult race;
  CompareNow(device, problem, tiles, *turn, [&](const MeasureLimits& limits) {
    race = Race(device, problem,
                {{*division, tiles.WorkspaceBytes(), scope},
                 {whole, question.faster_than.workspace_bytes, scope}},
                limits);
    return Verification();
  });
  if (race.lacks_memory && !question.need_whole) return {};
  if (!race.status.ok()) return {Trust::Kind::kUnknown, race.status.message()};
  // Another process, on another device, may have stored its result first. Then that result is used,
  // so that all processes act alike.
  std::optional<Trust> found = FindRace(device, problem, about);
  if (!found) {
    const double tiles_ms = race.times_ms[0], whole_ms = race.times_ms[1];
    const bool gains = tiles_ms < (1 - planning::kHysteresis) * whole_ms;
    const std::string note =
        gains ? kFaster
              : kNotFaster + Milliseconds(tiles_ms) + ", undivided " + Milliseconds(whole_ms);
    KeepNote(problem, device, about, note);
    found = gains ? Trust() : Trust{Trust::Kind::kSlower, "tiles are " + note};
    Log(LogLevel::kInfo, Describe(problem) + " in tiles: " + note);
  }
  MutexLock lock(mutex_);
  raced_tiles_.push_back({problem, device.platform, about, *found});
  return *found;
}

}  // namespace ucudnn::tuning
