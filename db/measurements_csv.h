// The CSV form of measurements and promises. Its columns are the layer columns, the measured or
// promised values, and the platform; FORMAT.md describes them. Only ReadMeasurementsCsv reads a
// file. Parsing a text that WriteMeasurementsCsv wrote gives the same rows, with times that are
// equal to the last bit. Only `complete` may differ: it is set in every parsed row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

// A row without a device gets `default_device`; if that is empty too, parsing fails. Errors name
// `file`, the line, the column and the expected value.
Result<StoredRows> ParseMeasurementsCsv(std::string_view text, const std::string& file,
                                        const std::string& default_device);

Result<StoredRows> ReadMeasurementsCsv(const std::string& path, const std::string& default_device);

// Returns the text of a file with header. It has the columns of promises only if there are
// promises.
std::string WriteMeasurementsCsv(const StoredRows& rows);

}  // namespace ucudnn::db
