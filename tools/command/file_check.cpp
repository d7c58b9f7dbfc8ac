#include "command/file_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "db/connection.h"
#include "db/schema.h"
#include "planning/workspace_plan.h"

namespace ucudnn::command {
namespace {

// Returns the stores that --db names; none if --db is not given.
std::vector<std::string> StoresOf(const VariableOptions& variables) {
  Options options;
  if (!variables.Given("UCUDNN_DATABASE")) return {};
  const Status parsed =
      FindVariable("UCUDNN_DATABASE")->Apply(variables.Value("UCUDNN_DATABASE"), options);
  return parsed.ok() ? options.stores : std::vector<std::string>();
}

// Identifies the file, and reads every page of it. The error names the file. Its cause may be
// transient, such as a lock.
Result<db::Identity> IdentityOf(const std::string& path) {
  db::Connection connection;
  UCUDNN_RETURN_IF_ERROR(connection.Open(path, db::Connection::Access::kRead));
  return db::Identify(connection, true);
}

}  // namespace

std::string NearestFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  while (!std::filesystem::exists(folder, error) && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

Status CheckWritable(const std::string& path) {
  const std::string quoted = "'" + path + "' ";
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Status::Error(quoted + "is a folder; expected a file's path");
    if (!S_ISREG(info.st_mode)) {
      return Status::Error(quoted + "is no regular file; expected the path of one, or of none");
    }
  }
  const std::string folder = NearestFolder(path);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Status::Error(quoted + "cannot be made: " + folder + " is not a folder");
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return Status::Error(quoted + "cannot be made: the folder " + folder + " cannot be written");
  }
  return Status::Ok();
}

Status CheckContents(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const db::Identity identity, IdentityOf(path));
  return identity.kind == db::Identity::Kind::kUnusable ? Status::Error(identity.reason)
                                                        : Status::Ok();
}

Status CheckIsStore(const std::string& path) {
  const std::string quoted = "'" + path + "' ";
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return Status::Error("'" + path + "': there is no such store (yet)");
  }
  if (S_ISDIR(info.st_mode)) return Status::Error(quoted + "is a folder; a store is a file");
  if (!S_ISREG(info.st_mode)) return Status::Error(quoted + "is no regular file; a store is one");
  UCUDNN_ASSIGN_OR_RETURN(const db::Identity identity, IdentityOf(path));
  return identity.kind == db::Identity::Kind::kUnusable
             ? Status::Error(quoted + "is not a measurement store: " + identity.reason)
             : Status::Ok();
}

Status CheckFilesOfRun(const VariableOptions& variables) {
  const auto refuse = [](const char* variable, const std::string& why) {
    return Status::Error(std::string("--") + FindVariable(variable)->flag + " " + why);
  };
  const std::string report = variables.Value("UCUDNN_REPORT");
  if (!report.empty()) {
    const Status status = CheckWritable(report);
    if (!status.ok()) return refuse("UCUDNN_REPORT", status.message());
  }
  if (const std::string plan = variables.Value("UCUDNN_WORKSPACE_PLAN"); !plan.empty()) {
    const Status status = planning::ReadWorkspacePlan(plan).status();
    if (!status.ok()) {
      return refuse("UCUDNN_WORKSPACE_PLAN",
                    status.message() + "; expected a file that `ucudnn workspace -o` wrote");
    }
  }
  const std::vector<std::string> stores = StoresOf(variables);
  if (stores.empty()) return Status::Ok();
  struct stat info;
  const bool is_file = stat(stores[0].c_str(), &info) == 0 && S_ISREG(info.st_mode);
  // A run accepts any existing file: it ignores a file that is no store, and only reads a store
  // that it must not write. So CheckWritable is only for a file that does not exist yet.
  const Status first = is_file ? Status::Ok() : CheckWritable(stores[0]);
  return first.ok() ? first : refuse("UCUDNN_DATABASE", first.message());
}

std::vector<std::string> MissingStores(const VariableOptions& variables) {
  std::vector<std::string> lines;
  const std::vector<std::string> stores = StoresOf(variables);
  for (size_t at = 1; at < stores.size(); ++at) {
    struct stat info;
    if (stat(stores[at].c_str(), &info) == 0 && S_ISREG(info.st_mode)) continue;
    lines.push_back("--db: there is no store '" + stores[at] +
                    "', and only the first is made: it is not read");
  }
  return lines;
}

}  // namespace ucudnn::command
