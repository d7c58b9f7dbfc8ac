#include "command/export_check.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "command/elf.h"

namespace ucudnn::command {

void CheckExports(const std::string& drop_in, const std::string& real, Diagnosis& diagnosis) {
  constexpr std::string_view kFunctions = "cudnn";
  const std::vector<std::string> ours = ExportedFunctions(drop_in, kFunctions);
  if (ours.empty()) return;
  const std::vector<std::string> theirs = ExportedFunctions(real, kFunctions);
  std::vector<std::string> missing;
  std::set_difference(theirs.begin(), theirs.end(), ours.begin(), ours.end(),
                      std::back_inserter(missing));
  if (missing.empty()) return;
  std::string names;
  for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
  const std::string what = "the drop-in lacks " + std::to_string(missing.size()) +
                           (missing.size() == 1 ? " function of " : " functions of ") + real +
                           ": " + names;
  // A program may have the library that was found on the machine.
  for (const Finding& finding : diagnosis.findings) {
    if (finding.what == what) return;
  }
  const std::string folder = real.substr(0, real.rfind('/'));
  diagnosis.Add(Severity::kWarning, what,
                "it is newer than the list of functions the drop-in forwards; a program that needs "
                "one of them does not start",
                "in ucudnn's source: tools/generate-dropin --library " + real + " --include " +
                    folder + "/../include, then build it again");
}

}  // namespace ucudnn::command
