#include "interposer/interposer.h"

#include "base/log.h"

namespace ucudnn::interposer {
namespace {

// Returns the devices that help to measure. In a job there are none, because another device may
// belong to another rank: measuring would disturb that rank, and its work would distort the
// measurements.
BenchmarkDevices HelpersOf(const Options& options) {
  if (!options.benchmark_devices.parallel() || options.rank < 0) return options.benchmark_devices;
  WarnOnce("benchmark devices", "UCUDNN_BENCHMARK_DEVICES is ignored in rank " +
                                    std::to_string(options.rank) +
                                    " of a job: the other devices are its other ranks'");
  return {};
}

}  // namespace

Interposer::Interposer(const Options& options, const cudnn::Functions& functions,
                       const cuda::Driver* driver, planning::MeasurementStore* store,
                       bool hosts_share_store)
    : functions_(functions),
      measuring_(StderrLine(), MeasuringLineUseOf(options)),
      kernels_(store, options.tuning, options.lock_folder, HelpersOf(options), measuring_),
      followed_plan_(options, functions),
      legacy_tuner_(options, functions, kernels_, rules_, reporter_),
      limit_(options, driver),
      reporter_(options, kernels_, hosts_share_store),
      budgets_(options, followed_plan_, rules_, kernels_, reporter_),
      sessions_(functions, options.mode == Mode::kOff ? nullptr : driver, kernels_,
                reporter_.report(), budgets_, splitter_),
      splitter_(options, functions, driver, limit_),
      rules_(options, followed_plan_, limit_, splitter_, reporter_),
      legacy_(split_context(), budgets_, limit_, promises_, rules_, legacy_tuner_),
      graph_(split_context(), budgets_, kernels_, rules_) {
  budgets_.SetChoices(legacy_, graph_);
  reporter_.SetFigures([this](Report& report) {
    budgets_.NoteAll();
    splitter_.Note(report);
  });
}

void Interposer::TellMeasured() {
  const long measured = kernels_.measured_kernels();
  const bool stored = measured > 0 && !kernels_.keeps_own();
  measuring_.Close(measured, stored ? kernels_.store()->Place() : "");
}

}  // namespace ucudnn::interposer
