// The request to `ucudnn multigrid`: a struct of the options' values, and a table of the options.
// The table serves to read options, set defaults, write help and documents, and compare the options
// of ranks. Used from main's thread only.
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

inline constexpr int kMostMultigridDevices = 1024;  // devices of all replicas together

struct SolveSpec {
  // The members below say what is solved.
  std::string net;
  std::string weights;  // path of a file; empty if parameters are drawn
  planner::ActivationKind activation = planner::ActivationKind::kRelu;
  std::optional<int> layers;
  std::vector<int> depths;
  bool frozen_norms = false;
  std::optional<double> time, step;

  // The members below say how the problem is solved, and how a network is trained by such solves.
  // Members that depend on the problem are set when the problem is known (settings.h).
  multigrid::TrainingSettings training;
  multigrid::NetworkSettings& network() { return training.network; }
  const multigrid::NetworkSettings& network() const { return training.network; }
  std::optional<int> cycles, backward_cycles, batch;
  std::optional<multigrid::CoarseOperator> coarse;
  std::optional<multigrid::Start> start;
  std::string check;

  // The members below say where the problem is solved.
  std::optional<bool> on_device;  // none: --host decides
  bool host = false;
  multigrid::DeviceSetting device;
  const multigrid::Precision* precision = &multigrid::kSinglePrecision;
  std::optional<int> threads;
  std::string devices;  // one number, or several numbers for --analyse
  int replicas = 1;

  std::string train;  // path of a folder; empty for a single solve
  int epochs = 1;
  int most_examples = 0;  // 0 means all examples

  bool analyse = false;
  std::string machine;

  bool json = false;
  std::string report;

  // The text of each option: what the user gave, or else the default. A flag has "yes".
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> given;  // whether the user gave the option
  bool IsGiven(const std::string& option) const { return given.at(option); }
  const std::string& Text(const std::string& option) const { return texts.at(option); }
  // Fails if one of these options was given; the error names the first one.
  Status Refuse(const std::vector<const char*>& options, const std::string& why) const;
  bool checks() const { return !check.empty(); }
  bool trains() const { return !train.empty(); }
};

// The property of an option that all ranks must have in common.
enum class Agreement {
  kValue,
  // The contents of the file, or of the folder of a data set, that the option names. If the option
  // names neither, its value.
  kContents,
  kNone  // ranks may differ, or several ranks cannot use the option
};

struct SpecOption {
  std::string name;        // such as "--cycles"; NET has no dashes
  const char* value;       // the name of the value in help; null for a flag
  std::string by_default;  // as a user would give it; empty if `help` names the default
  std::string help;        // does not name the default, unless by_default is empty
  std::function<Status(const std::string& option, const std::string& text, SolveSpec&)> read;
  Agreement agreement = Agreement::kValue;
};
// Returns the options in the order of the help.
const std::vector<SpecOption>& SpecOptions();

// Sets the texts about options in `report`, from the settings of a solve.
void DescribeSpec(const SolveSpec& spec, const multigrid::NetworkSettings& network,
                  MultigridReport& report);

// Adds all options to `app`. `texts` receives the given texts, and must not move.
void AddSpecOptions(CLI::App& app, std::map<std::string, std::string>& texts);
// Reads all options together. The error names the option.
Result<SolveSpec> ReadSpec(const CLI::App& app, const std::map<std::string, std::string>& texts);

// Returns the terms that ranks compare.
std::vector<transport::Term> TermsOf(const SolveSpec& spec);

// Formats as "L2, absolute".
const char* NormText(const multigrid::SolveOptions& options);
// Formats the relaxation of each level, as "FCF,F" for the c_sweeps (SolveOptions) 1 and 0.
std::string RelaxationText(const std::vector<int>& c_sweeps);
// Formats as "broadcast".
const char* StartText(multigrid::Start start);

}  // namespace ucudnn::command
