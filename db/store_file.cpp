#include "db/store_file.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "db/schema.h"

namespace ucudnn::db {
namespace {

constexpr int kSiblings = 9;

// measurements.db, measurements-2.db, ...
std::string Candidate(const std::string& path, int number) {
  if (number == 1) return path;
  const std::string suffix = "-" + std::to_string(number);
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) return path + suffix;
  return path.substr(0, dot) + suffix + path.substr(dot);
}

// Creates the folders above `path` that are missing, for this user only.
Status CreateFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    struct stat info;
    if (stat(folder.c_str(), &info) == 0) continue;
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return Status::Error(path + ": cannot create the folder " + folder + ": " +
                           std::strerror(errno));
    }
  }
  return Status::Ok();
}

}  // namespace

std::mutex& StoreMutex() {
  static std::mutex* const mutex = [] {
    static std::mutex* const leaked = new std::mutex;
    pthread_atfork([] { leaked->lock(); }, [] { leaked->unlock(); }, [] { leaked->unlock(); });
    return leaked;
  }();
  return *mutex;
}

StoreFile::~StoreFile() { ForgetInChild(); }

void StoreFile::ForgetInChild() {
  // Closing the parent's connection here could delete a journal the parent still needs.
  if (connection_.open() && pid_ != getpid()) connection_.Leak();
}

void StoreFile::WarnSetAside(const std::string& candidate, const std::string& reason) const {
  WarnOnce("store " + candidate,
           "the measurement store " + candidate + " is left alone: " + reason +
               (writable_ ? "; measurements go to a file beside it" : "; it is not read"));
}

Status StoreFile::OpenCandidate(const std::string& candidate, bool create, bool& usable) {
  usable = false;
  struct stat info;
  const bool exists = stat(candidate.c_str(), &info) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) {
    return Status::Error(candidate + ": cannot be opened: " + std::strerror(errno));
  }
  if (exists && !S_ISREG(info.st_mode)) {
    return Status::Error(candidate + ": cannot be opened: not a regular file");
  }
  if (!exists && !create) {
    usable = true;  // and nothing to read in it
    return Status::Ok();
  }
  if (!exists) UCUDNN_RETURN_IF_ERROR(CreateFolders(candidate));
  using Access = Connection::Access;
  UCUDNN_RETURN_IF_ERROR(connection_.Open(candidate, create      ? Access::kCreate
                                                     : writable_ ? Access::kWrite
                                                                 : Access::kRead));
  const Result<Identity> identity = Identify(connection_, writable_);
  if (!identity.ok() || identity->kind == Identity::Kind::kUnusable) {
    connection_.Close();
    UCUDNN_RETURN_IF_ERROR(identity.status());
    WarnSetAside(candidate, identity->reason);
    return Status::Ok();
  }
  usable = true;
  pid_ = getpid();
  opened_ = candidate;
  empty_ = identity->kind == Identity::Kind::kEmpty;
  return Status::Ok();
}

Status StoreFile::Open(bool create) {
  const int candidates = writable_ ? kSiblings : 1;
  for (int number = 1; number <= candidates; ++number) {
    const std::string candidate = Candidate(path_, number);
    if (damaged_.find(candidate + "\n") != std::string::npos) continue;
    bool usable = false;
    if (Status status = OpenCandidate(candidate, create, usable); !status.ok()) {
      connection_.Close();
      return status;
    }
    if (usable) return Status::Ok();
  }
  if (!writable_) return Status::Ok();
  return Status::Error(path_ + " and its " + std::to_string(kSiblings - 1) +
                       " siblings are all unusable; expected one measurement store or a free name");
}

Result<Connection*> StoreFile::ForReading() {
  ForgetInChild();
  if (!connection_.open()) UCUDNN_RETURN_IF_ERROR(Open(false));
  if (!connection_.open()) return nullptr;
  if (empty_) {
    // Another process may have filled it since.
    UCUDNN_ASSIGN_OR_RETURN(const Identity identity, Identify(connection_, false));
    empty_ = identity.kind != Identity::Kind::kOurs;
  }
  return empty_ ? nullptr : &connection_;
}

Result<Connection*> StoreFile::ForWriting() {
  ForgetInChild();
  if (!connection_.open()) UCUDNN_RETURN_IF_ERROR(Open(true));
  if (connection_.ReadOnly()) return Status::Error(opened_ + ": is read-only");
  if (empty_) {
    UCUDNN_RETURN_IF_ERROR(CreateSchema(connection_));
    empty_ = false;
  }
  return &connection_;
}

bool StoreFile::SetAsideIfDamaged() {
  if (!connection_.open() || connection_.damage().empty()) return false;
  WarnSetAside(opened_, "it is damaged: " + connection_.damage());
  damaged_ += opened_ + "\n";
  connection_.Close();
  return true;
}

}  // namespace ucudnn::db
