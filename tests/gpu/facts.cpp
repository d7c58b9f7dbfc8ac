// Prints facts about a device and its cuDNN that are needed to develop without a GPU, as lines of
// JSON (facts.h). facts.py starts this program.
//
//   facts COMMAND [--tiny] [--seconds S] [--first CASE] [--profile FILE.json]
//
// COMMAND is one of these:
//
// plans      prints the engines, knobs, notes and workspaces that heuristics give for 60 graphs
//
// legacy     prints what cudnnGetConvolution…Algorithm_v7 and …WorkspaceSize answer for the layers
//            of the built-in networks
//
// kernels    prints the kernels of plans, read from captures; a plan runs before its capture only
//            if it cannot be captured otherwise
//
// launches   times the first ten launches of 20 plans in a new process
//
// sweep      times a batch in pieces of 1, 2, 4, … images: the same images each time (hot), and
//            different ones in turn (cold)
//
// tiles      times convolutions of large images, undivided and in parts, which are views or packed
//            copies
//
// repeat     times one kernel 50 times
//
// copy       times copies within device memory
//
// With --profile, the commands plans and tiles make plans for the device that FILE.json describes,
// and need no device. --tiny makes sizes small enough for a CPU.
//
// The exit code is 2 for bad usage, and 77 if there is no device. It is 3 if an error remains in
// the device's context after a case, so that another process must run the next cases (--first). It
// is 1 for other errors outside of cases.
#include "facts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

using namespace ucudnn::facts;  // NOLINT: a short program

constexpr struct {
  const char* name;
  void (*run)(const Options&);
} kCommands[] = {{"plans", Plans}, {"legacy", Legacy}, {"kernels", Kernels}, {"launches", Launches},
                 {"sweep", Sweep}, {"tiles", Tiles},   {"repeat", Repeat},   {"copy", Copy}};
constexpr int kUsage = 2, kNoDevice = 77;

bool Read(int argc, char** argv, Options& options) {
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--tiny") {
      options.tiny = true;
      continue;
    }
    if (++i == argc) return false;
    if (word == "--seconds") {
      options.seconds = std::atof(argv[i]);
    } else if (word == "--first") {
      options.first = std::atoi(argv[i]);
    } else if (word == "--profile") {
      options.profile = argv[i];
    } else {
      return false;
    }
  }
  return argc > 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto* command = std::end(kCommands);
  if (Read(argc, argv, options)) {
    command = std::find_if(std::begin(kCommands), std::end(kCommands),
                           [&](const auto& each) { return std::strcmp(each.name, argv[1]) == 0; });
  }
  if (command == std::end(kCommands)) {
    std::fprintf(stderr,
                 "usage: facts plans|legacy|kernels|launches|sweep|tiles|repeat|copy [--tiny] "
                 "[--seconds S] [--first CASE] [--profile FILE.json]\n");
    return kUsage;
  }
  int devices = 0;
  if (options.profile.empty() && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    std::fprintf(stderr, "facts: no NVIDIA GPU\n");
    return kNoDevice;
  }
  try {
    command->run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "facts %s: %s\n", command->name, failure.what());
    return 1;
  }
  return 0;
}
