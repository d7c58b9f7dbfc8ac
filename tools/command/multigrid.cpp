// `ucudnn multigrid`: a residual network solved over all its layers at once, and trained so.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "command/command.h"
#include "command/multigrid_analysis.h"
#include "command/multigrid_json.h"
#include "command/multigrid_output.h"
#include "command/multigrid_solve.h"
#include "command/multigrid_training.h"
#include "command/multigrid_words.h"
#include "command/output_file.h"
#include "planner/machine/presets.h"

namespace ucudnn::command {
namespace {

using multigrid::Problem;

// Refuses options that would change nothing.
Status CheckUse(const CLI::App& app, const MultigridWords& words) {
  const auto refuse = [&](const std::vector<const char*>& options, const std::string& why) {
    for (const char* option : options) {
      if (app.count(option) > 0) return Status::Error(option + (": " + why));
    }
    return Status::Ok();
  };
  if (words.train.empty()) {
    UCUDNN_RETURN_IF_ERROR(refuse({"--epochs", "--examples", "--rate", "--momentum",
                                   "--backward-cycles", "--repeat", "--data-parallel"},
                                  "says how to train; expected --train FOLDER with it"));
  }
  if (!words.analyse) {
    UCUDNN_RETURN_IF_ERROR(refuse({"--machine"}, "says where to model solves; expected --analyse"));
  } else {
    UCUDNN_RETURN_IF_ERROR(
        refuse({"--method", "--data-parallel"}, "says how to solve; --analyse models all methods"));
  }
  if (words.method == "partitioned") {
    UCUDNN_RETURN_IF_ERROR(
        refuse({"--cycles", "--tolerance", "--norm", "--relaxation", "--coarse", "--start",
                "--skip-first-down", "--backward-cycles"},
               "is of multigrid; --method partitioned runs one layer after the other"));
  }
  if (words.net != "chain") {
    UCUDNN_RETURN_IF_ERROR(refuse(
        {"--activation"}, "is of a chain; " + Quoted(words.net) + " has its own activations"));
  } else {
    UCUDNN_RETURN_IF_ERROR(refuse({"--layers", "--depths", "--frozen-norms", "--train"},
                                  "a chain is what --weights holds, and nothing else"));
    if (app.count("--seed") > 0) {
      return Status::Error("--seed: nothing of a chain is drawn; --weights holds all of it");
    }
  }
  if (!words.train.empty() || words.levels == "1") {
    UCUDNN_RETURN_IF_ERROR(refuse(
        {"--timeline"}, "shows a cycle of one solve; expected neither --train nor --levels 1"));
  }
  if (words.backend == "cudnn") {
    UCUDNN_RETURN_IF_ERROR(refuse({"--threads"}, "is of the host; expected --streams of a device"));
  } else {
    UCUDNN_RETURN_IF_ERROR(
        refuse({"--host"}, "is cudnn on the CPU stand-in, and not of --backend " + words.backend));
    UCUDNN_RETURN_IF_ERROR(
        refuse({"--way", "--launch", "--precision", "--streams", "--workspace-limit"},
               "is of a device; expected --backend cudnn with it"));
  }
  if (!words.depths.empty()) {
    return refuse({"--layers", "--weights", "--train"},
                  "--depths solves networks of several depths, with drawn weights");
  }
  return Status::Ok();
}

// What a reader of the output must know besides.
void TellDoubts(const CLI::App& app, const SolvedNetwork& solved) {
  for (size_t at = 0; at < solved.stages.size(); ++at) {
    const multigrid::Solution& solution = solved.stages[at].solution;
    const std::string network =
        Quoted(solved.facts.network) +
        (solved.stages.size() > 1 ? ", stage " + std::to_string(at + 1) : std::string()) + ", " +
        Grouped(solved.stages[at].steps) + " steps: ";
    if (!std::isfinite(solution.largest_state)) {
      Tell(app, network +
                    "the states of serial propagation are not finite; a smaller h may help "
                    "(--time, --step)");
    } else if (IsFarAway(solution, solved.settings.network.forward.scale)) {
      Tell(app, network +
                    "the states are far from those of serial propagation; more --cycles, a "
                    "--tolerance or a smaller h may help (--time, --step)");
    }
  }
}

Result<Problem> ReadProblemOf(const MultigridWords& words, const MultigridRanks& ranks) {
  return ranks.are_processes() ? ReadSharedProblem(words) : ReadProblem(words);
}

// At one depth, or at each of --depths.
Result<std::vector<SolvedNetwork>> SolveAll(const MultigridWords& words,
                                            const std::shared_ptr<MultigridRanks>& ranks) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<int> depths, ReadDepths(words));
  std::vector<MultigridWords> each(std::max<size_t>(depths.size(), 1), words);
  for (size_t at = 0; at < depths.size(); ++at) each[at].layers = std::to_string(depths[at]);
  std::vector<SolvedNetwork> solves;
  for (const MultigridWords& one : each) {
    UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadProblemOf(one, *ranks));
    UCUDNN_ASSIGN_OR_RETURN(const MultigridSettings settings, ReadSettings(one, problem, ranks));
    UCUDNN_ASSIGN_OR_RETURN(SolvedNetwork solved, SolveOnce(problem, settings));
    solves.push_back(std::move(solved));
  }
  return solves;
}

