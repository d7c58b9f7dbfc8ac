#include "api/process.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "base/options.h"
#include "cudnn/genuine_library.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"

namespace ucudnn {
namespace {

pid_t owner = 0;
std::atomic<bool> options_fixed = false;

// Programs that leave by exit() get a last report with the final counts. A forked child has no part
// in its parent's calls and writes nothing.
void WriteLastReport() {
  if (getpid() != owner) return;
  try {
    ProcessInterposer()->WriteReport();
  } catch (...) {
  }
}

// The interposer and what it refers to.
struct Parts {
  cudnn::Functions functions;
  std::unique_ptr<db::SqliteStore> store;
  std::unique_ptr<interposer::Interposer> interposer;
};

// Null when the genuine library lacks something.
std::unique_ptr<Parts> Join() {
  const Options& options = FixedOptions();
  const cudnn::GenuineLibrary& genuine = cudnn::OpenGenuine(
      options.real_cudnn.c_str(), reinterpret_cast<const void*>(&WriteLastReport));
  if (!genuine.library) return nullptr;
  auto parts = std::make_unique<Parts>();
  const Status loaded = cudnn::LoadFunctions(
      [&](const char* name) { return genuine.library->Symbol(name); }, parts->functions);
  if (!loaded.ok()) {
    WarnOnce("functions", loaded.message() + ": nothing is changed");
    return nullptr;
  }
  const db::StoreChoice choice = db::ChooseStores(options.databases);
  if (!choice.paths.empty()) {
    parts->store = std::make_unique<db::SqliteStore>(choice.paths, choice.written);
  }
  parts->interposer = std::make_unique<interposer::Interposer>(
      options, parts->functions, cuda::GetDriver(), parts->store.get(), choice.network == nullptr);
  return parts;
}

}  // namespace

const Options& FixedOptions() {
  options_fixed = true;
  return ProcessOptions();
}

bool OptionsAreFixed() { return options_fixed; }

interposer::Interposer* ProcessInterposer() {
  // No lock is held while joining, because a child forked meanwhile would wait for it for ever.
  // Threads that come at once all join one; the first stays, and is never destroyed.
  static std::atomic<Parts*> joined = nullptr;
  static std::atomic<bool> impossible = false;
  if (Parts* parts = joined.load(std::memory_order_acquire)) return parts->interposer.get();
  if (impossible) return nullptr;
  std::unique_ptr<Parts> mine = Join();
  if (mine == nullptr) {
    impossible = true;
    return nullptr;
  }
  Parts* expected = nullptr;
  if (!joined.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)) {
    return expected->interposer.get();
  }
  owner = getpid();
  if (!FixedOptions().report.empty()) std::atexit(WriteLastReport);
  return mine.release()->interposer.get();
}

}  // namespace ucudnn
