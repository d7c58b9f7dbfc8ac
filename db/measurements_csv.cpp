#include "db/measurements_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/csv.h"
#include "base/text.h"
#include "convolution/columns.h"

namespace ucudnn::db {
namespace {

constexpr const char* kMeasured[] = {"op",      "engine",          "micro_batch",
                                     "time_ms", "workspace_bytes", "deterministic"};
constexpr const char* kWhere[] = {"cudnn", "driver", "device", "samples", "verified"};

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
  columns.optional.insert(columns.optional.end(), std::begin(kWhere), std::end(kWhere));
  return columns;
}

std::vector<std::string> Header() {
  std::vector<std::string> header = {"name", "n"};
  header.insert(header.end(), LayerColumns().begin(), LayerColumns().end());
  header.insert(header.end(), std::begin(kMeasured), std::end(kMeasured));
  header.insert(header.end(), NumericColumns().begin(), NumericColumns().end());
  header.insert(header.end(), std::begin(kWhere), std::end(kWhere));
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
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value) ||
      value < 0) {
    return Status::Error("column 'time_ms': " + Quoted(*text) + "; expected " + kExpected);
  }
  return value;
}

Result<StoredMeasurement> ReadRow(const FieldLookup& field, const std::string& default_device) {
  StoredMeasurement row;
  if (field("op") == nullptr) return Empty("op", "forward, backward_data or backward_filter");
  UCUDNN_ASSIGN_OR_RETURN(row.problem, FromColumns(field));
  if (const std::string* name = field("name")) row.name = *name;
  MicroConfiguration& micro = row.measurement.micro;
  if (field("engine") == nullptr) return Empty("engine", "what selects it, such as legacy:1");
  micro.engine = *field("engine");
  UCUDNN_ASSIGN_OR_RETURN(const int64_t images,
                          ReadWholeNumber(field, "micro_batch", std::nullopt, 1));
  micro.micro_batch = static_cast<int>(images);
  UCUDNN_ASSIGN_OR_RETURN(micro.time_ms, ReadTime(field));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t bytes,
                          ReadWholeNumber(field, "workspace_bytes", std::nullopt, 0,
                                          std::numeric_limits<int64_t>::max()));
  micro.workspace_bytes = static_cast<size_t>(bytes);
  UCUDNN_ASSIGN_OR_RETURN(const int64_t deterministic,
                          ReadWholeNumber(field, "deterministic", std::nullopt, 0, 1));
  micro.deterministic = deterministic == 1;

  const auto number = [&](const char* column) { return ReadWholeNumber(field, column, 0, 0); };
  UCUDNN_ASSIGN_OR_RETURN(const int64_t cudnn, number("cudnn"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t driver, number("driver"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t samples, number("samples"));
  UCUDNN_ASSIGN_OR_RETURN(const int64_t verified, ReadWholeNumber(field, "verified", 0, 0, 1));
  row.platform.cudnn = static_cast<int>(cudnn);
  row.platform.driver = static_cast<int>(driver);
  row.measurement.samples = static_cast<int>(samples);
  row.measurement.verified = verified == 1;
  row.platform.device = field("device") != nullptr ? *field("device") : default_device;
  if (row.platform.device.empty()) {
    return Empty("device", "a device, or one given with --device NAME");
  }
  return row;
}

// The shortest text that reads back as the same number.
std::string Exact(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace

Result<std::vector<StoredMeasurement>> ParseMeasurementsCsv(std::string_view text,
                                                            const std::string& file,
                                                            const std::string& default_device) {
  UCUDNN_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, file, FileColumns()));
  std::vector<StoredMeasurement> rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    Result<StoredMeasurement> row =
        ReadRow([&](const std::string& column) { return table.Field(i, column); }, default_device);
    if (!row.ok()) return table.Error(i, row.message());
    rows.push_back(std::move(*row));
  }
  return rows;
}

Result<std::vector<StoredMeasurement>> ReadMeasurementsCsv(const std::string& path,
                                                           const std::string& default_device) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseMeasurementsCsv(text, path, default_device);
}

std::string WriteMeasurementsCsv(const std::vector<StoredMeasurement>& rows) {
  const std::vector<std::string> header = Header();
  std::string text = CsvLine(header);
  const auto known = [](int number) { return number == 0 ? "" : std::to_string(number); };
  for (const StoredMeasurement& row : rows) {
    const MicroConfiguration& micro = row.measurement.micro;
    std::map<std::string, std::string> values = {
        {"name", row.name},
        {"op", OperationName(row.problem.operation)},
        {"engine", micro.engine},
        {"micro_batch", std::to_string(micro.micro_batch)},
        {"time_ms", Exact(micro.time_ms)},
        {"workspace_bytes", std::to_string(micro.workspace_bytes)},
        {"deterministic", micro.deterministic ? "1" : "0"},
        {"cudnn", known(row.platform.cudnn)},
        {"driver", known(row.platform.driver)},
        {"device", row.platform.device},
        {"samples", std::to_string(row.measurement.samples)},
        {"verified", row.measurement.verified ? "1" : "0"}};
    for (auto& [column, value] : ToColumns(row.problem)) values[column] = std::move(value);
    std::vector<std::string> fields;
    for (const std::string& column : header) fields.push_back(values[column]);
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace ucudnn::db
