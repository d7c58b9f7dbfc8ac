// Writes layouts as JSON (format `ucudnn-layout`, described in FORMAT.md beside this file). Pure
// function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

// What a layout was made for, as its document states.
struct LayoutSetting {
  std::string machine;
  int devices = 0;
  std::string cost;      // cost model
  std::string update;    // update model
  std::string measured;  // where, and how many, in words; empty if nothing is measured
  std::optional<int64_t> memory_limit_bytes;  // limit of each device that DeePa's layout keeps to
  bool boxes = false;  // writes also which device has which box of which tensor
};

// REQUIRES: `chosen` is one of `layouts`, and DeePa's is among them.
std::string FormatLayout(const PlanningProblem& problem, const LayoutSetting& setting,
                         const std::vector<ParallelLayout>& layouts, const ParallelLayout& chosen);

}  // namespace ucudnn::planner
