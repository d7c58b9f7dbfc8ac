#include "command/machine_file.h"

#include <algorithm>

#include "base/text.h"
#include "base/text_file.h"
#include "planner/machine/machine_json.h"
#include "planner/machine/presets.h"

namespace ucudnn::command {

Result<planner::Machine> LoadMachine(const std::string& machine) {
  const auto& names = planner::MachineNames();
  const std::string name = machine.substr(0, machine.find(':'));
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    Result<planner::Machine> named = planner::MachineByName(machine);
    if (!named.ok()) return Status::Error("--machine " + named.message());
    return named;
  }
  const Result<std::string> text = ReadTextFile(machine);
  if (!text.ok()) {
    return Status::Error("--machine " + text.message() + "; it is none of " + Join(names, ", "));
  }
  Result<planner::Machine> parsed = planner::ParseMachine(*text);
  if (!parsed.ok()) return Status::Error("--machine " + machine + ": " + parsed.message());
  return parsed;
}

}  // namespace ucudnn::command
