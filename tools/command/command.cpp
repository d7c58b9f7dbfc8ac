#include "command/command.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file_size_limit.h"
#include "base/folders.h"
#include "command/numbers.h"

namespace ucudnn::command {
namespace {

class HelpText : public CLI::Formatter {
 public:
  explicit HelpText(std::string usage) : usage_(std::move(usage)) { column_width(34); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: ucudnn " + usage_ + "\n";
  }

 private:
  std::string usage_;
};

// Returns a text about the default of `variable` in a run. Returns null if there is nothing to say.
const char* DefaultOf(const std::string& variable) {
  static constexpr std::pair<std::string_view, const char*> kDefaults[] = {
      {"UCUDNN_BATCH_SIZE_POLICY", "auto"},
      {"UCUDNN_TILES", "auto"},
      {"UCUDNN_WORKSPACE_LIMIT", "caller, what the program grants"},
      {"UCUDNN_TOTAL_WORKSPACE", "none, each kernel has its own"},
      {"UCUDNN_DIVISION", "concurrent"},
      {"UCUDNN_SOLVER", "exact"},
      {"UCUDNN_ENGINES", "both"},
      {"UCUDNN_DATABASE", "~/.cache/ucudnn/measurements.db"},
      {"UCUDNN_WORKSPACE_PLAN", "none"},
      {"UCUDNN_SPATIAL", "none"},
      {"UCUDNN_REPORT", "none"},
      {"UCUDNN_BENCHMARK_DEVICES", "current"},
  };
  for (const auto& [name, text] : kDefaults) {
    if (name == variable) return text;
  }
  return nullptr;
}

// Breaks `text` into lines that fit the help's column of descriptions.
std::string InLines(const std::string& text) {
  constexpr size_t kLongest = 110;
  std::string lines;
  size_t from = 0;
  while (text.size() - from > kLongest) {
    const size_t end = text.rfind(' ', from + kLongest);
    if (end == std::string::npos || end <= from) break;
    lines += text.substr(from, end - from) + "\n";
    from = end + 1;
  }
  return lines + text.substr(from);
}

}  // namespace

std::string FullName(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return FullName(*app.get_parent()) + " " + app.get_name();
}

CLI::App* AddSubcommand(CLI::App& parent, const std::string& name, const std::string& usage,
                        const std::string& help) {
  CLI::App* app = parent.add_subcommand(name, help);
  app->formatter(std::make_shared<HelpText>(usage));
  app->get_help_ptr()->description("print this text");
  return app;
}

std::string Subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!child->get_group().empty()) names.push_back(child->get_name());
  }
  return Listed(names);
}

void AddFlag(CLI::App& app, const char* name, bool& is_given, const std::string& help) {
  app.add_flag(name, is_given, help)->disable_flag_override();
}

void Tell(const CLI::App& app, const std::string& message) {
  std::string line = FullName(app) + ": " + message;
  // The message must stay one line, even if a file name or a library's message contains line ends.
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cerr << line << "\n";
}

int Refuse(const CLI::App& app, const std::string& message, int code) {
  Tell(app, message);
  return code;
}

int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::cout << text;
    return 0;
  }
  const auto fail = [&](const std::string& why) {
    return Refuse(app, "'" + path + "' cannot be written: " + why, kFailed);
  };
  if (const Status folders = CreateFoldersAbove(path, 0777); !folders.ok()) {
    return fail(folders.message());
  }
  const FileSizeLimitScope within_the_limit;
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file ? 0 : fail(std::strerror(errno));
}

Options PlanningOptionsOf(const CLI::App& app) {
  std::vector<std::string> warnings;
  Options options = OptionsOfEnvironment(warnings, Use::kPlanning);
  for (const std::string& warning : warnings) Tell(app, warning);
  return options;
}

