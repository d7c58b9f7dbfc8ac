// Fault injection and counts of occurrences for all stand-ins.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "shim/host/cuda/driver_api.h"
#include "shim/host/leaked.h"

namespace {

struct Site {
  long count = 0;
  long fail_at = 0;
};

struct Faults {
  std::mutex mutex;
  std::map<std::string, Site, std::less<>> sites;

  Faults() {
    const char* text = std::getenv("HOSTGPU_FAULT");
    if (!text || !*text) return;
    const std::string value = text;
    const size_t colon = value.find(':');
    const long kth = colon == std::string::npos ? 0 : std::atol(value.c_str() + colon + 1);
    if (colon == 0 || kth <= 0) {
      std::fprintf(stderr,
                   "hostgpu: HOSTGPU_FAULT=%s is not site:k with k from 1; no fault is injected\n",
                   text);
      return;
    }
    sites[value.substr(0, colon)].fail_at = kth;
  }
};

// Never destroyed: other threads may still count while the process exits.
Faults& TheFaults() { return hostgpu::Leaked<Faults>(); }

}  // namespace

void hostgpuInjectFault(const char* site, long kth) {
  Faults& faults = TheFaults();
  std::lock_guard lock(faults.mutex);
  faults.sites[site] = {0, kth};
}

long hostgpuFaultCount(const char* site) {
  Faults& faults = TheFaults();
  std::lock_guard lock(faults.mutex);
  const auto found = faults.sites.find(site);
  return found == faults.sites.end() ? 0 : found->second.count;
}

int hostgpuFaultDue(const char* site) {
  Faults& faults = TheFaults();
  std::lock_guard lock(faults.mutex);
  auto found = faults.sites.find(site);
  if (found == faults.sites.end()) found = faults.sites.emplace(site, Site{}).first;
  return ++found->second.count == found->second.fail_at;
}
