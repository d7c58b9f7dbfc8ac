#include "interposer/process.h"

#include "base/log.h"

namespace ucudnn::interposer {
namespace {

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
      legacy_tuner(options, functions, kernels, rules, reporter),
      limit(options, driver),
      reporter(options, kernels, hosts_share_store),
      budgets(options, driver, followed_plan, rules, kernels, reporter),
      sessions(options, functions, driver, kernels, reporter.report(), budgets, splitter),
      splitter(options, functions, driver, limit),
      rules(options, followed_plan, limit, splitter, reporter) {
  reporter.SetFigures([this](Report& report) {
    budgets.NoteAll();
    splitter.Note(report);
  });
}

void Process::TellMeasured() {
  const long measured = kernels.measured_kernels();
  const bool stored = measured > 0 && !kernels.keeps_own();
  measuring.Close(measured, stored ? kernels.store()->Place() : "");
}

}  // namespace ucudnn::interposer
