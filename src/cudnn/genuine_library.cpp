#include "cudnn/genuine_library.h"

#include <atomic>
#include <memory>

#include "base/log.h"

namespace ucudnn::cudnn {
namespace {

void Report(const GenuineSearch& search) {
  for (const std::string& ignored : search.ignored) {
    WarnOnce("UCUDNN_REAL_CUDNN", "UCUDNN_REAL_CUDNN is ignored: " + ignored);
  }
  if (!search.path.empty()) {
    Log(LogLevel::kDebug, "the genuine cuDNN is " + search.path);
    return;
  }
  std::string tried;
  for (const std::string& place : search.tried) tried += (tried.empty() ? "" : "; ") + place;
  if (tried.empty()) tried = "no folder the loader searches";
  WarnOnce("no genuine cuDNN",
           "no genuine cuDNN 9 was found, so cuDNN functions return CUDNN_STATUS_NOT_INITIALIZED; "
           "set UCUDNN_REAL_CUDNN to the path of its libcudnn.so.9. Tried: " +
               tried);
}

}  // namespace

const GenuineLibrary& OpenGenuine(const char* configured, const void* self) {
  // No lock is held while searching, because a child forked meanwhile would wait for it for ever.
  // Threads that come at once all search and find the same; the first result stays.
  static std::atomic<const GenuineLibrary*> opened = nullptr;
  if (const GenuineLibrary* genuine = opened.load(std::memory_order_acquire)) return *genuine;
  auto mine = std::make_unique<GenuineLibrary>();
  mine->search = FindGenuine(configured, self, [&](const std::string& path) -> Status {
    Result<SharedLibrary> library = SharedLibrary::Open(path);
    if (!library.ok()) return library.status();
    mine->library = *library;
    return Status::Ok();
  });
  Report(mine->search);
  const GenuineLibrary* expected = nullptr;
  if (opened.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)) {
    return *mine.release();
  }
  return *expected;
}

}  // namespace ucudnn::cudnn
