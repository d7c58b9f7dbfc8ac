// Options of a program whose plans depend only on the test's store.
#pragma once

#include "options/options.h"

namespace ucudnn::test {

inline Options Planned() {
  Options options;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  options.tuning.on = false;
  options.lock_folder = "/dev/null";  // no lock file can be made there, so tests never wait for
                                      // each other's measuring
  return options;
}

inline Options Within(size_t limit_bytes, EngineSet engines = EngineSet::kBoth) {
  Options options = Planned();
  options.engines = engines;
  options.workspace_limit = limit_bytes;
  return options;
}

}  // namespace ucudnn::test
