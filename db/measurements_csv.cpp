#include "db/measurements_csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/csv.h"
#include "base/text.h"
#include "base/text_file.h"
#include "convolution/columns.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {
namespace {

constexpr const char* kMeasured[] = {"op",      "engine",          "micro_batch",
                                     "time_ms", "workspace_bytes", "deterministic"};
constexpr const char* kWhere[] = {"cudnn", "driver", "device", "samples", "verified"};
// A row with a value in `limit_bytes`, the first of these columns, is a promise.
constexpr const char* kPromised[] = {"limit_bytes", "undivided", "any_engine"};
// Columns that only measurements have.
constexpr const char* kMeasuredAlone[] = {"micro_batch", "time_ms", "deterministic", "samples",
                                          "verified"};

CsvColumns FileColumns() {
  CsvColumns columns;
  columns.required = RequiredLayerColumns();
  columns.required.insert(columns.required.end(), std::begin(kMeasured), std::end(kMeasured));
  columns.optional = {"name", "n"};
  for (const std::string& column : LayerColumns()) {
    if (std::find(columns.required.begin(), columns.required.end(), column) ==
        columns.required.end()) {
      columns.optional.push_back(column);
    }
  }
  columns.optional.insert(columns.optional.end(), NumericColumns().begin(), NumericColumns().end());
  columns.optional.insert(columns.optional.end(), PostPadColumns().begin(), PostPadColumns().end());
  columns.optional.insert(columns.optional.end(), std::begin(kWhere), std::end(kWhere));
  columns.optional.insert(columns.optional.end(), std::begin(kPromised), std::end(kPromised));
  return columns;
}

// Returns the header. Columns for uneven pads and for promises are present only if some row needs
// them.
std::vector<std::string> Header(bool uneven_pads, bool promises) {
  std::vector<std::string> header = {"name", "n"};
  header.insert(header.end(), LayerColumns().begin(), LayerColumns().end());
  header.insert(header.end(), std::begin(kMeasured), std::end(kMeasured));
  header.insert(header.end(), NumericColumns().begin(), NumericColumns().end());
  if (uneven_pads) {
    header.insert(header.end(), PostPadColumns().begin(), PostPadColumns().end());
  }
  header.insert(header.end(), std::begin(kWhere), std::end(kWhere));
  if (promises) header.insert(header.end(), std::begin(kPromised), std::end(kPromised));
  return header;
}

Status Empty(const std::string& column, const std::string& expected) {
  return Status::Error("column '" + column + "': empty; expected " + expected);
}

Result<double> ReadTime(const FieldLookup& field) {
  constexpr const char* kExpected = "a time in milliseconds, 0 or more";
  const std::string* text = field("time_ms");
  if (text == nullptr) return Empty("time_ms", kExpected);
  double value = 0;
  if (!ReadNumber(*text, value) || !std::isfinite(value) || value < 0) {
    return Status::Error("column 'time_ms': " + Quoted(*text) + "; expected " + kExpected);
  }
  return value;
}

Result<ConvolutionProblem> ReadProblem(const FieldLookup& field) {
  if (field("op") == nullptr) return Empty("op", "forward, backward_data or backward_filter");
  return FromColumns(field);
}

Result<std::string> ReadEngine(const FieldLookup& field, const std::string& column) {
  if (field(column) == nullptr) return Empty(column, "what selects it, such as legacy:1");
  return *field(column);
}

Result<size_t> ReadBytes(const FieldLookup& field, const std::string& column) {
  UCUDNN_ASSIGN_OR_RETURN(
      const int64_t bytes,
      ReadWholeNumber(field, column, std::nullopt, 0, std::numeric_limits<int64_t>::max()));
  return static_cast<size_t>(bytes);
}

Result<planning::Platform> ReadPlatform(const FieldLookup& field,
                                        const std::string& default_device) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t cudnn, ReadWholeNumber(field, "cudnn", 0, 0));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t driver, ReadWholeNumber(field, "driver", 0, 0));
  const std::string device = field("device") != nullptr ? *field("device") : default_device;
  if (device.empty()) return Empty("device", "a device, or one given with --device NAME");
  return planning::Platform{device, static_cast<int>(cudnn), static_cast<int>(driver)};
}

