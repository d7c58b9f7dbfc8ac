// Prints facts about a device and its cuDNN that development without a GPU needs, one line of JSON
// for each case (facts.h). facts.py starts it.
//
//   facts COMMAND [--tiny] [--seconds S] [--first CASE] [--profile FILE.json]
//
// plans      which engines, knobs, notes and workspaces the heuristics give for 60 graphs
//
// legacy     what cudnnGetConvolution…Algorithm_v7 and …WorkspaceSize say of the built-in networks
//
// kernels    the kernels of plans, from captures; nothing runs
//
// launches   the first ten launches of 20 plans in a new process
//
// sweep      a batch in pieces of 1, 2, 4, … images, hot on the same ones and cold on others
//
// tiles      one large image whole and in parts that are views of it
//
// repeat     one kernel 50 times
//
// copy       copies from device memory to device memory
//
// With --profile, plans and tiles say what holds for the described device, and no device is needed.
//
// The exit code is 2 for bad usage, 3 if the device is broken after a case, so that another process
// must run the next ones (--first), and 77 if there is no device.
#include "facts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

using namespace ucudnn::facts;  // NOLINT: a program of one page

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
