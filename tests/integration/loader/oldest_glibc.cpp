// Tests a program that is linked for an old glibc. Constructors and destructors must run once each
// and in order, stat must describe files correctly, setenv and `environ` must share one
// environment, and condition variables must wake up when notified or at their time-out.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace {

int constructors = 0;

struct First {
  First() { constructors = constructors * 10 + 1; }
  ~First() { std::puts("destructors"); }
} first;

[[gnu::constructor(200)]] void BeforeFirst() { constructors += 1; }

void PrintState(const std::filesystem::path& folder, const char* name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = folder / name;
  const bool is_folder = fs::is_directory(path, error);
  const auto size = is_folder ? 0 : fs::file_size(path, error);
  const std::string state = error ? error.message() : "size " + std::to_string(size);
  std::printf("%s: %s, link %d, folder %d\n", name, state.c_str(), fs::is_symlink(path, error),
              is_folder);
}

bool WaitsRight() {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool word = false;
  std::unique_lock lock(mutex);
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(30);
  if (changed.wait_until(lock, until, [&] { return word; }) || Clock::now() < until) return false;
  std::thread speaker([&] {
    const std::lock_guard guard(mutex);
    word = true;
    changed.notify_one();
  });
  const bool heard = changed.wait_for(lock, std::chrono::minutes(2), [&] { return word; });
  lock.unlock();
  speaker.join();
  return heard;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // BeforeFirst has a priority, so it runs first: 0 + 1 = 1. Then First makes 1 * 10 + 1 = 11. Any
  // other order or number of runs gives another value.
  std::printf("constructors %d\n", constructors == 11 ? 2 : -constructors);
  for (const char* name : {"file", "link", "dangling", "."}) PrintState(argv[1], name);
  const int file = open((std::string(argv[1]) + "/file").c_str(), O_RDONLY | O_CLOEXEC);
  struct stat state;
  if (fstat(file, &state) == 0) std::printf("open file: size %ld\n", long{state.st_size});
  close(file);
  setenv("OLDEST_GLIBC", "set", 1);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "OLDEST_GLIBC=", 13) == 0)
      std::printf("environment %s\n", *entry + 13);
  }
  if (WaitsRight()) std::puts("waited until the time, then for the word");
  return 0;
}