int Solve(const CLI::App& app, const MultigridWords& words,
          const std::shared_ptr<MultigridRanks>& ranks) {
  const Result<std::vector<SolvedNetwork>> solves = SolveAll(words, ranks);
  if (!solves.ok()) {
    return Refuse(app, solves.message(), ranks->others_failed() ? kFailed : kBadUsage);
  }
  if (!ranks->speaks()) return 0;
  if (!words.report.empty()) {
    const int code = WriteOutput(app, FormatSolves(words, *solves), words.report);
    if (code != 0) return code;
  }
  if (words.json) {
    WriteOutput(app, FormatSolves(words, *solves), "");
  } else if (words.depths.empty()) {
    PrintSolve(words, solves->front());
  } else {
    PrintDepths(words, *solves);
  }
  for (const SolvedNetwork& solved : *solves) TellDoubts(app, solved);
  return 0;
}

int TellMultigrid(const CLI::App& app, const MultigridWords& given) {
  MultigridWords words = given;
  if (words.backend.empty()) words.backend = words.host ? "cudnn" : "cpu64";
  if (const Status use = CheckUse(app, words); !use.ok()) return Refuse(app, use.message());
  if (words.analyse) return AnalyseMultigrid(app, words);
  const Result<std::shared_ptr<MultigridRanks>> ranks = MultigridRanks::Open(words);
  if (!ranks.ok()) return Refuse(app, ranks.message());
  if (words.timeline && (*ranks)->all() > 1) {
    return Refuse(app, "--timeline: shows the threads or streams of one device; expected no other");
  }
  if (words.train.empty()) return Solve(app, words, *ranks);
  Result<Problem> problem = ReadProblemOf(words, **ranks);
  if (!problem.ok()) return Refuse(app, problem.message());
  const Result<MultigridSettings> settings = ReadSettings(words, *problem, *ranks);
  if (!settings.ok()) return Refuse(app, settings.message());
  return Train(app, words, *problem, *settings);
}

