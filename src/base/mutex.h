// Mutexes whose use clang checks (-Wthread-safety). A member names the mutex that guards it, and a
// function names the mutexes that its callers hold. Other compilers see plain mutexes. In a lambda,
// clang does not know the locks of the function around it. So a lambda that is called under a lock
// begins with AssertHeld.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define UCUDNN_THREAD_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define UCUDNN_THREAD_ATTRIBUTE(...)
#endif

#define UCUDNN_GUARDED_BY(mutex) UCUDNN_THREAD_ATTRIBUTE(guarded_by(mutex))
#define UCUDNN_REQUIRES(...) UCUDNN_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))

namespace ucudnn {

class UCUDNN_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() UCUDNN_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() UCUDNN_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  bool TryLock() UCUDNN_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }
  // Tells the compiler that the calling thread holds this mutex. Nothing is checked at run time.
  void AssertHeld() const UCUDNN_THREAD_ATTRIBUTE(assert_capability(this)) {}

 private:
  friend class Condition;
  std::mutex mutex_;
};

class UCUDNN_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  enum Adopt { kAdopt };

  explicit MutexLock(Mutex& mutex) UCUDNN_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  // Takes over a mutex that the calling thread has locked; the destructor unlocks it.
  MutexLock(Mutex& mutex, Adopt) UCUDNN_REQUIRES(mutex) : mutex_(mutex) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() UCUDNN_THREAD_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }

 private:
  Mutex& mutex_;
};

// A condition variable. Threads call Wait in a loop that tests what they wait for.
class Condition {
 public:
  void Wait(Mutex& mutex) UCUDNN_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // Returns false if `deadline` has passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      UCUDNN_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace ucudnn
