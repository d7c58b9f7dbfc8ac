#include "command/ranks/ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "command/ranks/guard.h"
#include "command/ranks/job.h"
#include "command/ranks/meeting.h"
#include "command/run/launch.h"
#include "command/run/program.h"
#include "options/launcher_note.h"

namespace ucudnn::command {
namespace {

// Returns, for each rank, the variables to add to the environment.
Result<std::vector<RankVariables>> VariablesOf(int ranks, const std::string& launcher) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(2));
  // If this process is itself a rank, it inherited the rendezvous of the outer job, which the new
  // job must not use.
  const bool own = Environment(kLauncherSocketVariable).empty();
  std::string rendezvous = own ? Environment("UCUDNN_RENDEZVOUS") : std::string();
  std::string token = own ? Environment("UCUDNN_RENDEZVOUS_TOKEN") : std::string();
  if (rendezvous.empty()) rendezvous = "tcp://127.0.0.1:" + std::to_string(ports[1]);
  if (token.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(token, RandomWord());
  }
  std::vector<RankVariables> variables;
  for (int rank = 0; rank < ranks; ++rank) {
    variables.push_back({{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(ranks)},
                         {"LOCAL_RANK", std::to_string(rank)},
                         {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                         {"GROUP_RANK", "0"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(ports[0])},
                         {"UCUDNN_RENDEZVOUS", rendezvous},
                         {"UCUDNN_RENDEZVOUS_TOKEN", token},
                         {kLauncherSocketVariable, launcher}});
  }
  return variables;
}

// Opens standard streams that are closed, because a new pipe could otherwise get their numbers.
void OpenStandardStreams() {
  for (int stream = 0; stream < 3; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    const int opened = open("/dev/null", O_RDWR);
    if (opened >= 0 && opened != stream) {
      dup2(opened, stream);
      close(opened);
    }
  }
}

struct JobOutcome {
  int code = 0;
  int signal = 0;  // the signal by which this process must end itself; 0: by exit with `code`
};

JobOutcome RunJob(const CLI::App& app, RankProgram& program, int ranks) {
  const auto refused = [&](const Status& status, int code = kFailed) {
    return JobOutcome{Refuse(app, status.message(), code)};
  };
  RankGuard guard;
  JobSignals signals;
  NoteSocket notes;
  TerminalInput input;
  // Takes the signals first: from then on no signal ends this process and leaves ranks behind.
  for (const Status& status : {signals.Take(), guard.Start(), notes.Open(), input.Open()}) {
    if (!status.ok()) return refused(status);
  }
  const auto variables = VariablesOf(ranks, notes.name());
  if (!variables.ok()) return refused(variables.status());
  program.signals = &signals;
  program.input = input.reader();
  int errno_of_exec = 0;
  auto started = StartRanks(program, *variables, guard, errno_of_exec);
  input.CloseReader();
  if (!started.ok()) guard.Dismiss();
  if (!started.ok() && errno_of_exec != 0) {
    return {Refuse(app, WhyNotStarted(program.path, errno_of_exec), kCannotRun)};
  }
  if (!started.ok()) {
    return refused(Status::Error("ranks cannot be started: " + started.message()));
  }
  RankJob job(FullName(app), std::move(*started), {signals, notes, input});
  job.Run();
  // The guard must be dismissed before Reap(). After Reap(), other processes could get the ids that
  // the guard would kill.
  guard.Dismiss();
  Reap(job.ranks());
  if (job.loss() != 0) {
    Tell(app, std::string("output is lost: ") + strerror(job.loss()));
  }
  return {job.code(), job.ending_signal()};
}

}  // namespace

int RunRanks(const CLI::App& app, const std::string& program, const ProgramWords& words,
             int ranks) {
  OpenStandardStreams();
  RankProgram ranks_program;
  ranks_program.path = program;
  ranks_program.words = words;
  const JobOutcome outcome = RunJob(app, ranks_program, ranks);
  if (outcome.signal != 0) {
    // Ends by the same signal, so that a script that runs this command also ends, as after any
    // program that Ctrl-C ends.
    signal(outcome.signal, SIG_DFL);
    raise(outcome.signal);
  }
  return outcome.code;
}

}  // namespace ucudnn::command
