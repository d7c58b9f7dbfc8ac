#include "tuning/stored_tiles.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "convolution/partial_sums.h"
#include "planning/tile_divisions.h"

namespace ucudnn::tuning {
namespace {

using planning::Measurement;
using KindRows = std::vector<Measurement>;

bool IsOf(const TileEngines& engines, const EngineId& engine) {
  if (engine.is_auxiliary()) return true;
  if (engine.legacy() != nullptr) return !std::holds_alternative<GraphScope>(engines.scope);
  return std::find(engines.names.begin(), engines.names.end(), engine) != engines.names.end();
}

// Returns the stored rows of `engines` for each of `twins`, in the order of `twins`. The rows of a
// twin are empty if there is no store or it cannot be read.
std::vector<KindRows> ReadRows(const TileEngines& engines,
                               const std::vector<ConvolutionProblem>& twins,
                               const planning::Platform& platform) {
  std::vector<KindRows> rows(twins.size());
  if (engines.store == nullptr) return rows;
  auto known = engines.store->ReadAll(twins, platform);
  if (!known.ok()) return rows;
  for (size_t i = 0; i < twins.size(); ++i) {
    rows[i] = std::move((*known)[i].rows);
    std::erase_if(rows[i], [&](const Measurement& row) {
      const int size = row.micro.engine.is_partial_sum() ? kPartialSumBatch : twins[i].n;
      return row.micro.micro_batch != size || !IsOf(engines, row.micro.engine);
    });
  }
  return rows;
}

bool Has(const KindRows& rows, const EngineId& engine) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Measurement& row) { return row.micro.engine == engine; });
}

}  // namespace

Result<RowsOfKinds> MeasureStoredKinds(const Device& device, const ConvolutionProblem& problem,
                                       const Tiles& tiles, const TileEngines& engines,
                                       const MeasureLimits& limits) {
  planning::MeasurementStore* const store = engines.store;

  const bool sums = SumsPartials(problem) && tiles.AddUp();
  const size_t beside = sums ? PartialSumBytes(problem) : 0;
  const size_t limit_bytes = limits.fit_bytes.value_or(std::numeric_limits<size_t>::max());
  if (beside > limit_bytes) {
    return Status::Error("partial sums take " + std::to_string(beside) + " bytes, more than " +
                         std::to_string(limit_bytes));
  }
  std::vector<ConvolutionProblem> twins;
  for (const TileKind& of : tiles.kinds) twins.push_back(SlackTwin(of));
  std::vector<KindRows> stored = ReadRows(engines, twins, device.platform);
  RowsOfKinds all;
  for (size_t kind = 0; kind < tiles.kinds.size(); ++kind) {
    const TileKind& of = tiles.kinds[kind];
    const size_t packed = PackedBytes(of);
    if (packed > limit_bytes - beside) {
      return Status::Error("packed copies take " + std::to_string(packed) + " bytes, more than " +
                           std::to_string(limit_bytes - beside));
    }
    const size_t engine_limit = limit_bytes - beside - packed;
    MeasureLimits own = limits;
    if (limits.fit_bytes) own.fit_bytes = engine_limit;
    const ConvolutionProblem& twin = twins[kind];
    // An earlier kind may have the same slack twin. The rows of that twin were then written after
    // `stored` was read.
    KindRows known = all.measured == 0 ? std::move(stored[kind])
                                       : ReadRows(engines, {twin}, device.platform).front();
    const auto knows_packing = [&] {
      return packed == 0 || std::any_of(known.begin(), known.end(), [&](const Measurement& row) {
               return row.micro.engine.is_packing() && row.micro.workspace_bytes == packed;
             });
    };
    const bool all_known = (!sums || Has(known, kPartialSum)) && knows_packing() &&
                           std::all_of(engines.names.begin(), engines.names.end(),
                                       [&](const EngineId& engine) { return Has(known, engine); });
    if (!all_known && engines.may_measure) {
      const IsKnown is_known = [&](const EngineId& engine, int) { return Has(known, engine); };
      UCUDNN_ASSIGN_OR_RETURN(const EngineMeasurements measured,
                              MeasureEngines(device,
                                             {.problem = twin,
                                              .sizes = {twin.n},
                                              .scope = engines.scope,
                                              .is_known = is_known,
                                              .are_partials = sums,
                                              .packed = knows_packing() ? nullptr : &of},
                                             own));
      const std::vector<Measurement>& fresh = measured.measurements;
      all.measured += static_cast<long>(fresh.size());
      const bool written = store != nullptr && store->Write(twin, device.platform, fresh, {}).ok();
      all.unstored |= store != nullptr && !written;
      // If another process wrote the same rows first, its rows replace the new ones, so that all
      // processes plan with the same numbers.
      KindRows kept = written ? ReadRows(engines, {twin}, device.platform).front() : KindRows();
      known.insert(known.end(), fresh.begin(), fresh.end());
      if (!kept.empty()) {
        known = std::move(kept);
        // The store may have the packing row of an equal tile that packs other tensors, so the new
        // packing row is added.
        std::copy_if(fresh.begin(), fresh.end(), std::back_inserter(known),
                     [&](const Measurement& row) { return row.micro.engine.is_packing(); });
      }
    }
    if (!knows_packing()) {
      return Status::Error("the copies of " + Describe(of.problem) + " could not be measured");
    }
    std::vector<MicroConfiguration> fitting;
    for (const Measurement& row : known) {
      const bool fits = row.micro.workspace_bytes <= engine_limit;
      if (fits || row.micro.engine.is_auxiliary()) fitting.push_back(row.micro);
    }
    all.rows.push_back(planning::RowsOfTiles(problem, tiles, kind, fitting));
  }
  return all;
}

}  // namespace ucudnn::tuning
