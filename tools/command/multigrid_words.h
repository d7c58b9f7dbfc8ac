// The options of `ucudnn multigrid` as words, and what they mean. Used from main's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/multigrid_device.h"
#include "command/multigrid_ranks.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/host/training.h"
#include "planner/multigrid/problem.h"

namespace ucudnn::command {

struct MultigridWords {
  std::string net;
  std::string weights;
  std::string activation = "relu";
  std::string layers;
  std::string depths;
  std::string seed = "0";
  bool frozen_norms = false;

  std::string time;
  std::string step;

  std::string backend;  // empty: cudnn with --host, else cpu64
  bool host = false;
  std::string way = "auto";
  std::string launch = "auto";
  std::string precision = "fp32";
  std::string streams = "8";
  std::string workspace_limit = "64MiB";
  std::string threads;
  std::string batch;

  std::string cycles;
  std::string backward_cycles;
  std::string tolerance;
  std::string norm = "absolute";
  std::string coarsening;  // empty: 8, or half of fewer than 16 layers
  std::string levels;
  std::string relaxation = "FCF";
  std::string coarse;
  std::string start;  // empty: previous with --repeat, else broadcast
  std::string storage = "all";
  std::string check;
  bool skip_first_down = false;

  std::string train;
  std::string epochs = "5";
  std::string rate = "0.002";
  std::string momentum = "0.9";
  std::string examples;
  std::string repeat = "1";
  bool json = false;
  bool timeline = false;
  std::string report;

  bool analyse = false;
  std::string machine;

  std::string method = "multigrid";
  std::string devices;
  std::string data_parallel;
};

// What is solved, from --weights, --layers, --seed, --time and the like.
Result<multigrid::Problem> ReadProblem(const MultigridWords& words);
// The same for processes, each of which draws its own parameters where they are drawn.
Result<multigrid::Problem> ReadSharedProblem(const MultigridWords& words);
// The same, but without parameters and image where they would be drawn.
Result<multigrid::Problem> ReadUndrawnProblem(const MultigridWords& words);
// The name of what --start is, given or not.
std::string StartText(const MultigridWords& words);
// --seed.
Result<uint64_t> ReadSeed(const MultigridWords& words);

// How: all options of solves. Errors name the option.
struct MultigridSettings {
  multigrid::NetworkSettings network;
  bool checks = false;
  std::shared_ptr<MultigridDevice> device;  // null: the host. Solves network's stages
  std::shared_ptr<MultigridRanks> ranks;    // whose threads are network.lanes each

  // "double precision on the host, 2 threads"; of a device, how its blocks ran last.
  std::string MachineText() const;
  // Whether times are a CPU's.
  bool RunsOnCpu() const { return !device || device->is_stand_in(); }
};
Result<MultigridSettings> ReadSettings(const MultigridWords& words,
                                       const multigrid::Problem& problem,
                                       std::shared_ptr<MultigridRanks> ranks);

// A whole number from `least` to `most`; the error names `option`.
Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most);

// Layers of each depth of --depths; empty without it.
Result<std::vector<int>> ReadDepths(const MultigridWords& words);

// With --train.
struct MultigridTraining {
  multigrid::TrainingSettings settings;
  std::shared_ptr<MultigridDevice> device;  // as MultigridSettings has it
  int epochs = 1;
  int most_examples = 0;  // 0: all
};
Result<MultigridTraining> ReadTraining(const MultigridWords& words,
                                       const MultigridSettings& settings);

}  // namespace ucudnn::command
