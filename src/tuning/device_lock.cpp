#include "tuning/device_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace ucudnn::tuning {

// What this process's threads exclude each other by. Entries stay: a lock may outlive main().
struct DeviceLock::Holder {
  std::mutex mutex;

  static Holder* Of(const std::string& device) {
    static std::mutex table_mutex;
    static auto* const table = new std::map<std::string, std::unique_ptr<Holder>>;
    // A fork may have left the table locked in this child for ever.
    std::unique_lock lock(table_mutex, std::try_to_lock);
    if (!lock) return nullptr;
    std::unique_ptr<Holder>& holder = (*table)[device];
    if (holder == nullptr) holder = std::make_unique<Holder>();
    return holder.get();
  }
};

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

// The file of `device`, or -1. Only its owner's processes use it, because in a folder like /tmp
// others may not open it.
int OpenFile(const std::string& folder, const std::string& device) {
  const std::string path = folder + "/ucudnn-" + std::to_string(geteuid()) + "-" + device + ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 && LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, path + ": " + std::strerror(errno) +
                             "; other processes may measure the device at the same time");
  }
  return file;
}

// POSIX record locks belong to the process: a forked child does not hold them on, and the system
// frees them when a process dies.
bool TryLock(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file, F_SETLK, &lock) == 0) return true;
  // A file system without locks excludes nobody.
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
    return holder != nullptr && holder->mutex.try_lock();
  });
  if (!mine) return std::nullopt;
  DeviceLock lock(holder, -1);  // before what may run out of memory
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
  if (holder_ != nullptr) holder_->mutex.unlock();
}

}  // namespace ucudnn::tuning
