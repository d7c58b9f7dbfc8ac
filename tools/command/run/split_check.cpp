#include "command/run/split_check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "command/run/launch.h"
#include "command/run/program.h"
#include "command/run/reach.h"
#include "command/run/script.h"
#include "options/options.h"
#include "options/variable_names.h"

namespace ucudnn::command {
namespace {

// Returns the variables that the command will set in the program's environment and that decide
// about splitting.
std::map<std::string, std::string> ProgramEnvironment(const SplitSettings& settings,
                                                      const VariableOptions& variables) {
  std::map<std::string, std::string> environment;
  for (const Variable& variable : Variables()) {
    if (variables.Given(variable.name)) environment[variable.name] = variables.Value(variable.name);
  }
  if (settings.off) environment["UCUDNN_MODE"] = "off";
  if (settings.ranks > 0) {
    environment["RANK"] = environment["LOCAL_RANK"] = "0";
    environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = std::to_string(settings.ranks);
    environment["MASTER_ADDR"] = "127.0.0.1";
  }
  return environment;
}

// Returns whether the program may set a rank itself or start ranks. True for scripts, for
// interpreters, and for programs that have another program among their arguments, such as mpirun.
bool MayHaveRanks(const SplitSettings& settings) {
  const auto start = ReadStart(settings.program);
  if (!start || !start->starts_with("\177ELF") || ReadsScripts(settings.program)) return true;
  return std::any_of(settings.words.begin() + 1, settings.words.end(), [](const auto& word) {
    return FindProgram(word, Environment("PATH")).can_run.ok();
  });
}

}  // namespace

Status CheckSplit(const SplitSettings& settings, const VariableOptions& variables) {
  const auto environment = ProgramEnvironment(settings, variables);
  std::vector<std::string> ignored;  // not printed here; each process of the program prints them
  const Options options = ParseOptions(
      [&](const char* name) {
        const auto found = environment.find(name);
        return found != environment.end() ? found->second.c_str() : std::getenv(name);
      },
      ignored);
  const SpatialOptions& spatial = options.spatial;
  for (const std::string& unknown : UnknownSpatialVariables(environ)) {
    return Status::Error(unknown);
  }
  if (spatial.grid && settings.ranks > 0 && settings.ranks != spatial.grid->Ranks()) {
    return Status::Error("--ranks " + std::to_string(settings.ranks) + ": the grid " +
                         spatial.grid->Text() + " is for " + std::to_string(spatial.grid->Ranks()) +
                         " ranks");
  }
  if (spatial.lacks_ranks && MayHaveRanks(settings)) return Status::Ok();
  return spatial.refusal.empty() ? Status::Ok() : Status::Error(spatial.refusal);
}

}  // namespace ucudnn::command
