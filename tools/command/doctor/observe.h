// Runs a program under observation: with the drop-in in front of cuDNN, with the loader's log, and
// with a report of every process. Used from main's thread only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"
#include "command/doctor/process_view.h"

namespace ucudnn::command {

struct ObservedProcess {
  ProcessView view;
  std::string report;  // path; empty if the process wrote none
};

struct Observation {
  // The program itself first, and then the processes that it started.
  std::vector<ObservedProcess> processes;
  std::string ending;  // such as "ended with exit code 3"; empty on success
  bool logged = true;  // whether the program's loader wrote a log
};

// A folder for the files of one observation. The destructor removes it with all its contents.
class ObservationFolder {
 public:
  ~ObservationFolder();
  Status Create();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Starts `program`, a file, with `words` as its arguments, and waits for its end. The program
// writes to this command's stdout and stderr, or with `to_stderr` only to stderr. If the user set
// UCUDNN_REPORT, the report is written and read at that path. REQUIRES: this process's environment
// is set up for the program.
Result<Observation> Observe(const std::string& program, const ProgramWords& words, bool to_stderr,
                            const ObservationFolder& folder);

// Returns the path that the value of UCUDNN_REPORT means in process `pid`.
std::string ReportPath(const std::string& value, pid_t pid);

}  // namespace ucudnn::command
