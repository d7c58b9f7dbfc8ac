#include "planning/preferred_solver.h"

#include <utility>

#include "planning/plugin_solver.h"

namespace ucudnn::planning {

PreferredSolver::PreferredSolver(const std::string& plugin, const char* name,
                                 std::chrono::milliseconds most_time) {
  if (plugin.empty()) return;
  auto opened = OpenPluginSolver(plugin, name, most_time);
  if (opened.ok()) {
    plugin_ = std::move(*opened);
  } else {
    why_ = opened.message();
  }
}

const char* PreferredSolver::Name() const { return by_plugin_ ? plugin_->Name() : exact_.Name(); }

Result<Selection> PreferredSolver::Solve(std::span<const Choices> kernels, size_t budget_bytes) {
  if (plugin_ != nullptr) {
    Result<Selection> selection = plugin_->Solve(kernels, budget_bytes);
    by_plugin_ = selection.ok();
    if (by_plugin_) return selection;
    why_ = selection.message();
    plugin_.reset();
  }
  return exact_.Solve(kernels, budget_bytes);
}

}  // namespace ucudnn::planning
