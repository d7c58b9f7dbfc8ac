// The request to `ucudnn multigrid`: one struct of its options' values, and one table of the
// options. By the table, options are read, get their defaults, are described in help and in
// documents, and are compared between ranks. For use from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/multigrid/report.h"
#include "planner/graph/graph.h"
#include "planner/multigrid/device/device_solvers.h"
#include "planner/multigrid/device/precision.h"
#include "planner/multigrid/host/training.h"
#include "transport/meeting.h"

namespace ucudnn::command {

inline constexpr int kMostMultigridDevices = 1024;  // of all replicas

struct SolveSpec {
  // What is solved.
  std::string net;
  std::string weights;  // path of a file; empty: parameters are drawn
  planner::ActivationKind activation = planner::ActivationKind::kRelu;
  std::optional<int> layers;
  std::vector<int> depths;
  bool frozen_norms = false;
  std::optional<double> time, step;

  // How it is solved: solves, and training with its seed. What depends on the problem is determined
  // where the problem is known (settings.h).
  multigrid::TrainingSettings training;
  multigrid::NetworkSettings& network() { return training.network; }
  const multigrid::NetworkSettings& network() const { return training.network; }
  std::optional<int> cycles, backward_cycles, batch;
  std::optional<multigrid::CoarseOperator> coarse;
  std::optional<multigrid::Start> start;
  std::string check;

  // Where it is solved.
  std::optional<bool> on_device;  // none: decided by --host
  bool host = false;
  multigrid::DeviceSetting device;
  const multigrid::Precision* precision = &multigrid::kSinglePrecision;
  std::optional<int> threads;
  std::string devices;  // a number, or several numbers to analyse
  int replicas = 1;

  std::string train;  // path of a folder; empty: a single solve
  int epochs = 1;
  int most_examples = 0;  // 0: all examples

  bool analyse = false;
  std::string machine;

  bool json = false;
  std::string report;

  // The texts of the options, given or default; "yes" for a flag.
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> given;
  bool IsGiven(const std::string& option) const { return given.at(option); }
  const std::string& Text(const std::string& option) const { return texts.at(option); }
  // Refuses the first of these options that was given.
  Status Refuse(const std::vector<const char*>& options, const std::string& why) const;
  bool checks() const { return !check.empty(); }
  bool trains() const { return !train.empty(); }
};

// What ranks must have in common about an option.
enum class Agreement {
  kValue,
  kContents,  // the contents of the file that it names
  kPresence,  // whether it is given
  kNone       // each rank has its own value, or several ranks cannot use it
};

struct SpecOption {
  std::string name;        // "--cycles"; NET has no dashes
  const char* value;       // the name of its value in help; null for a flag
  std::string by_default;  // as it would be given; empty: help says what the default is
  std::string help;        // without the default
  std::function<Status(const std::string& option, const std::string& text, SolveSpec&)> read;
  Agreement agreement = Agreement::kValue;
};
// Returns the options in the order of the help.
const std::vector<SpecOption>& SpecOptions();

// Tells what documents say about the options, from the settings of a solve.
void DescribeSpec(const SolveSpec& spec, const multigrid::NetworkSettings& network,
                  MultigridReport& report);

// Adds all options to `app`. `texts` receive the given texts and must not move.
void AddSpecOptions(CLI::App& app, std::map<std::string, std::string>& texts);
// Reads all options together. The error names the option.
Result<SolveSpec> ReadSpec(const CLI::App& app, const std::map<std::string, std::string>& texts);

// Returns the terms that ranks compare.
std::vector<transport::Term> TermsOf(const SolveSpec& spec);

// Formats "L2, absolute".
const char* NormText(const multigrid::SolveOptions& options);
// Formats "FCF", with `c_sweeps` C-relaxations.
std::string SweepsText(int c_sweeps);
// Formats SweepsText() of each level, separated by commas.
std::string RelaxationText(const multigrid::SolveOptions& options);
// Formats "broadcast".
const char* StartText(multigrid::Start start);

}  // namespace ucudnn::command
