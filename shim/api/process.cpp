#include "api/process.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/log.h"
#include "base/options.h"
#include "cudnn/genuine_library.h"
#include "db/sqlite_store.h"

namespace ucudnn {
namespace {

pid_t owner = 0;

// Programs that leave by exit() get a last report with the final counts. A forked child has no part
// in its parent's calls and writes nothing.
void WriteLastReport() {
  if (getpid() != owner) return;
  try {
    ProcessInterposer()->WriteReport();
  } catch (...) {
  }
}

interposer::Interposer* MakeInterposer() {
  const Options& options = ProcessOptions();
  const cudnn::GenuineLibrary& genuine = cudnn::OpenGenuine(
      options.real_cudnn.c_str(), reinterpret_cast<const void*>(&MakeInterposer));
  if (!genuine.library) return nullptr;
  auto* functions = new cudnn::Functions;
  const Status loaded = cudnn::LoadFunctions(
      [&](const char* name) { return genuine.library->Symbol(name); }, *functions);
  if (!loaded.ok()) {
    WarnOnce("functions", loaded.message() + ": nothing is changed");
    return nullptr;
  }
  planning::MeasurementStore* store = nullptr;
  if (!options.databases.empty()) store = new db::SqliteStore(options.databases);
  return new interposer::Interposer(options, *functions, cuda::GetDriver(), store);
}

}  // namespace

interposer::Interposer* ProcessInterposer() {
  // No lock is held while joining, because a child forked meanwhile would wait for it for ever.
  // Threads that come at once all join one; the first stays.
  static std::atomic<interposer::Interposer*> joined = nullptr;
  static std::atomic<bool> impossible = false;
  if (interposer::Interposer* ours = joined.load(std::memory_order_acquire)) return ours;
  if (impossible) return nullptr;
  interposer::Interposer* const mine = MakeInterposer();
  if (mine == nullptr) {
    impossible = true;
    return nullptr;
  }
  interposer::Interposer* expected = nullptr;
  if (!joined.compare_exchange_strong(expected, mine, std::memory_order_acq_rel)) return expected;
  owner = getpid();
  if (!ProcessOptions().report.empty()) std::atexit(WriteLastReport);
  return mine;
}

}  // namespace ucudnn
