#include "options/variable_names.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "options/launcher_note.h"
#include "options/options.h"

namespace ucudnn {
namespace {

constexpr std::string_view kPrefix = "UCUDNN_";
// kTestPrefix begins the names of the tests' variables. kOfTools are the variables of the Python
// modules and of the tools that build and test ucudnn.
constexpr std::string_view kTestPrefix = "UCUDNN_TEST_";
constexpr std::string_view kOfTools[] = {"UCUDNN_FUZZ_SETTLED", "UCUDNN_GPU_TEST_HOST",
                                         "UCUDNN_IGNORE_TOOLKIT", "UCUDNN_LIBRARY", "UCUDNN_TRACE"};
constexpr size_t kMostLines = 8;

// Returns the name of the variable whose name, old name or option is nearest to `name`; empty if
// none is near. Compares names without the prefix UCUDNN_, which all names have.
std::string NearestVariable(std::string_view name) {
  std::vector<std::string> words;
  std::vector<const char*> meant;
  const auto add = [&](std::string word, const char* variable) {
    words.push_back(std::move(word));
    meant.push_back(variable);
  };
  for (const Variable& variable : Variables()) {
    add(variable.name + kPrefix.size(), variable.name);
    if (variable.old_name != nullptr) add(variable.old_name + kPrefix.size(), variable.old_name);
    if (variable.flag == nullptr) continue;
    std::string word = variable.flag;
    std::replace(word.begin(), word.end(), '-', '_');
    add(std::move(word), variable.name);
  }
  const std::string nearest = NearestName(name.substr(kPrefix.size()), words);
  if (nearest.empty()) return {};
  return meant[static_cast<size_t>(std::find(words.begin(), words.end(), nearest) - words.begin())];
}

std::vector<std::string> UnknownLines(const char* const* environment, bool spatial) {
  std::vector<std::string> lines;
  size_t more = 0;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (!entry.starts_with(kPrefix)) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string_view name = entry.substr(0, equals);
    if (IsSpatialVariable(name) != spatial) continue;
    const std::optional<UnknownVariable> unknown = CheckVariableName(name);
    if (!unknown) continue;
    if (lines.size() < kMostLines) {
      lines.push_back(unknown->what + "; " + unknown->advice);
    } else {
      ++more;
    }
  }
  if (more > 0) lines.push_back("and " + std::to_string(more) + " more unknown UCUDNN_ variables");
  return lines;
}

}  // namespace

std::optional<UnknownVariable> CheckVariableName(std::string_view name) {
  constexpr size_t kShown = 64;
  if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix)) return std::nullopt;
  if (FindVariable(name) != nullptr) return std::nullopt;
  if (name == kLauncherSocketVariable) return std::nullopt;
  if (std::find(std::begin(kOfTools), std::end(kOfTools), name) != std::end(kOfTools)) {
    return std::nullopt;
  }
  const std::string shown =
      std::string(name.substr(0, kShown)) + (name.size() > kShown ? "..." : "");
  const std::string nearest = NearestVariable(name);
  return UnknownVariable{
      shown + " is no variable of ucudnn: " +
          (IsSpatialVariable(name) ? "nothing runs with it" : "it changes nothing"),
      nearest.empty() ? "unset it" : "did you mean " + nearest + "?"};
}

std::vector<std::string> UnknownVariables(const char* const* environment) {
  return UnknownLines(environment, false);
}

std::vector<std::string> UnknownSpatialVariables(const char* const* environment) {
  return UnknownLines(environment, true);
}

}  // namespace ucudnn
