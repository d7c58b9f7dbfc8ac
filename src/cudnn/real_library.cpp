#include "cudnn/real_library.h"

#include <atomic>
#include <memory>

#include "base/log.h"

namespace ucudnn::cudnn {
namespace {

void Report(const RealSearch& search) {
  for (const std::string& ignored : search.ignored) {
    WarnOnce("UCUDNN_REAL_CUDNN", "UCUDNN_REAL_CUDNN is ignored: " + ignored);
  }
  if (!search.path.empty()) {
    Log(LogLevel::kDebug, "the real cuDNN is " + search.path);
    return;
  }
  std::string tried;
  for (const std::string& place : search.tried) tried += (tried.empty() ? "" : "; ") + place;
  if (tried.empty()) tried = "no folder the loader searches";
  WarnOnce("no real cuDNN",
           "no real cuDNN 9 was found, so cuDNN functions return CUDNN_STATUS_NOT_INITIALIZED; "
           "set UCUDNN_REAL_CUDNN to the path of its libcudnn.so.9. Tried: " +
               tried);
}

}  // namespace

const RealLibrary& OpenReal(const char* configured, const void* self) {
  // No lock is held during the search, because a child that is forked during the search would wait
  // for the lock forever. Threads that search at the same time find the same library; the first
  // result is kept.
  static std::atomic<const RealLibrary*> opened = nullptr;
  if (const RealLibrary* real = opened.load(std::memory_order_acquire)) return *real;
  auto mine = std::make_unique<RealLibrary>();
  mine->search = FindReal(configured, self, [&](const std::string& path) -> Status {
    Result<SharedLibrary> library = SharedLibrary::Open(path);
    if (!library.ok()) return library.status();
    mine->library = *library;
    return Status::Ok();
  });
  Report(mine->search);
  const RealLibrary* expected = nullptr;
  if (opened.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)) {
    return *mine.release();
  }
  return *expected;
}

}  // namespace ucudnn::cudnn
