// Compares the batch-size policy auto with the policies all and powerOfTwo by replaying them on
// recorded tables. Prints how much slower auto's divisions are, and how many measurements auto
// makes. Nothing is timed here.
//
//   auto_policy_figures [--l2 SIZE] TABLE.csv [AGAIN.csv]
//
// AGAIN.csv is a second recording of the same kernels. Divisions that are found in the first table
// are also timed by the second. The fastest of many noisy times is fast partly by chance, and a
// second recording does not repeat this chance.
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "tests/unit/planning/measured_tables.h"

namespace ucudnn::planning {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kLimits[] = {0,         kMiB,       8 * kMiB,
                              64 * kMiB, 512 * kMiB, std::numeric_limits<size_t>::max()};

void Print(const char* title, const std::vector<KernelTable>& tables,
           const std::vector<KernelTable>& judges, size_t l2_bytes) {
  std::printf("%s\n%-9s %8s %9s %11s %11s %7s  %s\n", title, "limit", "kernels", "auto/all",
              "powers/all", "rows/powers", "worst", "kernel");
  for (const size_t limit : kLimits) {
    const Comparison sum = Compare(tables, judges, limit, l2_bytes);
    const std::string name =
        limit == std::numeric_limits<size_t>::max() ? "none" : FormatByteSize(limit);
    std::printf("%-9s %8d %9.4f %11.4f %11.2f %7.3f  %s\n", name.c_str(), sum.kernels,
                sum.auto_ms / sum.all_ms, sum.powers_ms / sum.all_ms,
                static_cast<double>(sum.auto_rows) / sum.powers_rows, sum.worst,
                sum.worst_kernel.c_str());
  }
}

int Main(std::vector<std::string> words) {
  size_t l2_bytes = 2 * kMiB;
  if (words.size() >= 2 && words[0] == "--l2") {
    const Result<size_t> size = ParseByteSize(words[1]);
    if (!size.ok()) {
      std::fprintf(stderr, "auto_policy_figures: %s\n", size.status().message().c_str());
      return 2;
    }
    l2_bytes = *size;
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.empty() || words.size() > 2) {
    std::fprintf(stderr, "usage: auto_policy_figures [--l2 SIZE] TABLE.csv [AGAIN.csv]\n");
    return 2;
  }
  std::vector<std::vector<KernelTable>> recordings;
  for (const std::string& path : words) {
    Result<std::vector<KernelTable>> tables = ReadKernelTables(path);
    if (!tables.ok()) {
      std::fprintf(stderr, "auto_policy_figures: %s\n", tables.status().message().c_str());
      return 1;
    }
    recordings.push_back(std::move(*tables));
  }
  Print("timed in the recording they were found in", recordings[0], recordings[0], l2_bytes);
  if (recordings.size() == 2) {
    std::printf("\n");
    Print("timed in the other recording", recordings[0], recordings[1], l2_bytes);
    std::printf("\nthe recordings are apart by %.1f %% (median over all rows)\n",
                100 * Noise(recordings[0], recordings[1]));
  }
  return 0;
}

}  // namespace
}  // namespace ucudnn::planning

int main(int argc, char** argv) { return ucudnn::planning::Main({argv + 1, argv + argc}); }
