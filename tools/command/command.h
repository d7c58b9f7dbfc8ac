// What all subcommands of `ucudnn` use: functions that add options, report errors and write
// documents, and the options that set UCUDNN_ variables. Used from main's thread only, except that
// `ucudnn bench` also calls Refuse on the thread of a device that fails.
#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/options.h"

namespace ucudnn::command {

// Exit codes of the command itself; after `ucudnn run`, the exit code is the program's.
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kCannotRun = 126;  // the program cannot be run; shells and env use the same code
constexpr int kNotFound = 127;

// The words of the command line after `--`: a program and its arguments.
using ProgramWords = std::vector<std::string>;

// A subcommand. If the user chose it, app->parsed() is true and main calls run(), which returns the
// exit code, or an error that says why the command line is refused.
struct Command {
  CLI::App* app;
  std::function<Result<int>(const ProgramWords& program)> run;
  bool takes_program = false;  // whether the command line may have a program after `--`
};

Command AddRun(CLI::App& ucudnn);
Command AddBench(CLI::App& ucudnn);
Command AddNet(CLI::App& ucudnn);
Command AddPlan(CLI::App& ucudnn);
Command AddCache(CLI::App& ucudnn);
Command AddWorkspace(CLI::App& ucudnn);
Command AddReport(CLI::App& ucudnn);
Command AddSpatial(CLI::App& ucudnn);
Command AddMultigrid(CLI::App& ucudnn);
Command AddDoctor(CLI::App& ucudnn);

// Adds a subcommand whose help begins with "Usage: ucudnn " and `usage`.
CLI::App* AddSubcommand(CLI::App& parent, const std::string& name, const std::string& usage,
                        const std::string& help);

// Adds a switch.
void AddFlag(CLI::App& app, const char* name, bool& is_given, const std::string& help);

// Adds an option that sets `place`. `value` is the placeholder of the option's value in the help.
template <typename Value>
CLI::Option* AddOption(CLI::App& app, const char* name, Value& place, const char* value,
                       const std::string& help) {
  return app.add_option(name, place, help)->type_name(value);
}

// Adds a required positional argument; if `place` is a vector, one or several.
template <typename Value>
void AddWord(CLI::App& app, const char* name, Value& place, const std::string& help) {
  AddOption(app, name, place, "", help)->required();
}

// Returns the name of `app` after the names of its parents, such as "ucudnn cache show".
std::string FullName(const CLI::App& app);

// Returns the names of the subcommands of `app` that the help shows, as "a, b and c".
std::string Subcommands(const CLI::App& app);

// Prints "ucudnn NAME: message" as one line on stderr.
void Tell(const CLI::App& app, const std::string& message);

// Prints the message as Tell() does, and returns `code`.
int Refuse(const CLI::App& app, const std::string& message, int code = kBadUsage);

// Writes a document to the file at `path`, and makes missing folders above it. If `path` is empty,
// writes to stdout; main reports if stdout cannot be written. Returns 0. If the file cannot be
// written, prints a message and returns 1.
int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path);

// Returns the options that the environment sets, for commands that plan and run no program. Prints
// a line for each variable that is ignored.
Options PlanningOptionsOf(const CLI::App& app);

// The options that set UCUDNN_ variables. Variables(), the table that parses the variables, also
// defines these options.
class VariableOptions {
 public:
  // Sets the help's text about the accepted values and the default of a variable, for a command in
  // which they differ from those in `ucudnn run`. Must be called before the variable is added.
  void Describe(const std::string& variable, const char* accepted, const char* by_default);

  // Adds options for all variables except those in `except`, which the command does not accept.
  void AddTo(CLI::App& app, const std::vector<std::string>& except = {});
  void AddOnly(CLI::App& app, const std::string& variable);
  // Adds the option --NAME for a variable, in place of the option's usual name. `name` has no
  // dashes.
  void AddAs(CLI::App& app, const std::string& variable, const char* name);

  // Returns whether this variable's option was on the command line.
  bool Given(const std::string& variable) const;
  // Returns the option's value; empty if the option was not given.
  std::string Value(const std::string& variable) const;
  // Returns the names of the options that were given, with their dashes.
  std::vector<std::string> GivenFlags() const;

  // Fails if an option has a value that is not accepted. The error names the first such option,
  // its value and the accepted values.
  Status Check() const;
  // Fails if --division or --solver was given without a budget for all kernels. The budget comes
  // from UCUDNN_TOTAL_WORKSPACE or UCUDNN_WORKSPACE_PLAN, or from the options of these variables.
  Status CheckBudget() const;
  // Sets the variables of all given options in this process's environment.
  void Export() const;

 private:
  struct Words {
    const char* accepted;
    const char* by_default;
  };
  struct Entry {
    const Variable* variable;
    std::string flag;
    CLI::Option* option = nullptr;
    std::string text;
    const char* accepted = "";
  };
  void Add(CLI::App& app, const Variable& variable, const char* name);
  // Returns this variable's entry; null if its option was not given.
  const Entry* Find(const std::string& variable) const;

  std::map<std::string, Words> words_;
  std::deque<Entry> given_;  // a deque, because CLI11 keeps pointers to the elements
};

}  // namespace ucudnn::command
