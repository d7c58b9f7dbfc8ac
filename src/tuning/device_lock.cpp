#include "tuning/device_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace ucudnn::tuning {

// The lock of one device among the threads of this process. Never freed, because a thread may hold
// it beyond the end of main().
struct DeviceLock::Holder {
  Mutex mutex;

  static Holder* Of(const std::string& device) {
    static Mutex table_mutex;
    static auto* const table = new std::map<std::string, std::unique_ptr<Holder>>;
    // A fork may have left the mutex locked forever in this child.
    if (!table_mutex.TryLock()) return nullptr;
    const MutexLock lock(table_mutex, MutexLock::kAdopt);
    std::unique_ptr<Holder>& holder = (*table)[device];
    if (holder == nullptr) holder = std::make_unique<Holder>();
    return holder.get();
  }
};

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

// Opens the file of `device`; returns -1 if that fails. Other users cannot open the file, so they
// cannot hold the lock even if the folder is one such as /tmp.
int OpenFile(const std::string& folder, const std::string& device) {
  const std::string path = folder + "/ucudnn-" + std::to_string(geteuid()) + "-" + device + ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 && LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, path + ": " + std::strerror(errno) +
                             "; other processes may measure the device at the same time");
  }
  return file;
}

// Tries to lock the file. POSIX record locks belong to a process: a forked child does not hold
// them, and the system frees them when the process ends.
bool TryLock(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file, F_SETLK, &lock) == 0) return true;
  // If the file system does not support locks, the lock counts as acquired, although it excludes no
  // other process.
  return errno != EACCES && errno != EAGAIN && errno != EINTR;
}

template <typename Try>
bool Until(Clock::time_point deadline, Try attempt) {
  while (!attempt()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace

std::optional<DeviceLock> DeviceLock::Acquire(const std::string& folder, const std::string& device,
                                              Clock::time_point deadline) {
  Holder* holder = nullptr;
  const bool mine = Until(deadline, [&] {
    if (holder == nullptr) holder = Holder::Of(device);
    return holder != nullptr && holder->mutex.TryLock();
  });
  if (!mine) return std::nullopt;
  // `lock` is made before any allocation that may throw, so that its destructor unlocks the mutex.
  DeviceLock lock(holder, -1);
  lock.file_ = OpenFile(folder, device);
  if (lock.file_ >= 0 && !Until(deadline, [&] { return TryLock(lock.file_); })) {
    return std::nullopt;
  }
  return lock;
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept
    : holder_(std::exchange(other.holder_, nullptr)), file_(std::exchange(other.file_, -1)) {}

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(holder_, other.holder_);
  std::swap(file_, other.file_);
  return *this;
}

DeviceLock::~DeviceLock() {
  if (file_ >= 0) close(file_);  // frees the record lock
  if (holder_ != nullptr) holder_->mutex.Unlock();
}

}  // namespace ucudnn::tuning