Result<StoredMeasurement> ReadMeasurement(const FieldLookup& field,
                                          const std::string& default_device) {
  for (const char* column : kPromised) {
    if (field(column) == nullptr) continue;
    return Status::Error(std::string("column '") + column + "': " + Quoted(*field(column)) +
                         "; expected none without a 'limit_bytes', which makes a promise");
  }
  StoredMeasurement row;
  UCUDNN_ASSIGN_OR_RETURN(row.problem, ReadProblem(field));
  if (const std::string* name = field("name")) row.name = *name;
  MicroConfiguration& micro = row.measurement.micro;
  UCUDNN_ASSIGN_OR_RETURN(micro.engine, ReadEngine(field, "engine"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t images,
                          ReadWholeNumber(field, "micro_batch", std::nullopt, 1));
  micro.micro_batch = static_cast<int>(images);
  UCUDNN_ASSIGN_OR_RETURN(micro.time_ms, ReadTime(field));
  UCUDNN_ASSIGN_OR_RETURN(micro.workspace_bytes, ReadBytes(field, "workspace_bytes"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t deterministic,
                          ReadWholeNumber(field, "deterministic", std::nullopt, 0, 1));
  micro.deterministic = deterministic == 1;
  UCUDNN_ASSIGN_OR_RETURN(const int64_t samples, ReadWholeNumber(field, "samples", 0, 0));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t verified, ReadWholeNumber(field, "verified", 0, 0, 1));
  row.measurement.samples = static_cast<int>(samples);
  row.measurement.verified = verified == 1;
  UCUDNN_ASSIGN_OR_RETURN(row.platform, ReadPlatform(field, default_device));
  return row;
}

Result<planning::EnginePromise> ReadPromiseRow(const FieldLookup& field,
                                               const std::string& default_device) {
  for (const char* column : kMeasuredAlone) {
    if (field(column) == nullptr) continue;
    return Status::Error(std::string("column '") + column + "': " + Quoted(*field(column)) +
                         "; expected none of a promise, as which 'limit_bytes' makes the row");
  }
  planning::EnginePromise promise;
  UCUDNN_ASSIGN_OR_RETURN(promise.problem, ReadProblem(field));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t images, ReadWholeNumber(field, "n", std::nullopt, 1));
  promise.problem.n = static_cast<int>(images);
  UCUDNN_ASSIGN_OR_RETURN(promise.engine, ReadEngine(field, "engine"));
  UCUDNN_ASSIGN_OR_RETURN(promise.workspace_bytes, ReadBytes(field, "workspace_bytes"));
  UCUDNN_ASSIGN_OR_RETURN(promise.limit_bytes, ReadBytes(field, "limit_bytes"));
  if (const std::string* undivided = field("undivided")) promise.undivided = *undivided;
  UCUDNN_ASSIGN_OR_RETURN(const int64_t any, ReadWholeNumber(field, "any_engine", 0, 0, 1));
  promise.any_engine = any == 1;
  UCUDNN_ASSIGN_OR_RETURN(promise.platform, ReadPlatform(field, default_device));
  UCUDNN_RETURN_IF_ERROR(CheckPromise(promise));
  return promise;
}

// Formats a number as the shortest text that reads back as the same number.
std::string Exact(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace

Result<StoredRows> ParseMeasurementsCsv(std::string_view text, const std::string& file,
                                        const std::string& default_device) {
  UCUDNN_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, file, FileColumns()));
  StoredRows rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    const FieldLookup field = [&](const std::string& column) { return table.Field(i, column); };
    if (field(kPromised[0]) != nullptr) {
      Result<planning::EnginePromise> promise = ReadPromiseRow(field, default_device);
      if (!promise.ok()) return table.Error(i, promise.message());
      rows.promises.push_back(std::move(*promise));
    } else {
      Result<StoredMeasurement> row = ReadMeasurement(field, default_device);
      if (!row.ok()) return table.Error(i, row.message());
      rows.measurements.push_back(std::move(*row));
    }
  }
  return rows;
}

Result<StoredRows> ReadMeasurementsCsv(const std::string& path, const std::string& default_device) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseMeasurementsCsv(text, path, default_device);
}

std::string WriteMeasurementsCsv(const StoredRows& rows) {
  const auto is_uneven = [](const auto& row) { return !row.problem.HasEvenPads(); };
  const bool uneven_pads =
      std::any_of(rows.measurements.begin(), rows.measurements.end(), is_uneven) ||
      std::any_of(rows.promises.begin(), rows.promises.end(), is_uneven);
  const std::vector<std::string> header = Header(uneven_pads, !rows.promises.empty());
  std::string text = CsvLine(header);
  // Adds a line for a problem on a platform, with further `values` by column.
  const auto add = [&](const ConvolutionProblem& problem, const planning::Platform& platform,
                       std::map<std::string, std::string> values) {
    const auto known = [](int number) { return number == 0 ? "" : std::to_string(number); };
    values["op"] = OperationName(problem.operation);
    values["cudnn"] = known(platform.cudnn);
    values["driver"] = known(platform.driver);
    values["device"] = platform.device;
    for (auto& [column, value] : ToColumns(problem)) values[column] = std::move(value);
    std::vector<std::string> fields;
    for (const std::string& column : header) fields.push_back(values[column]);
    text += CsvLine(fields);
  };
  for (const StoredMeasurement& row : rows.measurements) {
    const MicroConfiguration& micro = row.measurement.micro;
    add(row.problem, row.platform,
        {{"name", row.name},
         {"engine", micro.engine.Text()},
         {"micro_batch", std::to_string(micro.micro_batch)},
         {"time_ms", Exact(micro.time_ms)},
         {"workspace_bytes", std::to_string(micro.workspace_bytes)},
         {"deterministic", micro.deterministic ? "1" : "0"},
         {"samples", std::to_string(row.measurement.samples)},
         {"verified", row.measurement.verified ? "1" : "0"}});
  }
  for (const planning::EnginePromise& promise : rows.promises) {
    add(promise.problem, promise.platform,
        {{"engine", promise.engine.Text()},
         {"workspace_bytes", std::to_string(promise.workspace_bytes)},
         {"limit_bytes", std::to_string(promise.limit_bytes)},
         {"undivided", promise.undivided.Text()},
         {"any_engine", promise.any_engine ? "1" : "0"}});
  }
  return text;
}

}  // namespace ucudnn::db
