#include "planning/plugin_solver.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/mutex.h"
#include "base/shared_library.h"
#include "planning/solver_plugin.h"

namespace ucudnn::planning {
namespace {

// Locked while any plug-in solves. Two plug-ins may call one common library, which need not be
// thread-safe.
Mutex solving;

class PluginSolver : public DivisionSolver {
 public:
  PluginSolver(const char* name, ucudnnSolveDivision_t solve, std::chrono::milliseconds most_time)
      : name_(name), solve_(solve), most_time_(most_time) {}

  const char* Name() const override { return name_; }

  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override {
    std::vector<size_t> first = {0};
    std::vector<size_t> workspace_bytes;
    std::vector<double> time_ms;
    for (const Choices& choices : kernels) {
      for (const Choice& choice : choices) {
        if (!std::isfinite(choice.time_ms) || choice.time_ms < 0) {
          return Status::Error("a time of " + std::to_string(choice.time_ms) + " ms");
        }
        workspace_bytes.push_back(choice.workspace_bytes);
        time_ms.push_back(choice.time_ms);
      }
      first.push_back(time_ms.size());
    }
    Selection selection;
    selection.chosen.resize(kernels.size());
    std::array<char, 256> message = {};
    {
      MutexLock lock(solving);
      if (solve_(kernels.size(), first.data(), workspace_bytes.data(), time_ms.data(), budget_bytes,
                 static_cast<int>(most_time_.count()), selection.chosen.data(), &selection.gap_ms,
                 message.data(), message.size()) != 0) {
        message.back() = '\0';
        return Status::Error(message.data());
      }
    }
    size_t left = budget_bytes;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (selection.chosen[i] >= kernels[i].size()) return Status::Error("it chose nothing");
      const size_t bytes = kernels[i][selection.chosen[i]].workspace_bytes;
      if (bytes > left) return Status::Error("it exceeded the budget");
      left -= bytes;
    }
    selection.optimal = selection.gap_ms == 0;
    return selection;
  }

 private:
  const char* const name_;
  const ucudnnSolveDivision_t solve_;
  const std::chrono::milliseconds most_time_;
};

}  // namespace

Result<std::unique_ptr<DivisionSolver>> OpenPluginSolver(const std::string& path, const char* name,
                                                         std::chrono::milliseconds most_time) {
  UCUDNN_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(path));
  void* const solve = library.Symbol(UCUDNN_SOLVE_DIVISION);
  if (solve == nullptr) return Status::Error(path + ": no " UCUDNN_SOLVE_DIVISION);
  return std::unique_ptr<DivisionSolver>(
      new PluginSolver(name, reinterpret_cast<ucudnnSolveDivision_t>(solve), most_time));
}

}  // namespace ucudnn::planning
