#include "measured_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "auto_replay.h"
#include "db/measurements_csv.h"

namespace ucudnn::planning {
namespace {

constexpr const char* kDevice = "Host stand-in (CPU times)";

using Times = std::map<std::pair<EngineId, int>, double>;  // by engine and size

Times TimesOf(const KernelTable& table) {
  Times times;
  for (const Candidate& row : table.rows) {
    times.emplace(std::pair(row.micro.engine, row.micro.micro_batch), row.micro.time_ms);
  }
  return times;
}

// Returns the table of the same kernel on the same device, or null.
const KernelTable* Find(const std::vector<KernelTable>& tables, const KernelTable& kernel) {
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const KernelTable& table) {
    return table.device == kernel.device && table.problem == kernel.problem;
  });
  return found != tables.end() ? &*found : nullptr;
}

std::optional<double> TimeIn(const Times& times, const Configuration& division) {
  double sum = 0;
  for (const Run& run : division.runs) {
    const auto found = times.find({run.micro.engine, run.micro.micro_batch});
    if (found == times.end()) return std::nullopt;
    sum += run.count * found->second;
  }
  return sum;
}

}  // namespace

Result<std::vector<KernelTable>> ReadKernelTables(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const db::StoredRows rows, db::ReadMeasurementsCsv(path, kDevice));
  std::vector<KernelTable> tables;
  for (const db::StoredMeasurement& row : rows.measurements) {
    KernelTable kernel{row.platform.device, KernelFamily(row.problem), {}};
    const KernelTable* const known = Find(tables, kernel);
    KernelTable& table =
        known == nullptr ? tables.emplace_back(std::move(kernel)) : tables[known - tables.data()];
    table.rows.push_back({row.measurement.micro, NumericClass::kDirect});
  }
  for (KernelTable& table : tables) {
    for (const Candidate& row : table.rows) {
      table.problem.n = std::max(table.problem.n, row.micro.micro_batch);
    }
  }
  return tables;
}

Comparison Compare(const std::vector<KernelTable>& tables, const std::vector<KernelTable>& judges,
                   size_t limit_bytes, size_t l2_bytes) {
  Comparison sum;
  for (const KernelTable& table : tables) {
    const KernelTable* const judge = Find(judges, table);
    if (judge == nullptr) continue;
    AutoRequest request;
    request.promise.n = table.problem.n;
    request.promise.step = LegalStep(table.problem);
    request.promise.limit_bytes = limit_bytes;
    request.l2_bytes = l2_bytes;
    const Replay all = ReplayPolicy(BatchSizePolicy::kAll, table.rows, request.promise);
    const Replay powers = ReplayPolicy(BatchSizePolicy::kPowerOfTwo, table.rows, request.promise);
    const Replay searched = ReplayAuto(table.rows, request);
    if (!all.division || !powers.division || !searched.division) continue;
    const Times times = TimesOf(*judge);
    const std::optional<double> all_ms = TimeIn(times, *all.division);
    const std::optional<double> powers_ms = TimeIn(times, *powers.division);
    const std::optional<double> auto_ms = TimeIn(times, *searched.division);
    if (!all_ms || !powers_ms || !auto_ms) continue;
    ++sum.kernels;
    sum.all_ms += *all_ms;
    sum.powers_ms += *powers_ms;
    sum.auto_ms += *auto_ms;
    sum.all_rows += all.rows;
    sum.powers_rows += powers.rows;
    sum.auto_rows += searched.rows;
    if (*auto_ms / *all_ms <= sum.worst) continue;
    sum.worst = *auto_ms / *all_ms;
    sum.worst_kernel = Describe(table.problem);
  }
  return sum;
}

double Noise(const std::vector<KernelTable>& a, const std::vector<KernelTable>& b) {
  std::vector<double> shares;
  for (const KernelTable& table : a) {
    const KernelTable* const other = Find(b, table);
    if (other == nullptr) continue;
    const Times times = TimesOf(*other);
    for (const auto& [what, time_ms] : TimesOf(table)) {
      const auto found = times.find(what);
      if (found == times.end()) continue;
      shares.push_back(std::abs(time_ms - found->second) / std::max(time_ms, found->second));
    }
  }
  if (shares.empty()) return 0;
  std::nth_element(shares.begin(), shares.begin() + shares.size() / 2, shares.end());
  return shares[shares.size() / 2];
}

}  // namespace ucudnn::planning
