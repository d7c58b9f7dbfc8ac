// What `ucudnn multigrid` is asked: one struct of its options' values, and one table of the options
// by which they are read, get their defaults, are described in help and in documents, and are
// compared between ranks. Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/multigrid/device/device_solvers.h"
#include "planner/multigrid/device/precision.h"
#include "planner/multigrid/host/training.h"
#include "transport/meeting.h"

namespace ucudnn::command {

struct SolveSpec {
  // What is solved.
  std::string net;
  std::string weights;  // a file's path; empty: drawn
  planner::ActivationKind activation = planner::ActivationKind::kRelu;
  std::optional<int> layers;
  std::vector<int> depths;
  bool frozen_norms = false;
  std::optional<double> time, step;

  // How: solves, and training with its seed. What depends on the problem is settled where that is
  // known (settings.h).
  multigrid::TrainingSettings training;
  multigrid::NetworkSettings& network() { return training.network; }
  const multigrid::NetworkSettings& network() const { return training.network; }
  std::optional<int> cycles, backward_cycles, batch;
  std::optional<multigrid::CoarseOperator> coarse;
  std::optional<multigrid::Start> start;
  std::string check;

  // Where.
  std::optional<bool> on_device;  // none: with --host
  bool host = false;
  multigrid::DeviceSetting device;
  const multigrid::Precision* precision = &multigrid::kSinglePrecision;
  std::optional<int> threads;
  std::string devices;  // a number; to analyse several
  int replicas = 1;

  std::string train;  // a folder; empty: a single solve
  int epochs = 1;
  int most_examples = 0;  // 0: all

  bool analyse = false;
  std::string machine;

  bool json = false;
  std::string report;

  // The texts of the options, as they were given or by default; of a flag "yes".
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> given;
  bool IsGiven(const std::string& option) const { return given.at(option); }
  const std::string& Text(const std::string& option) const { return texts.at(option); }
  // Refuses the first of these options that is given.
  Status Refuse(const std::vector<const char*>& options, const std::string& why) const;
  bool checks() const { return !check.empty(); }
  bool trains() const { return !train.empty(); }
};

// What ranks must have in common of an option.
enum class Agreement {
  kValue,
  kContents,  // of the file that it names
  kPresence,  // whether it is given
  kNone       // each rank has its own, or several ranks have none
};

struct SpecOption {
  std::string name;        // "--cycles"; NET has no dashes
  const char* value;       // what help calls its value; null: a flag
  std::string by_default;  // as it would be given; empty: help says what holds
  std::string help;        // without that default
  std::function<Status(const std::string& option, const std::string& text, SolveSpec&)> read;
  // The member of documents, by the settings that a solve had; null: there is none.
  const char* member = nullptr;
  std::function<nlohmann::ordered_json(const SolveSpec&, const multigrid::NetworkSettings&)>
      document = nullptr;
  Agreement agreement = Agreement::kValue;
};
// In the order of the help.
const std::vector<SpecOption>& SpecOptions();

// Adds all options to `app`; `texts` are what they are given, and stay where they are.
void AddSpecOptions(CLI::App& app, std::map<std::string, std::string>& texts);
// What they say together. The error names the option.
Result<SolveSpec> ReadSpec(const CLI::App& app, const std::map<std::string, std::string>& texts);

// What ranks compare.
std::vector<transport::Term> TermsOf(const SolveSpec& spec);

// "L2, absolute".
const char* NormText(const multigrid::SolveOptions& options);
// "FCF", with so many C-relaxations.
std::string SweepsText(int c_sweeps);
// SweepsText of each level, with commas between.
std::string RelaxationText(const multigrid::SolveOptions& options);
// "broadcast".
const char* StartText(multigrid::Start start);

}  // namespace ucudnn::command
