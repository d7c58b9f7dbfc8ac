// Writes layouts as JSON (format `ucudnn-layout`, described in FORMAT.md beside this file). Pure
// function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

// Facts that the document states in addition to the layouts.
struct LayoutSetting {
  std::string machine;
  int devices = 0;
  std::string cost;    // name of the cost model
  std::string update;  // name of the update model
  // A text that says what share of the times was measured, and where; empty if none was.
  std::string measured;
  // The memory limit of each device that DeePa's layout respects; empty without a limit.
  std::optional<int64_t> memory_limit_bytes;
  bool boxes = false;  // whether the document also has the box of each tensor on each device
};

// REQUIRES: `chosen` is one of `layouts`, and DeePa's layout is among them.
std::string FormatLayout(const PlanningProblem& problem, const LayoutSetting& setting,
                         const std::vector<ParallelLayout>& layouts, const ParallelLayout& chosen);

}  // namespace ucudnn::planner
