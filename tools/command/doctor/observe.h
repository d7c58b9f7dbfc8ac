// Runs a program under observation: the loader writes a log, and ucudnn writes a report of each
// process. Used from main's thread only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"
#include "command/doctor/process_view.h"

namespace ucudnn::command {

struct ObservedProcess {
  ProcessView view;
  std::string report;  // path of the process's report; empty if it wrote none
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

// Starts the file `program` with the arguments `words` and waits for its end. If `to_stderr`, the
// program's stdout goes to this command's stderr. If the user set UCUDNN_REPORT, reports are
// written and read there, otherwise in `folder`. REQUIRES: this process's environment is set up for
// the program.
Result<Observation> Observe(const std::string& program, const ProgramWords& words, bool to_stderr,
                            const ObservationFolder& folder);

// Returns the report's path in process `pid` if UCUDNN_REPORT is `value`: %p becomes the id.
std::string ReportPath(const std::string& value, pid_t pid);

}  // namespace ucudnn::command
