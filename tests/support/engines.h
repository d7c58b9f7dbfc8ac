// Helpers for tests of engines: list the engines that support a problem, and make a schedule of
// legacy engines.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "cudnn/legacy_engines.h"
#include "execution/schedule.h"

namespace ucudnn::test {

// Returns every engine that supports `part`. The test fails if the library does not list them.
inline std::vector<cudnn::EngineChoice> Choices(cudnn::Engines& engines,
                                                const ConvolutionProblem& part) {
  auto listed = engines.List(part);
  EXPECT_TRUE(listed.ok()) << listed.message();
  std::vector<cudnn::EngineChoice> choices;
  if (!listed.ok()) return choices;
  for (cudnn::ListedEngine& engine : *listed) choices.push_back(std::move(engine.choice));
  return choices;
}

inline Result<std::unique_ptr<execution::Schedule>> LegacySchedule(
    const cudnn::Functions& functions, const ConvolutionProblem& problem, const Division& division,
    const MicroConfiguration& undivided) {
  // Making pieces needs no handle.
  cudnn::LegacyEngines engines(functions, nullptr);
  return execution::Schedule::Make(engines, {problem, division, undivided});
}

}  // namespace ucudnn::test
