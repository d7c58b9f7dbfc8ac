#include "command/multigrid_progress.h"

#include <cstdio>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "command/number_text.h"
#include "command/progress.h"

namespace ucudnn::command {
namespace {

// The variables that warnings are about change nothing here.
bool RewritesLinesHere() {
  std::vector<std::string> warnings;
  return OptionsOfEnvironment(warnings, Use::kPlanning).rewrites_lines;
}

}  // namespace

MultigridProgress::MultigridProgress() : rewrites_(RewritesLinesHere()) {}

double MultigridProgress::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void MultigridProgress::Show(const std::string& text) {
  if (!rewrites_) return;
  StderrLine().Show(text + NumberText(", %.1f s", Seconds()));
}

void MultigridProgress::Show(const std::string& text, double share) {
  if (!rewrites_) return;
  const std::string left =
      share > 0 ? ", " + TimeLeftText(Seconds() * (1 / share - 1)) : std::string();
  StderrLine().Show(text + left);
}

void MultigridProgress::Clear() { StderrLine().Erase(); }

}  // namespace ucudnn::command
