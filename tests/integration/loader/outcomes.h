// Paths and expectations for the tests of loading.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/loader/process.h"

namespace ucudnn::testing {

inline const std::string kRoot = LOADER_ROOT;
inline const std::string kOpener = kRoot + "/opener";
inline const std::string kFolder = kRoot + "/hooked/lib/ucudnn";
// This drop-in is in the folder of a libucudnn that is built from test_hooks.cpp. The hook of that
// libucudnn answers cudnnCreate.
inline const std::string kDropin = kFolder + "/libcudnn.so.9";
inline const std::string kHooked = "create=0 handle=0x5eed ";

// Returns `environment` with `libraries` preloaded.
inline Environment Preloaded(Environment environment, const std::string& libraries = kDropin) {
  environment["LD_PRELOAD"] = libraries;
  return environment;
}

inline void ExpectSuccess(const Outcome& outcome, const std::string& out) {
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, out);
  EXPECT_EQ(outcome.err, "");
}

// Expects that each program behaves the same with `library` preloaded as without.
inline void ExpectUndisturbed(const std::vector<std::vector<std::string>>& programs,
                              const std::string& library) {
  for (const auto& program : programs) {
    const Outcome alone = RunProgram(program);
    const Outcome preloaded = RunProgram(program, Preloaded({}, library));
    EXPECT_EQ(preloaded.exit_code, alone.exit_code) << program.back();
    EXPECT_EQ(preloaded.out, alone.out);
    EXPECT_EQ(preloaded.err, alone.err);
  }
}

}  // namespace ucudnn::testing
