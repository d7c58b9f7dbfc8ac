#include "db/store_file.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/folders.h"
#include "base/log.h"
#include "base/mutex.h"
#include "db/schema.h"

namespace ucudnn::db {
namespace {

constexpr int kSiblings = 9;

// Returns the path of candidate `number`: measurements.db for 1, measurements-2.db for 2, and so
// on.
std::string Candidate(const std::string& path, int number) {
  if (number == 1) return path;
  const size_t stem = StemLength(path);
  return path.substr(0, stem) + "-" + std::to_string(number) + path.substr(stem);
}

}  // namespace

size_t StemLength(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.rfind('.');
  return dot == std::string::npos || dot <= name ? path.size() : dot;
}

Mutex& StoreMutex() {
  static Mutex* const mutex = [] {
    static Mutex* const leaked = new Mutex;
    const auto unlock = []() UCUDNN_THREAD_ATTRIBUTE(release_capability(leaked)) {
      leaked->Unlock();
    };
    pthread_atfork([]() UCUDNN_THREAD_ATTRIBUTE(acquire_capability(leaked)) { leaked->Lock(); },
                   unlock, unlock);
    return leaked;
  }();
  return *mutex;
}

StoreFile::~StoreFile() {
  ForgetInChild();
  Close();
}

void StoreFile::Close() { connection_.Close(); }

void StoreFile::ForgetInChild() {
  // Closing the parent's connection in the child could delete a journal that the parent still
  // needs.
  if (!connection_.open() || pid_ == getpid()) return;
  connection_.Leak();
}

void StoreFile::WarnSetAside(const std::string& instead) {
  for (const auto& [candidate, reason] : std::exchange(set_aside_, {})) {
    WarnOnce("store " + candidate,
             "the measurement store " + candidate + " is left alone: " + reason +
                 (instead.empty() ? "; it is not read" : "; " + instead + " is used instead"));
  }
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
    usable = true;  // a missing file counts as usable and has no rows
    return Status::Ok();
  }
  if (!exists) {
    const Status folders = CreateFoldersAbove(candidate, 0700);  // 0700: only this user has access
    if (!folders.ok()) return Status::Error(candidate + ": " + folders.message());
  }
  using Access = Connection::Access;
  UCUDNN_RETURN_IF_ERROR(connection_.Open(candidate, create      ? Access::kCreate
                                                     : writable_ ? Access::kWrite
                                                                 : Access::kRead));
  // A cache of 16 MiB holds the rows of a large network; SQLite allocates only what it uses. The
  // result is ignored, because Identify reports the faults of the file.
  static_cast<void>(connection_.Execute("PRAGMA cache_size=-16384"));
  const Result<Identity> identity = Identify(connection_, writable_);
  if (!identity.ok() || identity->kind == Identity::Kind::kUnusable) {
    Close();
    UCUDNN_RETURN_IF_ERROR(identity.status());
    set_aside_.emplace_back(candidate, identity->reason);
    return Status::Ok();
  }
  usable = true;
  pid_ = getpid();
  opened_ = candidate;
  version_ = identity->version;
  return ReadAsCurrent(connection_, version_);
}

Status StoreFile::Open(bool create) {
  const int candidates = writable_ ? kSiblings : 1;
  for (int number = 1; number <= candidates; ++number) {
    const std::string candidate = Candidate(path_, number);
    if (damaged_.find(candidate + "\n") != std::string::npos) continue;
    bool usable = false;
    if (Status status = OpenCandidate(candidate, create, usable); !status.ok()) {
      Close();
      return status;
    }
    if (!usable) continue;
    WarnSetAside(candidate);
    return Status::Ok();
  }
  WarnSetAside("");
  if (!writable_) return Status::Ok();
  return Status::Error(path_ + " and its " + std::to_string(kSiblings - 1) +
                       " siblings are all unusable; expected one measurement store or a free name");
}

Result<Connection*> StoreFile::ForReading() {
  ForgetInChild();
  if (!connection_.open()) UCUDNN_RETURN_IF_ERROR(Open(false));
  if (!connection_.open()) return nullptr;
  // Another process may have created or updated the tables since the file was opened.
  if (version_ < kSchemaVersion) UCUDNN_RETURN_IF_ERROR(NoteVersion());
  return version_ == 0 ? nullptr : &connection_;
}

Status StoreFile::NoteVersion() {
  UCUDNN_ASSIGN_OR_RETURN(const Identity identity, Identify(connection_, false));
  if (identity.version == version_) return Status::Ok();
  version_ = identity.version;
  return ReadAsCurrent(connection_, version_);
}

Result<Connection*> StoreFile::ForWriting() {
  ForgetInChild();
  if (!connection_.open()) UCUDNN_RETURN_IF_ERROR(Open(true));
  if (connection_.ReadOnly()) return Status::Error(opened_ + ": is read-only");
  if (version_ < kSchemaVersion) {
    UCUDNN_RETURN_IF_ERROR(BringUpToDate(connection_));
    UCUDNN_RETURN_IF_ERROR(NoteVersion());
  }
  return &connection_;
}

bool StoreFile::SetAsideIfDamaged() {
  if (!connection_.open() || connection_.damage().empty()) return false;
  set_aside_.emplace_back(opened_, "it is damaged: " + connection_.damage());
  damaged_ += opened_ + "\n";
  Close();
  return true;
}

}  // namespace ucudnn::db
