// The options of `ucudnn multigrid`: a struct of their values, and a table that defines them. Other
// functions read the table to parse options, set defaults, write help and documents, and compare
// the options of ranks. Used from main's thread only.
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
  // SettingsOf() completes them when the problem is known.
  multigrid::TrainingSettings training;
  multigrid::NetworkSettings& network() { return training.network; }
  const multigrid::NetworkSettings& network() const { return training.network; }
  std::optional<int> cycles, backward_cycles, batch;
  std::optional<multigrid::CoarseOperator> coarse;
  std::optional<multigrid::Start> start;
  std::string check;

  // The members below say where the problem is solved.
  std::optional<bool> on_device;  // ReadSpec sets it to `host` if --backend is not given
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

  // The text of each option: the user's, or else the default. It is "yes" for a flag that is given.
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> given;  // whether the user gave the option
  bool IsGiven(const std::string& option) const { return given.at(option); }
  const std::string& Text(const std::string& option) const { return texts.at(option); }
  // Fails if one of `options` was given. The error names the first such option and says `why`.
  Status Refuse(const std::vector<const char*>& options, const std::string& why) const;
  bool checks() const { return !check.empty(); }
  bool trains() const { return !train.empty(); }
};

// What must be equal on all ranks for an option.
enum class Agreement {
  kValue,
  // The contents of the file, or of the data set's folder, that the option names. If the value
  // names no file or folder, the value itself.
  kContents,
  kNone  // nothing: values may differ, or the option is refused with several ranks
};

struct SpecOption {
  std::string name;        // such as "--cycles"; NET has no dashes
  const char* value;       // the name of the value in help; null for a flag
  std::string by_default;  // the default value; empty if there is none or if `help` names it
  std::string help;        // the help adds by_default to this text
  std::function<Status(const std::string& option, const std::string& text, SolveSpec&)> read;
  Agreement agreement = Agreement::kValue;
};
// Returns the options in the order of the help.
const std::vector<SpecOption>& SpecOptions();

// Sets the members of `report` that repeat options, such as report.norm and report.batch.
void DescribeSpec(const SolveSpec& spec, const multigrid::NetworkSettings& network,
                  MultigridReport& report);

// Adds all options to `app`. When `app` parses the command line, `texts` receives the values by
// option; it must not move until then.
void AddSpecOptions(CLI::App& app, std::map<std::string, std::string>& texts);
// Reads all options after `app` has parsed the command line. The error names the option.
Result<SolveSpec> ReadSpec(const CLI::App& app, const std::map<std::string, std::string>& texts);

// Returns the options whose values or contents must be equal on all ranks.
std::vector<transport::Term> TermsOf(const SolveSpec& spec);

// Formats as "L2, absolute".
const char* NormText(const multigrid::SolveOptions& options);
// Formats SolveOptions::c_sweeps, such as {1, 0} as "FCF,F".
std::string RelaxationText(const std::vector<int>& c_sweeps);
// Formats as "broadcast".
const char* StartText(multigrid::Start start);

}  // namespace ucudnn::command
