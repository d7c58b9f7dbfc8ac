// Promises in one store file of any schema version that this ucudnn knows; files before version 3
// hold none. The caller holds the store's lock. FORMAT.md describes the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "db/connection.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

// Returns the promise with the key of `asked`; none if there is none, or if it makes no sense.
Result<std::optional<planning::EnginePromise>> ReadPromise(Connection& connection, int64_t version,
                                                           const planning::EnginePromise& asked);

// Adds `promise`, of the kernel with this id; returns false if one is kept under its key already.
// The file must have the current schema version.
Result<bool> InsertPromise(Connection& connection, int64_t kernel,
                           const planning::EnginePromise& promise);

// Visits all promises of a file in the order of their keys: each promise, or the reason why it
// makes no sense.
Status VisitPromises(Connection& connection, int64_t version,
                     const std::function<void(const Result<planning::EnginePromise>&)>& visit);

// Returns the promises that make sense; the others cause a warning.
Result<std::vector<planning::EnginePromise>> ListPromises(Connection& connection, int64_t version);

}  // namespace ucudnn::db
