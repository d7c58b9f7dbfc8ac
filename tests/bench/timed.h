// Times the work of a bench's iterations, and reports the times and the time that is allowed.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/bench/statistics.h"

namespace ucudnn::bench {

// Times `work`, which returns an error message, or an empty string if it succeeded. An error ends
// the benchmark. Reports the minimum and the median of the times in `unit`; a second has
// `units_a_second` of them. Also reports `allowed`, unless it is 0.
template <typename Work>
void Timed(benchmark::State& state, const std::string& unit, double units_a_second, double allowed,
           const Work& work) {
  std::vector<double> times;
  for (auto iteration : state) {
    const auto start = std::chrono::steady_clock::now();
    const std::string error = work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!error.empty()) return state.SkipWithError(error.c_str());
    times.push_back(elapsed.count() * units_a_second);
    state.SetIterationTime(elapsed.count());
  }
  state.counters["min_" + unit] = Minimum(times);
  state.counters["median_" + unit] = Median(times);
  if (allowed > 0) state.counters["allowed_" + unit] = allowed;
}
template <typename Work>
void TimedMs(benchmark::State& state, double allowed_ms, const Work& work) {
  Timed(state, "ms", 1e3, allowed_ms, work);
}
template <typename Work>
void TimedUs(benchmark::State& state, double allowed_us, const Work& work) {
  Timed(state, "us", 1e6, allowed_us, work);
}

inline void InNanoseconds(benchmark::internal::Benchmark* registered) {
  registered->UseManualTime()->Unit(benchmark::kNanosecond);
}

template <typename Call>
double Nanoseconds(int calls, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

struct LeastTimes {
  double direct_ns = 0, other_ns = 0;
};
// Calls `direct`, which calls a library directly, and `other` by turns. Both return the ns that
// they took. Reports how much longer `other` takes, and returns the least times.
template <typename Direct, typename Other>
LeastTimes OverDirect(benchmark::State& state, const Direct& direct, const Other& other) {
  std::vector<double> direct_ns, other_ns, over_ns;
  for (auto iteration : state) {
    direct_ns.push_back(direct());
    other_ns.push_back(other());
    over_ns.push_back(other_ns.back() - direct_ns.back());
    state.SetIterationTime(other_ns.back() * 1e-9);
  }
  const LeastTimes least = {Minimum(direct_ns), Minimum(other_ns)};
  state.counters["over_min_ns"] = least.other_ns - least.direct_ns;
  state.counters["over_median_ns"] = Median(over_ns);
  return least;
}

}  // namespace ucudnn::bench
