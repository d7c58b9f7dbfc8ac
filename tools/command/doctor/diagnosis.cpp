#include "command/doctor/diagnosis.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

namespace ucudnn::command {
namespace {

constexpr int kNameColumn = 16;
constexpr size_t kTextColumns = 84;

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kFault:
      return "fault";
  }
  return "";
}

// Replaces control characters by "?". Text from a process's environment or files then stays on one
// line and cannot control the terminal.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

void PrintLine(const std::string& name, const std::string& text) {
  std::cout << std::left << std::setw(kNameColumn) << name << Printable(text) << "\n";
}

// Prints `text` as PrintLine does, but breaks it into lines at spaces.
void PrintWrapped(const std::string& name, const std::string& text) {
  std::istringstream words(text);
  std::string line;
  std::string first = name;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kTextColumns) {
      PrintLine(std::exchange(first, ""), std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
  }
  PrintLine(first, line);
}

}  // namespace

void Diagnosis::AddFact(std::string name, std::string text) {
  facts.emplace_back(std::move(name), std::move(text));
}

void Diagnosis::Add(Severity severity, std::string what, std::string cause, std::string fix) {
  findings.push_back({severity, std::move(what), std::move(cause), std::move(fix)});
}

const Finding* Diagnosis::FirstFault() const {
  const auto fault = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kFault;
  });
  return fault != findings.end() ? &*fault : nullptr;
}

void PrintText(const Diagnosis& diagnosis) {
  for (const auto& [name, text] : diagnosis.facts) PrintLine(name, text);
  for (const KernelFinding& kernel : diagnosis.kernels) {
    PrintLine("kernel", kernel.kernel);
    PrintLine("", kernel.what);
  }
  for (const Finding& finding : diagnosis.findings) {
    PrintLine(SeverityName(finding.severity), finding.what);
    if (!finding.cause.empty()) PrintWrapped("  why", finding.cause);
    if (!finding.fix.empty()) PrintWrapped("  do", finding.fix);
  }
  PrintLine("verdict", diagnosis.verdict);
}

void PrintJson(const Diagnosis& diagnosis) {
  const auto fact = [](const auto& one) { return Json{{"name", one.first}, {"text", one.second}}; };
  const auto kernel = [](const KernelFinding& one) {
    return Json{{"kernel", one.kernel}, {"what", one.what}};
  };
  const auto finding = [](const Finding& one) {
    return Json{{"severity", SeverityName(one.severity)},
                {"what", one.what},
                {"cause", one.cause},
                {"fix", one.fix}};
  };
  std::cout << JsonText({{"format", "ucudnn-doctor"},
                         {"version", 1},
                         {"works", diagnosis.works},
                         {"verdict", diagnosis.verdict},
                         {"facts", JsonList(diagnosis.facts, fact)},
                         {"kernels", JsonList(diagnosis.kernels, kernel)},
                         {"findings", JsonList(diagnosis.findings, finding)}});
}

}  // namespace ucudnn::command
