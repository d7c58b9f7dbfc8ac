// The importers of networks on mutated files (import_check.h says what must be true), the same ones
// every time. Prints the command that shows a failure again.
//
//   import_fuzz [--seed N] [--count N] [--only INDEX [--output FILE]]
//
// A child process does the work, as what is looked for may end it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "import_check.h"
#include "mutate.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/networks.h"
#include "random.h"

namespace ucudnn::fuzz {
namespace {

constexpr unsigned kSecondsForOne = 120;

struct Seed {
  NetworkFormat format;
  std::string bytes;
};

struct Arguments {
  uint64_t seed = 1;
  long count = 3000;
  long only = -1;
  std::string output;
};

// Larger networks hold nothing that smaller ones lack, and take most of the time.
constexpr uintmax_t kLargestSeed = uintmax_t{64} << 10;

std::vector<Seed> ReadSeeds() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(IMPORT_FUZZ_DATA)) {
    if (entry.file_size() <= kLargestSeed) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Seed> seeds;
  for (const auto& path : files) {
    if (path.extension() != ".onnx" && path.extension() != ".prototxt") continue;
    std::ifstream file(path, std::ios::binary);
    seeds.push_back({path.extension() == ".onnx" ? NetworkFormat::kOnnx : NetworkFormat::kCaffe,
                     {std::istreambuf_iterator<char>(file), {}}});
  }
  for (const char* network : {"alexnet-caffe", "unet", "resnet18", "efficientnet-b0"}) {
    seeds.push_back({NetworkFormat::kJson, planner::WriteNetJson(*planner::BuildNetwork(network))});
  }
  return seeds;
}

// File `index` of a run: a function of the seed and the index alone.
Seed Draw(const std::vector<Seed>& seeds, uint64_t seed, long index) {
  Random random(seed, {static_cast<uint64_t>(index)});
  const Seed& chosen = random.OneOf(seeds);
  const Seed& other = random.OneOf(seeds);
  const bool by_meaning = chosen.format == NetworkFormat::kOnnx && random.Chance(70);
  if (by_meaning) return {chosen.format, MutateOnnx(chosen.bytes, random)};
  return {chosen.format, Mutate(chosen.bytes, other.bytes, random)};
}

// What the child tells its parent, in memory they share: it may end at any point.
struct Progress {
  long current;
  long networks;
};

// True when all files were as they must be.
bool RunFiles(const Arguments& arguments, volatile Progress& progress) {
  const std::vector<Seed> seeds = ReadSeeds();
  for (const Seed& seed : seeds) {
    const ImportCheck check = CheckImport(seed.format, seed.bytes);
    if (!check.fault.empty() || !check.is_network) {
      std::printf("a file that is not mutated: %s\n", check.fault.c_str());
      return false;
    }
  }
  const long first = std::max(arguments.only, 0L);
  const long last = arguments.only < 0 ? arguments.count : arguments.only + 1;
  for (long index = first; index < last; ++index) {
    progress.current = index;
    alarm(kSecondsForOne);
    const Seed file = Draw(seeds, arguments.seed, index);
    if (!arguments.output.empty()) std::ofstream(arguments.output, std::ios::binary) << file.bytes;
    const ImportCheck check = CheckImport(file.format, file.bytes);
    if (!check.fault.empty()) {
      std::printf("%s\n", check.fault.c_str());
      return false;
    }
    if (check.is_network) progress.networks = progress.networks + 1;
  }
  return true;
}

int Run(const Arguments& arguments) {
  auto* progress = static_cast<volatile Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    const bool good = RunFiles(arguments, *progress);
    std::fflush(stdout);
    std::exit(good ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::perror("import_fuzz");
    return 1;
  }
  if (status != 0) {
    std::printf("FAILED (%s %d): import_fuzz --seed %llu --only %ld --output FILE\n",
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                static_cast<unsigned long long>(arguments.seed), progress->current);
    return 1;
  }
  const long files = arguments.only < 0 ? arguments.count : 1;
  std::printf("%ld mutated files: %ld networks, %ld refused in a line\n", files, progress->networks,
              files - progress->networks);
  return 0;
}

}  // namespace
}  // namespace ucudnn::fuzz

int main(int argc, char** argv) {
  ucudnn::fuzz::Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") arguments.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--count") arguments.count = std::strtol(argv[i + 1], nullptr, 10);
    if (name == "--only") arguments.only = std::strtol(argv[i + 1], nullptr, 10);
    if (name == "--output") arguments.output = argv[i + 1];
  }
  return ucudnn::fuzz::Run(arguments);
}
