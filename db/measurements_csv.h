// The CSV form of measurements and promises: layer columns, then the measured or promised values
// and the platform; see FORMAT.md. Pure functions but ReadMeasurementsCsv. Writing and reading back
// gives the same rows, times to the bit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "db/stored_measurement.h"

namespace ucudnn::db {

// Rows without a device are those of `default_device`; if that is empty too, they are refused.
// `file` is the name that errors show, with line, column and what was expected.
Result<StoredRows> ParseMeasurementsCsv(std::string_view text, const std::string& file,
                                        const std::string& default_device);

Result<StoredRows> ReadMeasurementsCsv(const std::string& path, const std::string& default_device);

// Writes a whole file with all columns; the columns of promises only if there are any.
std::string WriteMeasurementsCsv(const StoredRows& rows);

}  // namespace ucudnn::db