void VariableOptions::Add(CLI::App& app, const Variable& variable, const char* name) {
  Entry& given = given_.emplace_back();
  given.variable = &variable;
  const auto own = words_.find(variable.name);
  given.accepted = own != words_.end() ? own->second.accepted : variable.accepted;
  const char* const by_default =
      own != words_.end() ? own->second.by_default : DefaultOf(variable.name);
  given.flag = std::string("--") + name;
  const std::string& flag = given.flag;
  if (variable.is_switch) {
    given.text = "1";
    given.option = app.add_flag(flag, variable.help)->disable_flag_override();
  } else {
    std::string help = std::string(variable.help) + " (" + given.accepted;
    if (by_default != nullptr) help += std::string("; default: ") + by_default;
    given.option = app.add_option(flag, given.text, InLines(help + ")"));
    given.option->type_name("VALUE");
  }
}

void VariableOptions::Describe(const std::string& variable, const char* accepted,
                               const char* by_default) {
  words_[variable] = {accepted, by_default};
}

void VariableOptions::AddTo(CLI::App& app, const std::vector<std::string>& except) {
  for (const Variable& variable : Variables()) {
    const bool wanted = std::find(except.begin(), except.end(), variable.name) == except.end();
    if (variable.flag != nullptr && wanted) Add(app, variable, variable.flag);
  }
}

void VariableOptions::AddOnly(CLI::App& app, const std::string& variable) {
  const Variable* const known = FindVariable(variable);
  Add(app, *known, known->flag);
}

void VariableOptions::AddAs(CLI::App& app, const std::string& variable, const char* name) {
  Add(app, *FindVariable(variable), name);
}

const VariableOptions::Entry* VariableOptions::Find(const std::string& variable) const {
  const auto found = std::find_if(given_.begin(), given_.end(), [&](const Entry& given) {
    return given.variable->name == variable && given.option->count() > 0;
  });
  return found != given_.end() ? &*found : nullptr;
}

bool VariableOptions::Given(const std::string& variable) const { return Find(variable) != nullptr; }

std::string VariableOptions::Value(const std::string& variable) const {
  const Entry* const given = Find(variable);
  return given != nullptr ? given->text : std::string();
}

std::vector<std::string> VariableOptions::GivenFlags() const {
  std::vector<std::string> flags;
  for (const Entry& given : given_) {
    if (given.option->count() > 0) flags.push_back(given.flag);
  }
  return flags;
}

Status VariableOptions::Check() const {
  Options options;
  for (const Entry& given : given_) {
    if (given.option->count() == 0) continue;
    const Status status = given.variable->Apply(given.text, options);
    if (status.ok()) continue;
    const std::string shown =
        given.flag + (given.variable->is_switch ? std::string() : " '" + given.text + "'");
    return Status::Error(shown + ": " + status.message() + " (accepted: " + given.accepted + ")");
  }
  return Status::Ok();
}

Status VariableOptions::CheckBudget() const {
  const auto told = [&](const char* name) {
    const Variable& variable = *FindVariable(name);
    const auto set = [](const char* known) {
      const char* const value = known != nullptr ? std::getenv(known) : nullptr;
      return value != nullptr && *value != '\0';
    };
    return Given(name) || set(variable.name) || set(variable.old_name);
  };
  if (told("UCUDNN_TOTAL_WORKSPACE") || told("UCUDNN_WORKSPACE_PLAN")) return Status::Ok();
  for (const Entry& given : given_) {
    const std::string_view name = given.variable->name;
    if (given.option->count() == 0 || (name != "UCUDNN_DIVISION" && name != "UCUDNN_SOLVER")) {
      continue;
    }
    return Status::Error(given.flag +
                         ": is for the budget of --total-workspace SIZE, which is "
                         "missing");
  }
  return Status::Ok();
}

void VariableOptions::Export() const {
  for (const Entry& given : given_) {
    if (given.option->count() > 0) setenv(given.variable->name, given.text.c_str(), 1);
  }
}

}  // namespace ucudnn::command
