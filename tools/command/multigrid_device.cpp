#include "command/multigrid_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "base/shared_library.h"
#include "base/text.h"
#include "command/multigrid_words.h"
#include "command/stand_ins.h"
#include "cuda/driver.h"
#include "cudnn/real_library.h"

namespace ucudnn::command {
namespace {

// The value of that name, or none: `by_itself`.
template <typename T, size_t N>
Result<std::optional<T>> ParseOne(const std::string& option, const std::string& text,
                                  const char* by_itself, const T (&values)[N]) {
  std::vector<std::string> names = {by_itself};
  if (text == by_itself) return std::optional<T>();
  for (const T value : values) {
    if (text == NameOf(value)) return std::optional<T>(value);
    names.emplace_back(NameOf(value));
  }
  return Status::Error(option + " " + Quoted(text) + ": expected one of " + Join(names, ", "));
}

// The devices of ranks with these numbers on this machine, in turn where there are fewer.
BenchmarkDevices DevicesOf(const MultigridRanks& ranks) {
  const cuda::Driver* const driver = cuda::GetDriver();
  int count = 0;
  if (driver == nullptr || driver->cuInit(0) != CUDA_SUCCESS ||
      driver->cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 1) {
    return BenchmarkDevices();  // who opens them says why
  }
  BenchmarkDevices wanted;
  if (ranks.are_processes()) {
    wanted.ordinals = {ranks.local_rank() % count};
  } else {
    for (int rank = 0; rank < std::min(ranks.all(), count); ++rank) {
      wanted.ordinals.push_back(rank);
    }
  }
  return wanted;
}

}  // namespace

// Of the ucudnn in this process, if there is one, and of the real library what that does not have.
Status MultigridDevice::FindFunctions() {
  const Result<SharedLibrary> ours = SharedLibrary::Loaded("libucudnn.so.1");
  goes_through_ucudnn_ = ours.ok();
  if (!ours.ok()) {
    functions_ = devices_.functions();
    return Status::Ok();
  }
  const cudnn::RealLibrary& real = cudnn::OpenReal(ProcessOptions().real_cudnn.c_str(), nullptr);
  return cudnn::LoadFunctions(
      [&](const char* name) {
        void* const symbol = ours->Symbol(name);
        return symbol != nullptr ? symbol : real.library->Symbol(name);
      },
      functions_);
}

Result<std::shared_ptr<MultigridDevice>> MultigridDevice::Open(const MultigridWords& words,
                                                               const MultigridRanks& ranks) {
  UCUDNN_ASSIGN_OR_RETURN(const auto way, ParseOne("--way", words.way, "auto", multigrid::kWays));
  UCUDNN_ASSIGN_OR_RETURN(const auto launch,
                          ParseOne("--launch", words.launch, "auto", multigrid::kLaunches));
  if (words.timeline) UCUDNN_RETURN_IF_ERROR(multigrid::CheckTimeline(way, launch));
  constexpr int kMostStreams = 1024;
  UCUDNN_ASSIGN_OR_RETURN(const int streams,
                          ParseWhole("--streams", words.streams, 1, kMostStreams));
  const Result<size_t> limit = ParseByteSize(words.workspace_limit);
  if (!limit.ok()) {
    return Status::Error("--workspace-limit " + Quoted(words.workspace_limit) +
                         ": expected bytes, as in 64MiB");
  }
  const Result<const multigrid::Precision*> precision = multigrid::ParsePrecision(words.precision);
  if (!precision.ok()) return Status::Error("--precision " + precision.message());
  auto device = std::make_shared<MultigridDevice>();
  device->precision_ = *precision;
  device->is_stand_in_ = words.host;
  if (words.host) UCUDNN_RETURN_IF_ERROR(UseStandIns());
  std::vector<std::string> refused;
  if (Status opened = device->devices_.Open(ProcessOptions(), DevicesOf(ranks), refused);
      !opened.ok()) {
    return Status::Error("--backend cudnn: " + opened.message());
  }
  UCUDNN_RETURN_IF_ERROR(device->FindFunctions());
  const SpatialOptions& job = ProcessOptions().spatial;
  multigrid::DeviceSetting setting = {
      .way = way, .launch = launch, .lanes = streams, .workspace_limit = *limit};
  setting.transport.wanted = transport::WantedOf(job.transport);
  setting.transport.timeout = std::chrono::milliseconds(std::lround(job.timeout_seconds * 1e3));
  setting.transport.cudnn_file =
      FileOf(reinterpret_cast<const void*>(device->devices_.functions().cudnnCreate));
  device->first_rank_ = ranks.first_here();
  for (int i = 0; i < ranks.here(); ++i) {
    const auto& held = device->devices_.devices();
    const multigrid::DeviceTarget target = {cuda::GetDriver(), &device->functions_,
                                            held[i % held.size()]->device().context, *precision};
    device->solvers_.push_back(std::make_unique<multigrid::DeviceSolvers>(target, setting));
  }
  return device;
}

std::string MultigridDevice::DeviceText() const {
  return std::string(precision_->text) + " on " +
         (is_stand_in_ ? std::string("the CPU stand-in")
                       : devices_.first().device().platform.device) +
         (goes_through_ucudnn_ ? " through ucudnn" : "");
}

std::string MultigridDevice::Text(const MultigridRanks& ranks) const {
  const std::string& transport = solvers_.front()->transport();
  const multigrid::DeviceSolvers::Choice& chosen = solvers_.front()->chosen();
  std::string text = DeviceText();
  if (ranks.all() > 1) text += ", " + ranks.Text();
  if (chosen.levels > 1) text += std::string(", blocks run: ") + NameOf(chosen.way);
  if (chosen.launch == multigrid::Launch::kGraph) text += ", cycles as graphs";
  return text + (transport.empty() ? "" : ", states go by " + transport);
}

}  // namespace ucudnn::command
