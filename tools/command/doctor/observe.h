// Runs a program under observation: with the drop-in in front of cuDNN, the loader's log on, and a
// report of every process. Used from main's thread only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"
#include "command/doctor/process_view.h"

namespace ucudnn::command {

struct ObservedProcess {
  ProcessView view;
  std::string report;  // path; empty: the process wrote none
};

struct Observation {
  // The program itself first, then the processes that it started.
  std::vector<ObservedProcess> processes;
  std::string ending;  // "ended with exit code 3"; empty if it succeeded
  bool logged = true;  // false: the program's loader wrote no log
};

// A folder for the files of one observation; removed with all its contents.
class ObservationFolder {
 public:
  ~ObservationFolder();
  Status Create();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Starts `program` (a file) with `words` as its arguments and waits for its end. REQUIRES: this
// process's environment is set up for the program. Its output goes where this command's output
// goes, with `to_stderr` to stderr alone. A report that the user asked for with UCUDNN_REPORT is
// written and read there.
Result<Observation> Observe(const std::string& program, const ProgramWords& words, bool to_stderr,
                            const ObservationFolder& folder);

// Returns the path that UCUDNN_REPORT means in process `pid`.
std::string ReportPath(const std::string& value, pid_t pid);

}  // namespace ucudnn::command
