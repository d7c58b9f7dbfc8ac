// The result of `ucudnn doctor`: facts, findings with their cause and remedy, and the verdict. A
// plain value; printing writes to stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "command/json.h"

namespace ucudnn::command {

enum class Severity { kNote, kWarning, kFault };  // with a kFault, ucudnn does not work

struct Finding {
  Severity severity = Severity::kNote;
  std::string what;   // the finding, in one line
  std::string cause;  // the cause, or why the finding matters; may be empty
  std::string fix;    // the remedy; empty if nothing need be done
};

// A kernel of a program's report: what it runs, and why.
struct KernelFinding {
  std::string kernel;
  std::string what;
};

struct Diagnosis {
  // Pairs of name and text. A text with an empty name continues the previous fact.
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<KernelFinding> kernels;
  std::vector<Finding> findings;
  bool works = false;
  std::string verdict;

  void AddFact(std::string name, std::string text);
  void Add(Severity severity, std::string what, std::string cause = {}, std::string fix = {});
  // Returns the first fault; null if there is none.
  const Finding* FirstFault() const;
};

void PrintText(const Diagnosis& diagnosis);

// Writes the format `ucudnn-doctor`.
void PrintJson(const Diagnosis& diagnosis);

}  // namespace ucudnn::command
