#include "faulty_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace ucudnn::test {
namespace {

struct Fault {
  FileCall call = FileCall::kWrite;
  int left = 0;  // 1 if the next call of this kind fails, 2 if the one after it; 0: none
  int code = SQLITE_OK;
  bool stays = false;
  bool kills = false;
  int happened = 0;
} fault;

sqlite3_vfs* real = nullptr;
sqlite3_vfs faulty;

struct File {
  sqlite3_file base;
  // The real file's memory follows this struct.
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* Real(sqlite3_file* file) { return reinterpret_cast<File*>(file)->real(); }

bool Fails(FileCall call) {
  if (fault.left == 0 || fault.call != call) return false;
  if (fault.left > 1) {
    --fault.left;
    return false;
  }
  if (!fault.stays) fault.left = 0;
  ++fault.happened;
  if (fault.kills && call != FileCall::kShortWrite) raise(SIGKILL);
  return true;
}

int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
  if (Fails(FileCall::kWrite)) return fault.code;
  if (Fails(FileCall::kShortWrite)) {
    Real(file)->pMethods->xWrite(Real(file), bytes, count / 2, at);
    if (fault.kills) raise(SIGKILL);
    return fault.code;
  }
  return Real(file)->pMethods->xWrite(Real(file), bytes, count, at);
}

const sqlite3_io_methods kMethods = {
    1,
    [](sqlite3_file* file) { return Real(file)->pMethods->xClose(Real(file)); },
    [](sqlite3_file* file, void* bytes, int count, sqlite3_int64 at) {
      if (Fails(FileCall::kRead)) return fault.code;
      return Real(file)->pMethods->xRead(Real(file), bytes, count, at);
    },
    Write,
    [](sqlite3_file* file, sqlite3_int64 size) {
      if (Fails(FileCall::kTruncate)) return fault.code;
      return Real(file)->pMethods->xTruncate(Real(file), size);
    },
    [](sqlite3_file* file, int flags) {
      if (Fails(FileCall::kSync)) return fault.code;
      return Real(file)->pMethods->xSync(Real(file), flags);
    },
    [](sqlite3_file* file, sqlite3_int64* size) {
      return Real(file)->pMethods->xFileSize(Real(file), size);
    },
    [](sqlite3_file* file, int level) {
      if (Fails(FileCall::kLock)) return fault.code;
      return Real(file)->pMethods->xLock(Real(file), level);
    },
    [](sqlite3_file* file, int level) { return Real(file)->pMethods->xUnlock(Real(file), level); },
    [](sqlite3_file* file, int* reserved) {
      return Real(file)->pMethods->xCheckReservedLock(Real(file), reserved);
    },
    [](sqlite3_file* file, int operation, void* argument) {
      return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
    },
    [](sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); },
    [](sqlite3_file* file) { return Real(file)->pMethods->xDeviceCharacteristics(Real(file)); },
};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_file* follows = Real(file);
  const int code = real->xOpen(real, name, follows, flags, out_flags);
  file->pMethods = follows->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}

int Fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument =
      va_arg(arguments, void*);  // each command that SQLite uses has an argument, or ignores it
  va_end(arguments);
  const bool locks =
      command == F_SETLK && static_cast<const struct flock*>(argument)->l_type != F_UNLCK;
  if (locks && Fails(FileCall::kFcntlLock)) {
    errno = fault.code;
    return -1;
  }
  return fcntl(file, command, argument);
}

void Arm(const Fault& armed) {
  if (real == nullptr) {
    real = sqlite3_vfs_find(nullptr);
    faulty = *real;
    faulty.zName = "faulty";
    faulty.szOsFile += static_cast<int>(sizeof(File));
    faulty.xOpen = Open;
    sqlite3_vfs_register(&faulty, 1);
    real->xSetSystemCall(real, "fcntl", reinterpret_cast<sqlite3_syscall_ptr>(Fcntl));
  }
  fault = armed;
}

}  // namespace

void FailFileCall(FileCall call, int kth, int code, bool stays) {
  Arm({call, kth, code, stays, false, 0});
}

void DieAtFileCall(FileCall call, int kth) { Arm({call, kth, SQLITE_OK, false, true, 0}); }

int StopFailing() {
  fault.left = 0;
  return fault.happened;
}

}  // namespace ucudnn::test
