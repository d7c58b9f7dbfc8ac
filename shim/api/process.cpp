#include "api/process.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "cudnn/real_library.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"
#include "options/options.h"

namespace ucudnn {
namespace {

pid_t owner = 0;
std::atomic<bool> options_fixed = false;

// True once the real library has been looked for, which happens only once.
std::atomic<bool> real_open = false;
const cudnn::RealLibrary& Real() {
  real_open = true;
  return cudnn::OpenReal(ProcessOptions().real_cudnn.c_str(), reinterpret_cast<const void*>(&Real));
}

// Names of layers that were given before the interposer was made; null once the report has them.
constinit Mutex early_mutex;
interposer::LayerNames* early_names UCUDNN_GUARDED_BY(early_mutex) = nullptr;

// Runs at exit(): leaves the group of ranks, writes the last report with the final counts, and
// prints a line about measurements. A forked child does none of this, because the calls were its
// parent's.
void TellAtExit() {
  if (getpid() != owner) return;
  try {
    interposer::Interposer& interposer = *ProcessInterposer();
    interposer.splitter().Leave();
    interposer.reporter().Write();
    interposer.TellMeasured();
  } catch (...) {
  }
}

// The interposer and the objects to which it refers.
struct Parts {
  cudnn::Functions functions;
  std::unique_ptr<db::SqliteStore> store;
  std::unique_ptr<interposer::Interposer> interposer;
};

// Returns false, with a warning, if there is no real library or if it lacks a function.
bool Load(cudnn::Functions& functions) {
  const cudnn::RealLibrary& real = Real();
  if (!real.library) return false;
  const Status loaded =
      cudnn::LoadFunctions([&](const char* name) { return real.library->Symbol(name); }, functions);
  if (!loaded.ok()) WarnOnce("functions", loaded.message() + ": nothing is changed");
  return loaded.ok();
}

// The parts in use; never destroyed. If several threads make parts at once, the first thread to
// store them here wins.
std::atomic<Parts*> joined = nullptr;

// Makes the parts; returns null if the real library's functions cannot be loaded.
std::unique_ptr<Parts> Join() {
  const Options& options = FixedOptions();
  auto parts = std::make_unique<Parts>();
  if (!Load(parts->functions)) return nullptr;
  const db::StoreChoice choice = db::ChooseStores(options.stores);
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
  // No lock is held during Join(), because a child that is forked meanwhile would wait for the lock
  // for ever.
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
  std::atexit(TellAtExit);
  interposer::Interposer* const interposer = mine.release()->interposer.get();
  MutexLock lock(early_mutex);
  if (early_names != nullptr) {
    interposer->report().NameLayers(std::move(*early_names));
    delete early_names;
    early_names = nullptr;
  }
  return interposer;
}

const cudnn::Functions* RealFunctions() {
  static std::atomic<const cudnn::Functions*> loaded = nullptr;
  if (const Parts* parts = joined.load(std::memory_order_acquire)) return &parts->functions;
  if (const cudnn::Functions* functions = loaded.load(std::memory_order_acquire)) return functions;
  auto mine = std::make_unique<cudnn::Functions>();
  if (!Load(*mine)) return nullptr;
  const cudnn::Functions* expected = nullptr;
  return loaded.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)
             ? mine.release()
             : expected;
}

bool RealIsOpen() { return real_open; }

bool NameLayer(const ConvolutionProblem& problem, const std::string& name) {
  MutexLock lock(early_mutex);
  if (const Parts* parts = joined.load(std::memory_order_acquire)) {
    return parts->interposer->report().NameLayer(problem, name);
  }
  if (early_names == nullptr) early_names = new interposer::LayerNames;
  return early_names->Add(problem, name);
}

}  // namespace ucudnn
