// Finds, loads and calls NCCL as ucudnn does. There is one rank, since one GPU allows no more.
// Prints which NCCL it is, a line for each step, and how long opening took. If a step fails, the
// exit code is 1 and the reason is printed. Without an NCCL the exit code is 77.
//
//   nccl_smoke [CUDNN_FILE]      searches next to CUDNN_FILE, as for a program with that cuDNN
//   nccl_smoke --own NCCL_FILE   loads NCCL_FILE first, as a program that uses NCCL itself does
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "cuda/resources.h"
#include "transport/nccl_communicators.h"
#include "transport/nccl_functions.h"
#include "transport/opening.h"

namespace {

using ucudnn::Result;
using ucudnn::Status;
using ucudnn::cuda::DeviceBuffer;
using ucudnn::cuda::Driver;
using ucudnn::cuda::DriverStatus;
using ucudnn::transport::Channel;
using ucudnn::transport::ChannelSetup;
using ucudnn::transport::Element;
using ucudnn::transport::Message;
using ucudnn::transport::nccl::Communicators;
using ucudnn::transport::nccl::Functions;

constexpr int kFailed = 1, kSkipped = 77;
constexpr size_t kNumbers = 1000;

// The Gatherer of a group with one rank.
struct Alone : ucudnn::transport::Gatherer {
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
    return std::vector<std::string>{std::string(mine)};
  }
};

// Device memory, and a stream on which all work is enqueued.
class Device {
 public:
  explicit Device(const Driver& driver)
      : driver_(driver), stream_(driver), pool_(driver), memory_(pool_, driver) {}

  Status Create(size_t bytes) {
    UCUDNN_RETURN_IF_ERROR(stream_.Create());
    return memory_.Reserve(bytes);
  }
  CUstream stream() const { return stream_.get(); }
  CUdeviceptr at(size_t offset) const { return memory_.address() + offset; }

  Status Upload(CUdeviceptr to, const void* from, size_t bytes) {
    return DriverStatus(driver_, driver_.cuMemcpyHtoDAsync(to, from, bytes, stream()), "uploading");
  }
  Status Fill(CUdeviceptr to, size_t bytes) {
    return DriverStatus(driver_, driver_.cuMemsetD8Async(to, 0xff, bytes, stream()), "filling");
  }
  // Waits for the stream, and compares the `bytes` bytes at `from` with the bytes at `wanted`.
  Status Compare(CUdeviceptr from, const void* wanted, size_t bytes) {
    std::vector<char> found(bytes);
    UCUDNN_RETURN_IF_ERROR(DriverStatus(
        driver_, driver_.cuMemcpyDtoHAsync(found.data(), from, bytes, stream()), "downloading"));
    UCUDNN_RETURN_IF_ERROR(stream_.Synchronize());
    if (std::memcmp(found.data(), wanted, bytes) == 0) return Status::Ok();
    return Status::Error("the device holds something else");
  }

 private:
  const Driver& driver_;
  ucudnn::cuda::Stream stream_;
  const ucudnn::cuda::MemoryPool pool_;
  DeviceBuffer memory_;
};

template <class Number>
std::vector<Number> Numbers() {
  std::vector<Number> numbers(kNumbers);
  for (size_t i = 0; i < kNumbers; ++i) numbers[i] = static_cast<Number>(i) - Number{0.25};
  return numbers;
}

// Sums over one rank, in several pieces. The channel copies each piece, overwrites the original
// with NaN, and reduces the copy. So right numbers in the buffer show that the reduction ran.
template <class Number>
Status AllReduceOverChannel(Channel& channel, Device& device, Element element) {
  const std::vector<Number> numbers = Numbers<Number>();
  const size_t bytes = kNumbers * sizeof(Number);
  UCUDNN_RETURN_IF_ERROR(channel.Reserve(1000, 1024));
  UCUDNN_RETURN_IF_ERROR(device.Upload(device.at(0), numbers.data(), bytes));
  UCUDNN_RETURN_IF_ERROR(channel.AllReduce(device.at(0), kNumbers, element, device.stream()));
  UCUDNN_RETURN_IF_ERROR(device.Compare(device.at(0), numbers.data(), bytes));
  return channel.Check();
}

// All-reduces from one buffer into another over the communicator of one rank.
Status AllReduceOverCommunicator(Communicators& communicators, Device& device) {
  const std::vector<float> numbers = Numbers<float>();
  const size_t bytes = kNumbers * sizeof(float);
  UCUDNN_RETURN_IF_ERROR(device.Upload(device.at(0), numbers.data(), bytes));
  UCUDNN_RETURN_IF_ERROR(device.Fill(device.at(bytes), bytes));
  UCUDNN_RETURN_IF_ERROR(communicators.AllReduce(device.at(0), device.at(bytes), kNumbers,
                                                 Element::kFloat32, device.stream()));
  UCUDNN_RETURN_IF_ERROR(device.Compare(device.at(bytes), numbers.data(), bytes));
  return communicators.Check();
}

