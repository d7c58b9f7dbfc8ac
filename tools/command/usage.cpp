#include "command/usage.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "command/command.h"

namespace ucudnn::command {
namespace {

// Words that earlier versions accepted, and what replaces them.
constexpr struct {
  const char* command;
  const char* words;  // an option, or an option and its value
  const char* instead;
} kRemoved[] = {
    {"ucudnn multigrid", "--cycle", "every cycle is a V-cycle, and --cycles N says how many run"},
    {"ucudnn multigrid", "--c-weight",
     "C-relaxation has no weight, and --relaxation says how often"},
    {"ucudnn multigrid", "--way threads", "--way streams has one thread for all streams"},
    {"ucudnn multigrid", "--way one", "--way streams --streams 1 runs block after block"},
    {"ucudnn multigrid", "--coarse mean", "expected inject or sum"},
    {"ucudnn multigrid", "--coarse mid", "expected inject or sum"},
    {"ucudnn multigrid", "--coarse sum2", "expected inject or sum"}};

// If an earlier version of `app` accepted `words`, returns a text that says so. Otherwise returns
// an empty text.
std::string RemovedText(const CLI::App& app, const std::string& words) {
  for (const auto& removed : kRemoved) {
    if (words != removed.words || FullName(app) != removed.command) continue;
    return words + " is no longer there; " + removed.instead;
  }
  return "";
}

// Returns the usage without the word "Usage:", such as "ucudnn report FILE.json [-o report.html]".
std::string UsageOf(const CLI::App& app) {
  const auto& formatter = dynamic_cast<const CLI::Formatter&>(*app.get_formatter());
  const std::string text = formatter.make_usage(&app, "");
  const size_t from = text.find(' ') + 1;
  return text.substr(from, text.find('\n') - from);
}

std::string NeedsValue(const CLI::Option& option) {
  return "needs a value: " + option.get_description();
}

// Returns "--policy" for "--policy=all"; returns a word without a value unchanged.
std::string NameIn(const std::string& word) { return word.substr(0, word.find('=')); }

const CLI::Option* FindOption(const CLI::App& app, const std::string& word) {
  return word.starts_with("-") ? app.get_option_no_throw(NameIn(word)) : nullptr;
}

std::string UnknownOption(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::string name = NameIn(word);
  if (const std::string removed = RemovedText(app, name); !removed.empty()) return removed;
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const std::string nearest = NearestName(name.substr(dashes), names);
  return name + " is not an option; " +
         (nearest.empty() ? "`" + FullName(app) + " --help` names them"
                          : "did you mean --" + nearest + "?");
}

// Returns a text about a word before the name of a subcommand. It may be an option that belongs
// after the name.
std::string EarlyWord(const CLI::App& app, const CLI::App& chosen, const std::string& word) {
  const auto belongs = [&](const CLI::App& command) {
    return NameIn(word) + " is an option of `" + FullName(command) +
           "`, and is written behind that";
  };
  if (FindOption(chosen, word) != nullptr) return belongs(chosen);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (&chosen == &app && FindOption(*command, word) != nullptr) return belongs(*command);
  }
  return word.starts_with("-") ? UnknownOption(app, word)
                               : "'" + word + "' is not expected; usage: " + UsageOf(chosen);
}

std::string UnexpectedWord(const CLI::App& ucudnn) {
  const CLI::App& chosen = ChosenCommand(ucudnn);
  for (const CLI::App* app = &chosen; app != nullptr; app = app->get_parent()) {
    const std::vector<std::string> words = app->remaining(false);
    if (words.empty()) continue;
    const std::string& word = words.front();
    const std::string commands = Subcommands(*app);
    if (app == &chosen && !commands.empty() && !word.starts_with("-")) {
      return "'" + word + "' is not a command; the commands are " + commands;
    }
    if (!commands.empty()) return EarlyWord(*app, chosen, word);
    if (word.starts_with("-")) return UnknownOption(chosen, word);
    if (chosen.get_name() == "run" || chosen.get_name() == "doctor") {
      return "'" + word + "' is not expected; the program is written behind --, as in `" +
             FullName(chosen) + " -- " + word + "`";
    }
    return "'" + word + "' is not expected; usage: " + UsageOf(chosen);
  }
  return "a word is not expected; usage: " + UsageOf(chosen);
}

// Returns a text about an option that lacks a value, or has one but takes none. `message` is
// CLI11's message, which begins with the option's name.
std::string WrongCount(const CLI::App& app, const std::string& message) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name + ": ")) return name + " " + NeedsValue(*option);
    for (const std::string& flag : option->get_lnames()) {
      if (message.starts_with(flag + " was given")) {
        return "--" + flag + " takes no value: it is written alone, or left out";
      }
    }
  }
  return message + "; usage: " + UsageOf(app);
}

}  // namespace

const CLI::App& ChosenCommand(const CLI::App& ucudnn) {
  const std::vector<CLI::App*> chosen = ucudnn.get_subcommands();
  return chosen.empty() ? ucudnn : ChosenCommand(*chosen.front());
}

Status CheckWords(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const std::vector<std::string>& values = option->results();
    for (const std::string& value : values) {
      if (FindOption(app, value) != nullptr) {
        return Status::Error(name + " has no value, but " + NameIn(value) + " behind it; it " +
                             NeedsValue(*option));
      }
      if (value.empty()) {
        return Status::Error(name + " '' is empty; it " + NeedsValue(*option));
      }
      if (const std::string removed = RemovedText(app, name + " " + value); !removed.empty()) {
        return Status::Error(removed);
      }
    }
    if (values.size() > 1 && option->get_items_expected_max() <= 1) {
      const std::string times =
          values.size() == 2 ? "twice" : std::to_string(values.size()) + " times";
      return Status::Error(name + " is given " + times + "; give it once");
    }
  }
  return Status::Ok();
}

std::string ExplainError(const CLI::App& ucudnn, const CLI::ParseError& error) {
  const CLI::App& chosen = ChosenCommand(ucudnn);
  if (Status status = CheckWords(chosen); !status.ok()) return status.message();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return UnexpectedWord(ucudnn);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return std::string(error.what()) + "; usage: " + UsageOf(chosen);
  }
  return WrongCount(chosen, error.what());
}

}  // namespace ucudnn::command