void AddProblemOptions(CLI::App& app, MultigridWords& words) {
  app.add_option("NET", words.net,
                 "a built-in network (any other word lists them), FILE.onnx, FILE.prototxt,\n"
                 "FILE.json (ucudnn-net), or chain: the residual steps of --weights alone")
      ->required()
      ->type_name("");
  app.add_option("--weights", words.weights,
                 "weights from safetensors: arrays named like the network's layers, or of a chain\n"
                 "K [N,C,C,k,k], b [N,C] and u0 [C,H,W] (default: drawn by --seed)")
      ->type_name("FILE.safetensors");
  app.add_option("--activation", words.activation,
                 "the activation of a chain: relu or tanh (default: relu)")
      ->type_name("NAME");
  app.add_option("--layers", words.layers, "residual layers of kirby-3m (default: 4,093)")
      ->type_name("N");
  app.add_option("--depths", words.depths,
                 "solve kirby-3m with each of these numbers of residual layers, side by side")
      ->type_name("N,...");
  app.add_option("--seed", words.seed,
                 "the seed of weights, image and order of training (default: 0)")
      ->type_name("N");
  app.add_flag("--frozen-norms", words.frozen_norms,
               "batch normalisations inside steps have frozen statistics")
      ->disable_flag_override();
  app.add_option("--time", words.time, "h = T / N for a stage of N steps (default of Kirby's: 1)")
      ->type_name("T");
  app.add_option("--step", words.step,
                 "h of every step, u + h F(u) (default: 1, but for Kirby's networks)")
      ->type_name("H");
}

void AddSolveOptions(CLI::App& app, MultigridWords& words) {
  app.add_option(
         "--cycles", words.cycles,
         "how many cycles (default: 2); with a --tolerance at most so many (default: 100),\n"
         "then serial propagation solves the rest")
      ->type_name("N");
  app.add_option("--tolerance", words.tolerance,
                 "the residual at which a solve ends (default: none)")
      ->type_name("R");
  app.add_option("--norm", words.norm,
                 "how residuals are measured, in L2: absolute, or relative to the largest state\n"
                 "(default: absolute)")
      ->type_name("NAME");
  app.add_option(
         "--coarsening", words.coarsening,
         "how many layers a coarse layer stands for, for each level (default: 8, or half of\n"
         "fewer than 16 layers)")
      ->type_name("C,...");
  app.add_option("--levels", words.levels,
                 "1 is serial propagation (default: as many as leave 2 to 7 layers)")
      ->type_name("L");
  app.add_option("--relaxation", words.relaxation, "F, FCF or FCFCF, for each level (default: FCF)")
      ->type_name("NAME,...");
  app.add_option("--coarse", words.coarse,
                 "what a coarse layer computes: inject or sum (default: inject; of a\n"
                 "GPU sum where the layers of a block at once take at most twice as long as one)")
      ->type_name("NAME");
  app.add_option(
         "--start", words.start,
         "broadcast, nested: coarse levels first, or, of mini-batches that --repeat repeats,\n"
         "previous: their last states (default: broadcast, with --repeat previous)")
      ->type_name("NAME");
  app.add_flag("--skip-first-down", words.skip_first_down,
               "the first cycle goes down without relaxing")
      ->disable_flag_override();
  app.add_option("--storage", words.storage,
                 "states kept: all, or c-points, between which others are computed again\n"
                 "(default: all)")
      ->type_name("NAME");
}

void AddMachineOptions(CLI::App& app, MultigridWords& words) {
  app.add_option(
         "--backend", words.backend,
         "cpu64, double precision on the host, or cudnn, stages on devices (default: cpu64;\n"
         "with --host cudnn)")
      ->type_name("NAME");
  app.add_flag("--host", words.host, "cudnn on the CPU stand-in: its times are CPU times")
      ->disable_flag_override();
  app.add_option(
         "--way", words.way,
         "how a device runs the blocks of a level: streams, grouped (as one convolution of many\n"
         "groups), or auto, the faster one as measured (default: auto)")
      ->type_name("NAME");
  app.add_option(
         "--launch", words.launch,
         "how a device is given a cycle: each call, as one CUDA graph, or auto, a graph where\n"
         "cycles can be recorded (default: auto)")
      ->type_name("NAME");
  app.add_option("--precision", words.precision,
                 "of a device's numbers: " + multigrid::PrecisionNames() + " (default: fp32)")
      ->type_name("NAME");
  app.add_option("--streams", words.streams, "how many streams the way streams takes (default: 8)")
      ->type_name("N");
  app.add_option("--workspace-limit", words.workspace_limit,
                 "workspace of all blocks at once (default: 64MiB)")
      ->type_name("SIZE");
  app.add_option("--threads", words.threads,
                 "how many threads run blocks of layers (default: as many as processors)")
      ->type_name("N");
  app.add_option("--batch", words.batch, "images in a mini-batch (default: 1, in training 32)")
      ->type_name("N");
  app.add_option("--check", words.check,
                 "compare with serial propagation: once, or in training every:K steps")
      ->type_name("WHEN");
  app.add_flag(
         "--timeline", words.timeline,
         "note which layers each thread or stream runs when in one cycle, for --json, --report")
      ->disable_flag_override();
  app.add_flag("--json", words.json, "print JSON (planner/report/FORMAT.md)")
      ->disable_flag_override();
  app.add_option("--report", words.report,
                 "write the JSON to a file, too; `ucudnn report FILE.json` draws it")
      ->type_name("FILE.json");
}