// Sends a group of messages of different lengths from this rank to itself, and expects to receive
// them in order.
Status SendToItself(Communicators& communicators, Device& device) {
  const size_t lengths[] = {1, 4096, 100003};
  const size_t kRoom = 100352;  // 100003, the longest message, rounded up to a multiple of 512
  std::vector<Message> sends, receives;
  std::vector<std::string> texts;
  for (const size_t length : lengths) {
    const size_t i = texts.size();
    std::string& text = texts.emplace_back(length, '\0');
    for (size_t at = 0; at < length; ++at) text[at] = static_cast<char>((at * 7 + i) % 251);
    sends.push_back({0, device.at(2 * i * kRoom), length});
    receives.push_back({0, device.at((2 * i + 1) * kRoom), length});
    UCUDNN_RETURN_IF_ERROR(device.Upload(sends[i].data, text.data(), length));
    UCUDNN_RETURN_IF_ERROR(device.Fill(receives[i].data, length));
  }
  UCUDNN_RETURN_IF_ERROR(communicators.Exchange(sends, receives, device.stream()));
  for (size_t i = 0; i < texts.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(device.Compare(receives[i].data, texts[i].data(), texts[i].size()));
  }
  return communicators.Check();
}

Status IsOver(Communicators& communicators, Device& device) {
  const Message message = {0, device.at(0), 16};
  if (communicators.Exchange({&message, 1}, {&message, 1}, device.stream()).ok()) {
    return Status::Error("it still exchanges");
  }
  return Status::Ok();
}

// Prints the result of a step. Returns false if it failed.
bool PrintStep(const char* step, const Status& status) {
  if (status.ok()) {
    std::printf("%s: ok\n", step);
  } else {
    std::fprintf(stderr, "%s: %s\n", step, status.message().c_str());
  }
  return status.ok();
}

double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Opens a channel as a rank of a job does, and tests sums over the channel.
bool TryChannel(const ChannelSetup& setup, const std::string& cudnn_file, Device& device) {
  const auto begin = std::chrono::steady_clock::now();
  auto opened = ucudnn::transport::OpenChannel(setup, ucudnn::Transport::kNccl, cudnn_file);
  if (!PrintStep("channel", opened.status())) return false;
  std::printf("opened in %.1f ms\n", MillisecondsSince(begin));
  Channel& channel = *opened->channel;
  const bool good =
      PrintStep("sum of fp32", AllReduceOverChannel<float>(channel, device, Element::kFloat32)) &&
      PrintStep("sum of fp64", AllReduceOverChannel<double>(channel, device, Element::kFloat64));
  opened->channel.reset();
  return good && PrintStep("channel closed", Status::Ok());
}

// Tests the communicators, which a channel uses for messages to other ranks. In the first round
// they are destroyed, as by a channel that closes. In the second round they are aborted.
bool TryCommunicators(const ChannelSetup& setup, const Functions& functions, Device& device) {
  for (const bool aborted : {false, true}) {
    ucudnn::transport::nccl::UniqueIds ids = {};
    for (auto* const id : {&ids.exchanges, &ids.reductions}) {
      const Status made = functions.StatusOf(functions.GetUniqueId(id), "identity", nullptr);
      if (!made.ok()) return PrintStep("communicators", made);
    }
    const auto made = Communicators::Make(setup, functions, ids);
    if (!PrintStep("communicators", made.status())) return false;
    if (!PrintStep("messages", SendToItself(**made, device))) return false;
    if (!PrintStep("sum", AllReduceOverCommunicator(**made, device))) return false;
    aborted ? Communicators::Abort(*made) : Communicators::Destroy(*made);
    if (!PrintStep(aborted ? "aborted" : "destroyed", IsOver(**made, device))) return false;
  }
  return true;
}

int Run(const std::string& cudnn_file) {
  const Driver* const driver = ucudnn::cuda::GetDriver();
  if (driver == nullptr || driver->cuInit(0) != CUDA_SUCCESS) {
    std::fprintf(stderr, "there is no CUDA driver\n");
    return kFailed;
  }
  const Result<Functions> functions = ucudnn::transport::nccl::Load(cudnn_file);
  if (!functions.ok()) {
    std::fprintf(stderr, "%s\n", functions.message().c_str());
    return functions.message().starts_with("NCCL cannot be loaded") ? kSkipped : kFailed;
  }
  std::printf("NCCL %s %s\n", ucudnn::transport::nccl::VersionText(functions->version).c_str(),
              functions->file.c_str());
  Alone alone;
  ChannelSetup setup;
  setup.driver = driver;
  setup.gatherer = &alone;
  setup.timeout = std::chrono::seconds(60);
  CUdevice number = 0;
  if (driver->cuDeviceGet(&number, 0) != CUDA_SUCCESS ||
      driver->cuDevicePrimaryCtxRetain(&setup.context, number) != CUDA_SUCCESS) {
    std::fprintf(stderr, "there is no device\n");
    return kFailed;
  }
  bool good = false;
  {
    const ucudnn::cuda::ContextScope scope(*driver, setup.context);
    Device device(*driver);
    good = PrintStep("device", device.Create(size_t{1} << 20)) &&
           TryChannel(setup, cudnn_file, device) && TryCommunicators(setup, *functions, device);
  }
  driver->cuDevicePrimaryCtxRelease(number);
  return good ? 0 : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 3 && std::strcmp(argv[1], "--own") == 0) {
    if (dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) != nullptr) return Run("");
    std::fprintf(stderr, "%s\n", dlerror());
    return kFailed;
  }
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: nccl_smoke [CUDNN_FILE | --own NCCL_FILE]\n");
    return 2;
  }
  return Run(argc == 2 ? argv[1] : "");
}
