// Runs the importers of networks, or the readers of data, on mutated files; import_check.h says
// what they must do. The same seed gives the same files. Prints the command that shows a failure
// again.
//
//   import_fuzz [--of networks|data] [--seed N] [--count N] [--only INDEX [--output FILE]]
//
// A child process does the work, because a fault of an importer may end it.
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
#include <map>
#include <string>
#include <vector>

#include "import_check.h"
#include "mutate.h"
#include "mutate_data.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/networks.h"
#include "random.h"

namespace ucudnn::fuzz {
namespace {

constexpr unsigned kSecondsForOne = 120;

struct Seed {
  FileFormat format;
  std::string bytes;
};

struct Arguments {
  std::string of = "networks";
  uint64_t seed = 1;
  long count = 3000;
  long only = -1;
  std::string output;
};

// Larger networks have no operators that smaller ones lack, and would take most of the time.
constexpr uintmax_t kLargestSeed = uintmax_t{64} << 10;

// Reads the files of `folder` that have an ending in `formats`, in the order of their names.
std::vector<Seed> ReadSeeds(const char* folder, const std::map<std::string, FileFormat>& formats) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.file_size() <= kLargestSeed) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Seed> seeds;
  for (const auto& path : files) {
    const auto format = formats.find(path.extension());
    if (format == formats.end()) continue;
    std::ifstream file(path, std::ios::binary);
    seeds.push_back({format->second, {std::istreambuf_iterator<char>(file), {}}});
  }
  return seeds;
}

std::vector<Seed> NetworkSeeds() {
  std::vector<Seed> seeds = ReadSeeds(
      IMPORT_FUZZ_NETWORKS, {{".onnx", FileFormat::kOnnx}, {".prototxt", FileFormat::kCaffe}});
  for (const char* network : {"alexnet-caffe", "unet", "resnet18", "efficientnet-b0"}) {
    seeds.push_back({FileFormat::kJson, planner::WriteNetJson(*planner::BuildNetwork(network))});
  }
  return seeds;
}

std::vector<Seed> DataSeeds() {
  std::vector<Seed> seeds =
      ReadSeeds(IMPORT_FUZZ_ARRAYS, {{".safetensors", FileFormat::kSafetensors}});
  std::string images("\0\0\x8\x3\0\0\0\5\0\0\0\x8\0\0\0\x6", 16);
  for (int pixel = 0; pixel < 5 * 8 * 6; ++pixel) images += static_cast<char>(pixel);
  std::string labels("\0\0\x8\1\0\0\0\x14", 8);
  for (int label = 0; label < 20; ++label) labels += static_cast<char>(label % 10);
  const size_t arrays = seeds.size();
  while (seeds.size() < 2 * arrays) {  // half of all seeds are arrays
    seeds.push_back({FileFormat::kImages, images});
    seeds.push_back({FileFormat::kLabels, labels});
  }
  return seeds;
}

// Returns file `index` of a run, which depends only on the seed and the index.
Seed Draw(const std::vector<Seed>& seeds, uint64_t seed, long index) {
  Random random(seed, {static_cast<uint64_t>(index)});
  const Seed& chosen = random.OneOf(seeds);
  const Seed& other = random.OneOf(seeds);
  if (chosen.format == FileFormat::kSafetensors) {
    return {chosen.format, MutateSafetensors(chosen.bytes, random)};
  }
  if (chosen.format == FileFormat::kImages || chosen.format == FileFormat::kLabels) {
    return {chosen.format, MutateIdx(chosen.bytes, random)};
  }
  const bool by_meaning = chosen.format == FileFormat::kOnnx && random.Chance(70);
  if (by_meaning) return {chosen.format, MutateOnnx(chosen.bytes, random)};
  return {chosen.format, Mutate(chosen.bytes, other.bytes, random)};
}

// The child may end at any point. So it writes its progress to memory that it shares with its
// parent.
struct Progress {
  long current;
  long read;
};

// Returns whether all files were handled without a fault.
bool RunFiles(const Arguments& arguments, volatile Progress& progress) {
  const std::vector<Seed> seeds = arguments.of == "data" ? DataSeeds() : NetworkSeeds();
  for (const Seed& seed : seeds) {
    const ImportCheck check = CheckImport(seed.format, seed.bytes);
    if (!check.fault.empty() || !check.is_read) {
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
    if (check.is_read) progress.read = progress.read + 1;
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
    std::printf("FAILED (%s %d): import_fuzz --of %s --seed %llu --only %ld --output FILE\n",
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), arguments.of.c_str(),
                static_cast<unsigned long long>(arguments.seed), progress->current);
    return 1;
  }
  const long files = arguments.only < 0 ? arguments.count : 1;
  std::printf("%ld mutated files of %s: %ld read, %ld refused in a line\n", files,
              arguments.of.c_str(), progress->read, files - progress->read);
  return 0;
}

}  // namespace
}  // namespace ucudnn::fuzz

int main(int argc, char** argv) {
  ucudnn::fuzz::Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--of") arguments.of = argv[i + 1];
    if (name == "--seed") arguments.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--count") arguments.count = std::strtol(argv[i + 1], nullptr, 10);
    if (name == "--only") arguments.only = std::strtol(argv[i + 1], nullptr, 10);
    if (name == "--output") arguments.output = argv[i + 1];
  }
  return ucudnn::fuzz::Run(arguments);
}
