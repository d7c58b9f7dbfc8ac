// The cost model of `ucudnn plan`, from --cost, --update and the stores of --cost measured. Used
// from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "command/command.h"
#include "command/offline_rows.h"
#include "planner/cost/cost_model.h"
#include "planner/layout/planning_problem.h"
#include "planner/machine/machine.h"

namespace ucudnn::command {

// The values of the options, which CLI11 stores in the members.
struct CostWords {
  std::string cost;    // empty: other options determine the model
  std::string update;  // empty: other options determine the update
  std::string device;
  VariableOptions variables;  // for --db and --workspace-limit

  void AddTo(CLI::App& app);
};

// Owns a cost model and the objects to which the model refers. Must not move.
class PlanCosts {
 public:
  // Chooses the model. `machine` must outlive this object. An error means bad usage. REQUIRES:
  // words.update is not empty.
  Status Choose(const CostWords& words, const planner::Machine& machine);

  const planner::CostModel& model() const { return *model_; }
  const std::string& name() const { return name_; }
  // Returns the device whose measurements the model uses; empty if it uses none.
  const std::string& measured_on() const { return rows_.device; }

 private:
  Status Measured(const CostWords& words);

  std::string name_;
  std::optional<planner::Roofline> roofline_;
  std::optional<planner::ComputeTable> table_;
  OfflineRows rows_;
  std::deque<ApiRows> stores_;
  // An element that lacks a time asks the element before it.
  std::deque<planner::MeasuredCompute> measured_;
  const planner::ComputeModel* compute_ = nullptr;
  std::unique_ptr<planner::CostModel> model_;
};

// Formats as "on NAME, 12 of 40 configurations of convolutions; others: roofline". Fails if no
// configuration is measured.
Result<std::string> MeasuredText(const planner::PlanningProblem& problem,
                                 const std::string& device);

}  // namespace ucudnn::command
