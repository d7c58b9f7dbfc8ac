// Reads promises (planning::EnginePromise) in one store file of any schema version that this ucudnn
// knows, and writes them to a file of the current version. Files before version 3 hold no promises.
// The caller holds StoreMutex(). FORMAT.md describes the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "db/connection.h"
#include "planning/measurement_store.h"

namespace ucudnn::db {

// Returns the promise with the key of `asked`; none if there is no such row or if its values are
// impossible.
Result<std::optional<planning::EnginePromise>> ReadPromise(Connection& connection, int64_t version,
                                                           const planning::EnginePromise& asked);

// Adds `promise` for the family with id `kernel`. Returns false if the file has a promise with the
// same key. The file must have the current schema version.
Result<bool> InsertPromise(Connection& connection, int64_t kernel,
                           const planning::EnginePromise& promise);

// Calls `visit` for each promise of a file, in the order of their keys. A row with impossible
// values gives an error instead of a promise.
Status VisitPromises(Connection& connection, int64_t version,
                     const std::function<void(const Result<planning::EnginePromise>&)>& visit);

// Returns all promises; a row with impossible values is skipped with a warning.
Result<std::vector<planning::EnginePromise>> ListPromises(Connection& connection, int64_t version);

}  // namespace ucudnn::db