void AddAnalysisOptions(CLI::App& app, MultigridWords& words) {
  app.add_flag("--analyse", words.analyse,
               "say whether it pays: model the fastest setting on each number of devices, against\n"
               "serial propagation, from single layers and from how fast solves converge")
      ->disable_flag_override();
  app.add_option("--machine", words.machine,
                 "to analyse: a machine's file or name (" + Join(planner::MachineNames(), ", ") +
                     ";\nN nodes: " + planner::ClusterNames() +
                     "); default: this one, with a core as a device")
      ->type_name("FILE|NAME");
}

void AddRankOptions(CLI::App& app, MultigridWords& words) {
  app.add_option(
         "--devices", words.devices,
         "share the layers out over N threads, of cudnn with a device each; processes that\n"
         "torchrun, MPI or SLURM started are devices by themselves. To analyse: N,... (default: 1, "
         "2, 4, ... 64)")
      ->type_name("N");
  app.add_option("--method", words.method,
                 "multigrid, or partitioned: the same layers on the same devices, one after the\n"
                 "other (default: multigrid)")
      ->type_name("NAME");
  app.add_option("--data-parallel", words.data_parallel,
                 "train D replicas, each on --devices, that sum their gradients (default: 1)")
      ->type_name("D");
}

void AddTrainingOptions(CLI::App& app, MultigridWords& words) {
  app.add_option("--train", words.train,
                 "train on digits: the folder of four IDX files with MNIST's names")
      ->type_name("FOLDER");
  app.add_option("--epochs", words.epochs, "passes over the images (default: 5)")->type_name("E");
  app.add_option("--examples", words.examples, "train on the first N images (default: all)")
      ->type_name("N");
  app.add_option("--rate", words.rate, "learning rate (default: " + words.rate + ")")
      ->type_name("R");
  app.add_option("--momentum", words.momentum, "momentum of SGD (default: 0.9)")->type_name("M");
  app.add_option("--repeat", words.repeat, "steps with each mini-batch (default: 1)")
      ->type_name("K");
  app.add_option("--backward-cycles", words.backward_cycles,
                 "cycles of adjoint solves (default: as --cycles)")
      ->type_name("N");
}

}  // namespace

Command AddMultigrid(CLI::App& ucudnn) {
  auto words = std::make_shared<MultigridWords>();
  CLI::App* app = AddSubcommand(ucudnn, "multigrid", "multigrid NET [OPTIONS]",
                                "solve or train a residual network over all its layers at once");
  AddProblemOptions(*app, *words);
  AddSolveOptions(*app, *words);
  AddMachineOptions(*app, *words);
  AddTrainingOptions(*app, *words);
  AddAnalysisOptions(*app, *words);
  AddRankOptions(*app, *words);
  return {app, [app, words](const ProgramWords&) { return TellMultigrid(*app, *words); }};
}

}  // namespace ucudnn::command
