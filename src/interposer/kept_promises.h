// Workspaces that engines of the graph API were promised: by this process, and by earlier ones as
// far as a store tells. A promise is given once; whoever comes later gets the same. Thread-safe;
// asked while plans are made, never while they run.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "planning/measurement_store.h"

namespace ucudnn::interposer {

class KeptPromises {
 public:
  // `store` may be null: then promises live as long as the process, as they do where it fails.
  explicit KeptPromises(planning::MeasurementStore* store) : store_(store) {}

  // The promise that `asked` names by its key; none when none was given, or none can be read.
  std::optional<planning::EnginePromise> Find(const planning::EnginePromise& asked);

  // Gives `promise`, unless one was given before: then that one is the answer.
  planning::EnginePromise Keep(const planning::EnginePromise& promise);

  // Gives `promise` in this process, where what the store holds cannot be kept.
  void Replace(const planning::EnginePromise& promise);

 private:
  // Under the mutex; null when this process knows none.
  planning::EnginePromise* Known(const planning::EnginePromise& asked);

  planning::MeasurementStore* const store_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<planning::EnginePromise>> known_;  // by problem
};

}  // namespace ucudnn::interposer
