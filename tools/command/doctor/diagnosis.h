// What `ucudnn doctor` found: facts, findings with their cause and what to do, and the verdict. A
// plain value; printing writes to stdout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "command/json.h"

namespace ucudnn::command {

enum class Severity { kNote, kWarning, kFault };  // a fault keeps ucudnn from working

struct Finding {
  Severity severity = Severity::kNote;
  std::string what;   // what is the case, in one line
  std::string cause;  // why, or why it matters; may be empty
  std::string fix;    // what to do; empty: nothing
};

// One kernel of a program's report: what runs, and why.
struct KernelFinding {
  std::string kernel;
  std::string what;
};

struct Diagnosis {
  std::vector<std::pair<std::string, std::string>> facts;  // name, text; an empty name continues
  std::vector<KernelFinding> kernels;
  std::vector<Finding> findings;
  bool works = false;
  std::string verdict;

  void AddFact(std::string name, std::string text);
  void Add(Severity severity, std::string what, std::string cause = {}, std::string fix = {});
  // The first fault; null when there is none.
  const Finding* FirstFault() const;
};

void PrintText(const Diagnosis& diagnosis);

// Format `ucudnn-doctor`.
void PrintJson(const Diagnosis& diagnosis);

}  // namespace ucudnn::command
