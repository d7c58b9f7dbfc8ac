// Tests that one thread of one process at a time may measure a device, also if processes die or
// fork while they hold the lock.
#include "tuning/device_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

namespace ucudnn::tuning {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kDevice[] = "0123";
constexpr auto kLong = seconds(60);  // longer than anything in this test takes

// Runs `body` in a forked child. `tell` sends the byte for which AwaitTell waits in the parent.
class Child {
 public:
  explicit Child(const std::function<void(const std::function<void()>& tell)>& body) {
    EXPECT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(pipe_[1]);
      return;
    }
    body([this] { (void)!write(pipe_[1], "x", 1); });
    _exit(0);
  }
  ~Child() { close(pipe_[0]); }
  bool AwaitTell() {
    char byte;
    return read(pipe_[0], &byte, 1) == 1;
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }
  bool Wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  int pipe_[2] = {};
  pid_t pid_ = 0;
};

class DeviceLockTest : public ::testing::Test {
 protected:
  DeviceLockTest() {
    std::string pattern = ::testing::TempDir() + "/lock_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~DeviceLockTest() override { std::filesystem::remove_all(folder_); }
  std::optional<DeviceLock> Acquire(Clock::duration wait, const char* device = kDevice) const {
    return DeviceLock::Acquire(folder_, device, Clock::now() + wait);
  }
  std::string Path() const {
    return folder_ + "/ucudnn-" + std::to_string(geteuid()) + "-" + kDevice + ".lock";
  }
  std::string folder_;
};

TEST_F(DeviceLockTest, ThreadsTakeTurns) {
  int inside = 0, most = 0, turns = 0;  // guarded by the lock under test
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto lock = Acquire(kLong);
        ASSERT_TRUE(lock);
        most = std::max(most, ++inside);
        std::this_thread::yield();
        --inside;
        ++turns;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(turns, 40);
}

TEST_F(DeviceLockTest, ADeadlineEndsTheWaitForAThread) {
  const auto lock = Acquire(kLong);
  ASSERT_TRUE(lock);
  std::thread([&] {
    EXPECT_FALSE(Acquire(milliseconds(20)));
    EXPECT_FALSE(Acquire(-seconds(1)));
  }).join();
}

TEST_F(DeviceLockTest, DevicesDoNotExcludeEachOther) {
  const auto one = Acquire(kLong, "one");
  EXPECT_TRUE(one);
  EXPECT_TRUE(Acquire(milliseconds(20), "two"));
}

TEST_F(DeviceLockTest, AMovedLockIsReleasedOnce) {
  {
    std::optional<DeviceLock> lock = Acquire(kLong);
    ASSERT_TRUE(lock);
    const DeviceLock moved = std::move(*lock);
    lock.reset();
    EXPECT_FALSE(Acquire(milliseconds(20)));
  }
  EXPECT_TRUE(Acquire(kLong));
}

TEST_F(DeviceLockTest, ProcessesTakeTurns) {
  Child holder([&](const auto& tell) {
    const auto lock = Acquire(kLong);
    if (lock) tell();
    std::this_thread::sleep_for(kLong);
  });
  ASSERT_TRUE(holder.AwaitTell());
  EXPECT_FALSE(Acquire(milliseconds(20)));
  // A holder that dies releases the lock.
  holder.Kill();
  EXPECT_TRUE(Acquire(kLong));
}

TEST_F(DeviceLockTest, AnotherProcessGetsItWhenItIsFree) {
  EXPECT_TRUE(Acquire(kLong));
  Child taker([&](const auto&) { _exit(Acquire(kLong) ? 0 : 1); });
  EXPECT_TRUE(taker.Wait());
}

// A forked child has a copy of the mutex in its locked state, and no thread of the child unlocks
// it.
TEST_F(DeviceLockTest, AForkedChildOfTheHolderWaitsNoLongerThanItsDeadline) {
  const auto lock = Acquire(kLong);
  ASSERT_TRUE(lock);
  Child child([&](const auto&) { _exit(Acquire(milliseconds(20)) ? 1 : 0); });
  EXPECT_TRUE(child.Wait());
  // The first child has ended, which must not have released the file lock of this process. So
  // F_GETLK must still name this process as the holder.
  Child other([&](const auto&) {
    const int file = open(Path().c_str(), O_RDWR);
    struct flock held = {};
    held.l_type = F_WRLCK;
    held.l_whence = SEEK_SET;
    _exit(fcntl(file, F_GETLK, &held) == 0 && held.l_pid == getppid() ? 0 : 1);
  });
  EXPECT_TRUE(other.Wait());
}

// Children are forked while another thread takes and releases locks all the time.
TEST_F(DeviceLockTest, ForksAtAnyTimeLeaveChildrenThatEnd) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's allocator may be locked in a child for ever";
#endif
  std::atomic<bool> done = false;
  std::thread busy([&] {
    for (int i = 0; !done; ++i) Acquire(kLong, std::to_string(i % 50).c_str());
  });
  for (int i = 0; i < 30; ++i) {
    Child child([&](const auto&) {
      Acquire(milliseconds(5), "7");
      _exit(0);
    });
    EXPECT_TRUE(child.Wait());
  }
  done = true;
  busy.join();
}

TEST_F(DeviceLockTest, WithoutAFolderThreadsStillTakeTurns) {
  const auto past = Clock::now() + kLong;
  const auto lock = DeviceLock::Acquire(folder_ + "/missing", kDevice, past);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(DeviceLock::Acquire(folder_ + "/missing", kDevice, Clock::now() + milliseconds(20)));
}

TEST_F(DeviceLockTest, ALinkInItsPlaceIsNotFollowed) {
  const std::string victim = folder_ + "/victim";
  ASSERT_EQ(symlink(victim.c_str(), Path().c_str()), 0);
  EXPECT_TRUE(Acquire(kLong));
  EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST_F(DeviceLockTest, OnlyItsOwnerMayOpenTheFile) {
  EXPECT_TRUE(Acquire(kLong));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    struct stat status;
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0u) << entry.path();
  }
}

}  // namespace
}  // namespace ucudnn::tuning
