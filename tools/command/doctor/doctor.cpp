// `ucudnn doctor`: shows what this machine has, how a program uses cuDNN, what works, and why the
// rest does not.
#include <csignal>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/version.h"
#include "command/command.h"
#include "command/doctor/diagnosis.h"
#include "command/doctor/machine_check.h"
#include "command/doctor/observe.h"
#include "command/doctor/process_check.h"
#include "command/doctor/report_check.h"
#include "command/doctor/spatial_check.h"
#include "command/file_check.h"
#include "command/installation.h"
#include "command/numbers.h"
#include "command/run/elf.h"
#include "command/run/launch.h"
#include "command/run/program.h"

namespace ucudnn::command {
namespace {

struct DoctorOptions {
  std::string pid;
  bool json = false;
  Launch launch;
  VariableOptions variables;
};

// Adds a fault if the file of `program` shows that the drop-in cannot be loaded into the program,
// or that the program needs another version of cuDNN. Returns whether the program may be run.
bool CheckProgramFile(const std::string& program, Diagnosis& diagnosis) {
  Status preload = CheckImage(program);
  if (preload.ok()) preload = CheckPreload(program);
  if (!preload.ok()) {
    const Result<ElfFile> elf = ReadElf(program);
    const bool is_static = elf.ok() && elf->is_elf && elf->is_x86_64 && !elf->has_interpreter;
    diagnosis.Add(Severity::kFault, preload.message(),
                  is_static && elf->defines_cudnn
                      ? "cuDNN is linked in statically: such calls cannot be intercepted"
                      : "the drop-in cannot be put in front of cuDNN",
                  is_static ? "link it dynamically, with libcudnn.so.9"
                            : "start a copy of it that has no such rights and is a program");
    return false;
  }
  for (const NeededLibrary& library :
       NeededLibraries(program, "", Environment("LD_LIBRARY_PATH"))) {
    if (!library.name.starts_with("libcudnn.so.") || library.name == "libcudnn.so.9") continue;
    diagnosis.Add(Severity::kFault, library.needed_by + " needs " + library.name,
                  "ucudnn is for cuDNN 9", "use a build of the program for cuDNN 9");
    return false;
  }
  return true;
}

void AddHostGaps(const HostGaps& gaps, Diagnosis& diagnosis) {
  for (const std::string& file : gaps.with_kernels) {
    diagnosis.Add(Severity::kNote, file + " has GPU kernels of its own",
                  "the stand-in runs no device code: launching one is an error of that launch");
  }
  for (const std::string& library : gaps.with_runtime) {
    diagnosis.Add(Severity::kNote, library + " has a CUDA runtime of its own",
                  "the stand-in cannot serve it: what the program asks of this library fails");
  }
}

// Sets the verdict: `success`, or the first fault. REQUIRES: all findings are in `diagnosis`.
void Judge(const std::string& success, Diagnosis& diagnosis) {
  const Finding* const fault = diagnosis.FirstFault();
  diagnosis.works = fault == nullptr;
  diagnosis.verdict = fault == nullptr ? success : "does not work: " + fault->what;
}

std::string SummaryText(const ReportSummary& summary) {
  return "works: " + Counted(summary.kernels, "kernel") + ", " + std::to_string(summary.divided) +
         " divided";
}

// What is known before a process is examined.
struct Surroundings {
  const Installation& installation;
  const Options& options;  // options of the process
  // The CUDA driver's version (0: unknown). Unset if a finding already says that no driver works.
  std::optional<int> cuda_driver;
};

// Adds facts and findings about an observed process's use of cuDNN. Returns the verdict that holds
// if there is no fault.
std::string CheckSeenProcess(const ProcessView& view, const CudnnUse& use,
                             const std::string& report, const Surroundings& around,
                             Diagnosis& diagnosis) {
  AddUse(view, use, diagnosis);
  if (around.cuda_driver) CheckCuda(view, use, *around.cuda_driver, diagnosis);
  if (!CheckInterception(view, use, around.installation, diagnosis)) return {};
  if (!report.empty()) {
    const Result<ReportSummary> summary = CheckReport(report, around.options, diagnosis);
    if (!summary.ok()) {
      diagnosis.Add(Severity::kWarning, summary.message(), "what it decides is not known");
      return "the drop-in is in place";
    }
    if (summary->kernels > 0) return SummaryText(*summary);
  } else if (!view.has_log) {
    if (around.options.report.empty()) {
      diagnosis.Add(Severity::kNote, "what it decides is not known: it writes no report", "",
                    "start it with `ucudnn run --report FILE.json --`");
    }
    return "the drop-in is in place";
  }
  // If there already is a fault, it may be the cause of the finding below, which then is only a
  // note.
  const Severity severity = diagnosis.FirstFault() != nullptr ? Severity::kNote : Severity::kFault;
  if (view.has_log && !use.called) {
    diagnosis.Add(severity, "the program loaded cuDNN, but called nothing of it",
                  "it may have ended before, or run on the CPU");
  } else {
    const bool legacy_alone = around.options.engines == EngineSet::kLegacy;
    diagnosis.Add(severity, "the program called cuDNN, but no convolution that could be divided",
                  legacy_alone
                      ? "UCUDNN_ENGINES=legacy leaves convolutions of the graph API alone "
                        "(cudnnBackend*; current PyTorch, JAX and ONNX Runtime call it)"
                      : "it ran none, or plans of the graph API that are left alone as they are",
                  legacy_alone ? "leave UCUDNN_ENGINES at both" : "");
  }
  return {};
}

void DiagnoseRun(const DoctorOptions& options, const ProgramWords& words,
                 const std::string& program, Diagnosis& diagnosis) {
  const Installation installation = FindInstallation();
  const Options parsed = CheckVariables(OwnVariables(), diagnosis);
  const FoundMachine machine = CheckMachine(installation, parsed, options.launch.host, diagnosis);
  CheckStores(parsed, diagnosis);
  CheckSplitting(parsed, options.launch.host ? installation.host_cudnn : machine.real_file,
                 diagnosis);
  if (!machine.driver.ok()) {
    diagnosis.Add(Severity::kFault, "there is no CUDA driver that works", machine.driver.message(),
                  DriverAdvice());
  }
  if (!CheckProgramFile(program, diagnosis) || !machine.drop_in.ok()) return Judge({}, diagnosis);
  if (options.launch.host) {
    const Result<HostGaps> host =
        machine.stand_ins.ok()
            ? CheckHost(program, installation.host_folder, Environment("LD_LIBRARY_PATH"))
            : Result<HostGaps>(machine.stand_ins);
    if (!host.ok()) {
      diagnosis.Add(Severity::kFault, host.message());
      return Judge({}, diagnosis);
    }
    AddHostGaps(*host, diagnosis);
  }
  const Result<Reach> reach = ReachOf(options.launch, program, words);
  if (!reach.ok()) {
    diagnosis.Add(Severity::kFault, reach.message());
    return Judge({}, diagnosis);
  }
  diagnosis.AddFact("reached by", std::string(reach->dlsym_hook ? "preload and dlsym hook ("
                                                                : "preload, no dlsym hook (") +
                                      reach->reason + ")");
  ObservationFolder folder;
  Status ready = folder.Create();
  if (ready.ok()) ready = SetLaunchEnvironment(options.launch, *reach, options.variables);
  Result<Observation> seen =
      ready.ok() ? Observe(program, words, options.json, folder) : Result<Observation>(ready);
  if (!seen.ok()) {
    diagnosis.Add(Severity::kFault, seen.message());
    return Judge({}, diagnosis);
  }
  if (!seen->logged) {
    diagnosis.Add(Severity::kNote, "the program's loader said nothing of what it loaded",
                  "it is not glibc's: how the program came by cuDNN is a guess");
  }
  const Surroundings around = {
      installation, parsed,
      machine.driver.ok() ? std::optional(machine.cuda_driver) : std::nullopt};
  // Checks the processes that use cuDNN. If no process uses it, checks the program itself.
  std::string success;
  bool any = false;
  const auto check = [&](const ObservedProcess& process, const CudnnUse& use) {
    const std::string one = CheckSeenProcess(process.view, use, process.report, around, diagnosis);
    if (success.empty()) success = one;
  };
  for (const ObservedProcess& process : seen->processes) {
    const CudnnUse use = FindCudnnUse(process.view);
    if (process.report.empty() && !use.Any()) continue;
    any = true;
    check(process, use);
  }
  if (!any) check(seen->processes[0], FindCudnnUse(seen->processes[0].view));
  if (!seen->ending.empty()) {
    diagnosis.Add(Severity::kWarning, "the program " + seen->ending, "",
                  "compare with `ucudnn run --off --`, which leaves its cuDNN as it is");
  }
  Judge(success, diagnosis);
}

void DiagnoseProcess(pid_t pid, Diagnosis& diagnosis) {
  const Result<ProcessView> view = ViewRunningProcess(pid);
  if (!view.ok()) {
    diagnosis.Add(Severity::kFault, view.message(), "", "run the doctor as its user, or as root");
    return Judge({}, diagnosis);
  }
  const Installation installation = FindInstallation();
  const Options options = CheckVariables(view->variables, diagnosis);
  if (view->root.empty()) CheckStores(options, diagnosis);
  if (view->root.empty()) CheckSplitting(options, "", diagnosis);
  std::string report = options.report.empty() ? "" : ReportPath(options.report, pid);
  if (!report.empty() && report[0] != '/') report = view->folder + "/" + report;
  if (!report.empty()) report = view->root + report;
  if (!report.empty() && !FileExists(report)) {
    diagnosis.Add(Severity::kNote, "it has not written its report yet: " + report,
                  "a report is written when the first convolution is planned");
    report.clear();
  }
  int cuda_driver = 0;
  if (!FindDriver(cuda_driver).ok()) cuda_driver = 0;
  const Surroundings around = {installation, options, cuda_driver};
  Judge(CheckSeenProcess(*view, FindCudnnUse(*view), report, around, diagnosis), diagnosis);
}

void DiagnoseMachine(Diagnosis& diagnosis) {
  const Installation installation = FindInstallation();
  const Options options = CheckVariables(OwnVariables(), diagnosis);
  const FoundMachine machine = CheckMachine(installation, options, false, diagnosis);
  CheckStores(options, diagnosis);
  CheckSplitting(options, machine.real_file, diagnosis);
  Status run = machine.drop_in;
  if (run.ok() && !machine.driver.ok()) run = Status::Error("there is no driver");
  if (run.ok() && !machine.real.ok()) run = Status::Error("there is no real cuDNN");
  const Status host = machine.stand_ins.ok() ? machine.drop_in : machine.stand_ins;
  diagnosis.AddFact("run", run.ok() ? "works" : "no: " + run.message());
  diagnosis.AddFact("run --host", host.ok() ? "works" : "no: " + host.message());
  if (!machine.driver.ok()) {
    diagnosis.Add(Severity::kWarning, "there is no CUDA driver that works",
                  machine.driver.message(), DriverAdvice());
  }
  if (!machine.real.ok()) {
    diagnosis.Add(Severity::kWarning, "no real cuDNN was found",
                  "a program with a run path of its own may still find one",
                  "UCUDNN_REAL_CUDNN can name it");
  }
  if (!run.ok() && !host.ok()) {
    diagnosis.Add(Severity::kFault, "neither `ucudnn run` nor `ucudnn run --host` can work here",
                  run.message() + "; " + host.message());
  }
  Judge(run.ok() ? "works" : "works on the CPU stand-in (--host) only", diagnosis);
}

// Returns the process that --pid names; 0 if --pid is not given.
Result<pid_t> ParsePid(const DoctorOptions& options, const ProgramWords& words) {
  if (options.pid.empty()) return pid_t{0};
  UCUDNN_ASSIGN_OR_RETURN(const pid_t pid,
                          ParseWhole("--pid", options.pid, 1, std::numeric_limits<pid_t>::max(),
                                     "not a process id; `ps -e` lists them"));
  if (!words.empty()) return Status::Error("--pid and a program: one of them");
  if (const auto flags = options.variables.GivenFlags(); !flags.empty()) {
    return Status::Error(flags.front() +
                         ": is for a program that is started; a running one has its own settings");
  }
  const Status there = CheckProcess(pid);
  if (!there.ok()) return Status::Error("--pid: " + there.message() + "; `ps -e` lists them");
  return pid;
}

Status CheckOptions(const DoctorOptions& options, const ProgramWords& words) {
  UCUDNN_RETURN_IF_ERROR(options.variables.Check());
  UCUDNN_RETURN_IF_ERROR(options.variables.CheckBudget());
  UCUDNN_RETURN_IF_ERROR(ParseDlsymHook(options.launch.dlsym).status());
  if (options.launch.host && words.empty()) {
    return Status::Error("--host is for a program; it is written behind --");
  }
  return words.empty() ? Status::Ok() : CheckFilesOfRun(options.variables);
}

Result<int> Doctor(const CLI::App& app, const DoctorOptions& options, const ProgramWords& words) {
  UCUDNN_RETURN_IF_ERROR(CheckOptions(options, words));
  UCUDNN_ASSIGN_OR_RETURN(const pid_t pid, ParsePid(options, words));
  FoundProgram program;
  if (!words.empty()) program = FindProgram(words[0], Environment("PATH"));
  if (!program.can_run.ok()) {
    return Refuse(app, program.can_run.message(), program.path.empty() ? kNotFound : kCannotRun);
  }
  options.variables.Export();
  Diagnosis diagnosis;
  diagnosis.AddFact("ucudnn", kVersion);
  if (pid != 0) {
    DiagnoseProcess(pid, diagnosis);
  } else if (!words.empty()) {
    DiagnoseRun(options, words, program.path, diagnosis);
  } else {
    DiagnoseMachine(diagnosis);
  }
  std::signal(SIGPIPE, SIG_DFL);  // only now, because the program must inherit the parent's setting
  (options.json ? PrintJson : PrintText)(diagnosis);
  return diagnosis.works ? 0 : kFailed;
}

}  // namespace

Command AddDoctor(CLI::App& ucudnn) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* app = AddSubcommand(
      ucudnn, "doctor", "doctor [--json] [--pid PID | [--host] [OPTIONS] -- PROGRAM [ARG...]]",
      "say what was found, what works, what does not and why");
  AddOption(*app, "--pid", options->pid, "PID", "look at a running process");
  AddFlag(*app, "--json", options->json, "print JSON; the program's own output goes to stderr");
  AddFlag(*app, "--host", options->launch.host, "run the program on the CPU stand-in");
  AddDlsym(*app, options->launch);
  options->variables.AddTo(*app, {"UCUDNN_SPATIAL"});
  return {app,
          [app, options](const ProgramWords& program) { return Doctor(*app, *options, program); },
          true};
}

}  // namespace ucudnn::command
