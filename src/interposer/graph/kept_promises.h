// Promises of workspace that differ from the need of a plan of the graph API. They were given by
// this process or, according to a store, by an earlier process. A promise is given once, and later
// equal plans get the same promise. Thread-safe. Used when a plan is decided about, not each time
// it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "planning/measurement_store.h"

namespace ucudnn::interposer {

class KeptPromises {
 public:
  // If `store` is null or fails, promises are forgotten when the process ends.
  explicit KeptPromises(planning::MeasurementStore* store) : store_(store) {}

  // Returns the promise under the key of `asked` (see EnginePromise). Returns none if there is no
  // such promise or it cannot be read.
  std::optional<planning::EnginePromise> Find(const planning::EnginePromise& asked);

  // Stores `promise` and returns it. If there is an earlier promise under the same key, returns the
  // earlier promise instead.
  planning::EnginePromise Keep(const planning::EnginePromise& promise);

  // Gives `promise`, in this process only, in place of a stored promise that cannot be kept. The
  // store stays as it is.
  void Replace(const planning::EnginePromise& promise);

 private:
  // Returns this process's promise under the key of `asked`; null if there is none.
  planning::EnginePromise* FindEqual(const planning::EnginePromise& asked) UCUDNN_REQUIRES(mutex_);

  planning::MeasurementStore* const store_;
  Mutex mutex_;
  std::unordered_map<uint64_t, std::vector<planning::EnginePromise>> known_
      UCUDNN_GUARDED_BY(mutex_);  // by the problem's hash
};

}  // namespace ucudnn::interposer
