#include "command/offline_rows.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "command/file_check.h"
#include "cudnn/legacy_engines.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"

namespace ucudnn::command {
namespace {

using Rows = std::vector<db::StoredMeasurement>;

Result<Rows> ReadStores(const Options& options, Rows& differing) {
  std::vector<std::string> paths = db::ChooseStores(options.stores).paths;
  if (paths.empty()) return Status::Error("there is no store; name one with --db PATH");
  const std::string first = paths.front();
  std::erase_if(paths, [](const std::string& path) { return !std::filesystem::exists(path); });
  // If there are several files, a file that is no store causes only a warning.
  if (paths.size() < 2) UCUDNN_RETURN_IF_ERROR(CheckIsStore(paths.empty() ? first : paths[0]));
  return db::SqliteStore(paths).List(&differing);
}

Result<std::string> ChooseDevice(const Rows& rows, const std::string& asked,
                                 const std::string& asked_by) {
  std::set<std::string> devices;
  for (const db::StoredMeasurement& row : rows) devices.insert(row.platform.device);
  if (devices.empty()) return Status::Error("the store holds no measurements");
  if (asked.empty() && devices.size() == 1) return *devices.begin();
  if (devices.contains(asked)) return asked;
  std::string names;
  for (const std::string& device : devices) names += (names.empty() ? "'" : ", '") + device + "'";
  return Status::Error((asked.empty() ? "whose measurements? --device NAME"
                                      : asked_by + " '" + asked + "': no measurements") +
                       " (there are those of " + names + ")");
}

Status OnlyRead() { return Status::Error("these measurements are only read"); }

}  // namespace

Result<OfflineRows> ReadOfflineRows(const Options& options, const std::string& device,
                                    const std::string& device_from) {
  Rows differing;
  UCUDNN_ASSIGN_OR_RETURN(const Rows rows, ReadStores(options, differing));
  OfflineRows read;
  UCUDNN_ASSIGN_OR_RETURN(read.device, ChooseDevice(rows, device, device_from));
  for (const db::StoredMeasurement& row : differing) {
    if (row.platform.device == read.device) ++read.differing;
  }
  for (const db::StoredMeasurement& row : rows) {
    if (row.platform.device != read.device) continue;
    read.platforms[{row.platform.cudnn, row.platform.driver}][KernelFamily(row.problem)].push_back(
        row.measurement.micro);
  }
  return read;
}

bool ServesApi(const ConvolutionProblem& problem, Api api, MicroConfiguration& row) {
  if (row.engine.of_graph_api() != (api == Api::kGraph)) return false;
  const EngineId::Legacy* const engine = row.engine.legacy();
  if (engine == nullptr) return true;
  if (engine->math && *engine->math != problem.math) return false;
  row.engine = EngineId::Legacy{engine->algorithm, std::nullopt};
  return true;
}

Result<planning::KernelMeasurements> ApiRows::Read(const ConvolutionProblem& problem,
                                                   const planning::Platform&) {
  planning::KernelMeasurements found;
  for (const auto& [versions, measurements] : rows_.platforms) {
    const auto rows = measurements.find(KernelFamily(problem));
    if (rows == measurements.end()) continue;
    for (MicroConfiguration row : rows->second) {
      if (ServesApi(problem, api_, row)) found.rows.push_back({std::move(row), 0, false});
    }
    if (!found.rows.empty()) break;
  }
  return found;
}

Status ApiRows::Write(const ConvolutionProblem&, const planning::Platform&,
                      const std::vector<planning::Measurement>&, const std::vector<int>&) {
  return OnlyRead();
}

Status ApiRows::MarkVerified(const ConvolutionProblem&, const planning::Platform&,
                             const std::vector<MicroConfiguration>&) {
  return OnlyRead();
}

Result<std::optional<planning::EnginePromise>> ApiRows::FindPromise(
    const planning::EnginePromise&) {
  return std::optional<planning::EnginePromise>();
}

Result<planning::EnginePromise> ApiRows::KeepPromise(const planning::EnginePromise&) {
  return OnlyRead();
}

}  // namespace ucudnn::command
