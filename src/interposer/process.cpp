#include "interposer/process.h"

#include "base/log.h"

namespace ucudnn::interposer {
namespace {

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kOn:
      return "on";
    case Mode::kObserve:
      return "observe";
    case Mode::kOff:
      return "off";
  }
  return "";
}

// Returns the devices that help to measure. In a job there are none: another device may belong to
// another rank, which measuring would disturb and whose work would distort the measurements.
BenchmarkDevices HelpersOf(const Options& options) {
  if (!options.benchmark_devices.parallel() || options.rank < 0) return options.benchmark_devices;
  WarnOnce("benchmark devices", "UCUDNN_BENCHMARK_DEVICES is ignored in rank " +
                                    std::to_string(options.rank) +
                                    " of a job: the other devices are its other ranks'");
  return {};
}

}  // namespace

Process::Process(const Options& options, const cudnn::Functions& functions,
                 const cuda::Driver* driver, planning::MeasurementStore* store,
                 bool hosts_share_store)
    : options(options),
      functions(functions),
      driver(driver),
      measuring(StderrLine(), MeasuringLineUseOf(options)),
      kernels(store, options.tuning, options.lock_folder, HelpersOf(options), measuring),
      followed_plan(options, functions),
      engines(functions, options, kernels),
      limit(options, driver),
      reporter(options, kernels, hosts_share_store),
      budgets(*this),
      sessions(*this),
      splitter(options, functions, driver, limit),
      rules(options, followed_plan, limit, splitter, reporter) {}

std::string Process::ReportText() {
  budgets.NoteAll();
  splitter.Note(reporter.report());
  return reporter.report().Json(ModeName(options.mode), kernels.measured());
}

void Process::WriteReport() {
  Report& report = reporter.report();
  if (options.report.empty() || report.empty()) return;
  budgets.NoteAll();
  splitter.Note(report);
  MutexLock lock(report_mutex_);
  const Status status = report.Write(options.report, ModeName(options.mode), kernels.measured());
  if (!status.ok()) WarnOnce("report", "the report cannot be written: " + status.message());
}

void Process::TellMeasured() {
  const long measured = kernels.measured_kernels();
  const bool stored = measured > 0 && !kernels.keeps_own();
  measuring.Close(measured, stored ? kernels.store()->Place() : "");
}

}  // namespace ucudnn::interposer
