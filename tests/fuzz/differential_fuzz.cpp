// Runs random convolutions through ucudnn's entry points and through the stand-in alone. Their
// outputs must be equal to the bit (Winograd: within a derived tolerance). Their statuses must be
// equal, too, except that ucudnn may run a call whose workspace is too small for the stand-in,
// and may refuse a call under a strict limit. Only the output and the workspace may be written, and
// the answers of queries must prove true. Prints the smallest problem that still differs, and the
// command that shows it again.
//
//   differential_fuzz [--seed N] [--count N] [--jobs N] [--only INDEX [--alone] [--images N]]
//
// A problem is one call. The calls of one setting run one after the other in one process, so --only
// also runs the calls before the problem, unless --alone is given. Child processes do the work,
// because a fault of ucudnn or of the stand-in's device ends the process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trial.h"

extern char** environ;

namespace ucudnn::fuzz {
namespace {

constexpr long kCallsPerKernel = kSettingsPerKernel * kCallsPerSetting;

struct Arguments {
  uint64_t seed = 1;
  long count = 1000;
  long jobs = std::max(1u, std::thread::hardware_concurrency());
  std::optional<long> only;
  bool alone = false;
  std::optional<int> images;
};

// A child may end at any point. So it writes its outcome to memory that it shares with its parent.
struct Outcome {
  Coverage coverage;
  long failed = -1;  // index of the problem that runs or has failed
  char what[200] = {};
  char problem[16384] = {};
};

// Runs the calls `first` to `last` of setting `number`. Returns false if one went wrong.
bool RunSetting(const Arguments& arguments, long number, long first, long last, Outcome& outcome) {
  const Setting setting = DrawSetting(arguments.seed, number);
  const std::string setting_text = Describe(setting);
  Subject subject(setting);
  EarlierAnswers earlier;
  for (long i = first; i <= last; ++i) {
    const bool chosen = !arguments.only || i == *arguments.only;
    const Call call =
        DrawCall(arguments.seed, i, setting, chosen ? arguments.images : std::nullopt);
    std::snprintf(outcome.problem, sizeof outcome.problem, "  call: %s\n  setting: %s\n",
                  Describe(call).c_str(), setting_text.c_str());
    outcome.failed = i;
    const std::string wrong = Trial(setting, call, subject, earlier, outcome.coverage).Run();
    if (wrong.empty()) continue;
    std::snprintf(outcome.what, sizeof outcome.what, "%s", wrong.c_str());
    return false;
  }
  if (subject.SuspectsAPlan()) {
    std::snprintf(outcome.what, sizeof outcome.what, "a right plan was found wrong");
    return false;
  }
  outcome.failed = -1;
  return true;
}

// Runs the settings of job `job`. All calls of one kernel have the same job, so that the stand-in
// makes the kernel's engines ready once.
void RunJob(const Arguments& arguments, long job, Outcome& outcome) {
  if (arguments.only) {
    const long number = *arguments.only / kCallsPerSetting;
    const long first = arguments.alone ? *arguments.only : number * kCallsPerSetting;
    RunSetting(arguments, number, first, *arguments.only, outcome);
    return;
  }
  for (long first = 0; first < arguments.count; first += kCallsPerSetting) {
    if (first / kCallsPerKernel % arguments.jobs != job) continue;
    const long last = std::min(first + kCallsPerSetting, arguments.count) - 1;
    if (!RunSetting(arguments, first / kCallsPerSetting, first, last, outcome)) return;
  }
}

struct Child {
  pid_t pid;
  Outcome* outcome;
};

Child Start(const Arguments& arguments, long job, bool quiet) {
  void* const shared =
      mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto* const outcome = new (shared) Outcome;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid != 0) return {pid, outcome};
  if (quiet) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  RunJob(arguments, job, *outcome);
  std::fflush(stdout);
  _exit(0);
}

Outcome Wait(const Child& child) {
  int status = 0;
  waitpid(child.pid, &status, 0);
  Outcome outcome = *child.outcome;
  munmap(child.outcome, sizeof outcome);
  if (status == 0) return outcome;
  if (outcome.failed < 0) outcome.failed = 0;
  if (WIFSIGNALED(status)) {
    std::snprintf(outcome.what, sizeof outcome.what, "signal %d (%s)", WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
  } else {
    std::snprintf(outcome.what, sizeof outcome.what, "the process left with %d",
                  WEXITSTATUS(status));
  }
  return outcome;
}

bool Fails(const Arguments& arguments) { return Wait(Start(arguments, 0, true)).failed >= 0; }

// Returns the smallest problem that still fails. Tries problem `index` without the calls before it,
// and then with few images.
Arguments Shrink(const Arguments& arguments, long index) {
  Arguments smallest = arguments;
  smallest.only = index;
  Arguments tried = smallest;
  tried.alone = true;
  if (Fails(tried)) smallest = tried;
  for (int images = 1; images <= 20; ++images) {
    tried = smallest;
    tried.images = images;
    if (Fails(tried)) return tried;
  }
  return smallest;
}

void Explain(const Arguments& arguments, const Outcome& failure) {
  std::printf("problem %ld of seed %llu: %s\n", failure.failed,
              static_cast<unsigned long long>(arguments.seed), failure.what);
  std::fflush(stdout);
  const Arguments smallest = arguments.only ? arguments : Shrink(arguments, failure.failed);
  std::string command = "differential_fuzz --seed " + std::to_string(smallest.seed) + " --only " +
                        std::to_string(smallest.only.value_or(0));
  if (smallest.alone) command += " --alone";
  if (smallest.images) command += " --images " + std::to_string(*smallest.images);
  const Outcome outcome = Wait(Start(smallest, 0, false));
  std::printf("  again: %s\n  %s\n%s", command.c_str(),
              outcome.failed >= 0 ? outcome.what : "(not when run again)",
              outcome.failed >= 0 ? outcome.problem : failure.problem);
}

// Returns whether enough trials of each of these kinds occurred. Otherwise the fuzzer no longer
// tests what it claims to test. `rounded` is 0 where oneDNN has no Winograd. Fewer than 3,000
// problems are not judged.
bool Covers(const Coverage& c) {
  if (c.problems < 3000) return true;
  for (const long count : {c.divided, c.mixed, c.below_need, c.misaligned, c.refused, c.recovered,
                           c.measured, c.compared, c.checked, c.over_limit}) {
    if (count < c.problems / 1000) return false;
  }
  return true;
}

int Main(const Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const long jobs = arguments.only ? 1 : arguments.jobs;
  std::vector<Child> children;
  for (long job = 0; job < jobs; ++job) children.push_back(Start(arguments, job, !arguments.only));
  Coverage coverage;
  int failures = 0;
  for (const Child& child : children) {
    const Outcome outcome = Wait(child);
    coverage.Add(outcome.coverage);
    if (outcome.failed < 0) continue;
    ++failures;
    if (arguments.only) {
      std::printf("problem %ld: %s\n%s", outcome.failed, outcome.what, outcome.problem);
    } else {
      Explain(arguments, outcome);
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "%ld problems of seed %llu in %.0f s: %d differ; %ld divided (%ld into unlike engines), %ld "
      "in "
      "less workspace than the algorithm needs, %ld off alignment, %ld refused, %ld made good, %ld "
      "with Winograd, %ld measured here, %ld compared first, %ld checked, %ld over a strict "
      "limit\n",
      coverage.problems, static_cast<unsigned long long>(arguments.seed), seconds, failures,
      coverage.divided, coverage.mixed, coverage.below_need, coverage.misaligned, coverage.refused,
      coverage.recovered, coverage.rounded, coverage.measured, coverage.compared, coverage.checked,
      coverage.over_limit);
  if (!Covers(coverage)) {
    std::printf("too few of them were divided, refused or made good to mean anything\n");
    return 1;
  }
  return failures > 0;
}

// Runs the program again in another environment. It has no UCUDNN_ variables of the user, which
// would steer ucudnn, and only one thread for the engines, which suffices for problems this small.
// Variables that are set in this process come too late, because OpenMP has read the number of
// threads when the program was loaded.
void SettleEnvironment(char** argv) {
  if (std::getenv("UCUDNN_FUZZ_SETTLED") != nullptr) return;
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "UCUDNN_", 7) == 0)
      names.emplace_back(*entry, std::strchr(*entry, '='));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  setenv("UCUDNN_FUZZ_SETTLED", "1", 1);
  setenv("UCUDNN_REAL_CUDNN", STANDIN_CUDNN, 1);
  setenv("UCUDNN_DATABASE", "none", 1);
  setenv("UCUDNN_LOG", "error", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);
}

int Usage(const char* what) {
  std::fprintf(
      stderr,
      "differential_fuzz: %s; it takes --seed N, --count N, --jobs N, --only INDEX, --alone "
      "and --images N\n",
      what);
  return 2;
}

int Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--alone") {
      arguments.alone = true;
      continue;
    }
    if (i + 1 == argc) return Usage(("no value for " + name).c_str());
    char* end = nullptr;
    const long value = std::strtol(argv[++i], &end, 10);
    if (*end != 0 || end == argv[i] || value < 0) return Usage((name + " takes a number").c_str());
    if (name == "--seed") {
      arguments.seed = value;
    } else if (name == "--count") {
      arguments.count = value;
    } else if (name == "--jobs" && value > 0) {
      arguments.jobs = value;
    } else if (name == "--only") {
      arguments.only = value;
    } else if (name == "--images" && value > 0) {
      arguments.images = static_cast<int>(value);
    } else {
      return Usage(("unknown option or value: " + name).c_str());
    }
  }
  return Main(arguments);
}

}  // namespace
}  // namespace ucudnn::fuzz

int main(int argc, char** argv) {
  ucudnn::fuzz::SettleEnvironment(argv);
  return ucudnn::fuzz::Parse(argc, argv);
}
