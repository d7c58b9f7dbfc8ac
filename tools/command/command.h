// Common parts of the subcommands of `ucudnn`: how they join the command line, refuse, and write
// documents, and the options for UCUDNN_ variables. Used from main's thread only.
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

// Exit codes of the command; a program that was started has its own.
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kCannotRun = 126;  // the program cannot be run; same code as in shells and env
constexpr int kNotFound = 127;

// The words behind `--`.
using ProgramWords = std::vector<std::string>;

// A subcommand, which was chosen if `app->parsed()`; `run` returns the exit code, or why its words
// are refused.
struct Command {
  CLI::App* app;
  std::function<Result<int>(const ProgramWords& program)> run;
  bool takes_program = false;  // words behind -- are expected
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

// Adds an option; its value is called `value` in the help.
template <typename Value>
CLI::Option* AddOption(CLI::App& app, const char* name, Value& place, const char* value,
                       const std::string& help) {
  return app.add_option(name, place, help)->type_name(value);
}

// Adds one or several required words.
template <typename Value>
void AddWord(CLI::App& app, const char* name, Value& place, const std::string& help) {
  AddOption(app, name, place, "", help)->required();
}

// "ucudnn NAME", with all its names.
std::string FullName(const CLI::App& app);

// Returns the names of the subcommands of `app` that the help shows: "a, b and c".
std::string Subcommands(const CLI::App& app);

// Prints "ucudnn NAME: message" as one line on stderr.
void Tell(const CLI::App& app, const std::string& message);

// Prints the message, and returns the exit code.
int Refuse(const CLI::App& app, const std::string& message, int code = kBadUsage);

// Writes a document to the file at `path`, and makes missing folders above it; if `path` is empty,
// to stdout, which main checks. Returns the exit code: 1, with a message, if the file cannot be
// written.
int WriteOutput(const CLI::App& app, const std::string& text, const std::string& path);

// Returns the options of the environment for commands that plan and do not run; reports options
// that are ignored.
Options PlanningOptionsOf(const CLI::App& app);

// The options that set UCUDNN_ variables, from the same table that parses the variables.
class VariableOptions {
 public:
  // Sets other words than a run's for a variable's accepted values and default. To be called before
  // the variable is added.
  void Describe(const std::string& variable, const char* accepted, const char* by_default);

  // Adds options for all variables except those in `except`, which the command does not use and
  // does not accept.
  void AddTo(CLI::App& app, const std::vector<std::string>& except = {});
  void AddOnly(CLI::App& app, const std::string& variable);
  // Adds an option for a variable under a name, without dashes, that only this command uses.
  void AddAs(CLI::App& app, const std::string& variable, const char* name);

  // Returns whether the option of this variable was on the command line.
  bool Given(const std::string& variable) const;
  // Returns the value of the option; empty if it was not given.
  std::string Value(const std::string& variable) const;
  // Returns the options that were given, with their dashes.
  std::vector<std::string> GivenFlags() const;

  // Refuses the first value that is not accepted; the error names option, value and what is
  // accepted.
  Status Check() const;
  // Refuses options that a run uses only if it has one budget for all kernels, given by option or
  // variable or in a workspace plan.
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
  // Returns the option of this variable; null if it was not given.
  const Entry* Find(const std::string& variable) const;

  std::map<std::string, Words> words_;
  std::deque<Entry> given_;  // CLI11 keeps pointers to the elements
};

}  // namespace ucudnn::command
