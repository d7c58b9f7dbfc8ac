#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/shared_library.h"
#include "facts.h"

namespace ucudnn::facts {
namespace {

constexpr int kBroken = 3;  // the exit code if no other case can run in this process
constexpr double kWarmUpMs = 500;
constexpr size_t kBlockElements = 4194301;  // a prime number, so that rows differ

uint32_t Random(uint32_t seed, uint32_t index) {
  uint32_t bits = index * 0x9e3779b9u + seed * 0x85ebca6bu;
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

// Converts a float to bfloat16 or fp16 by cutting off digits. REQUIRES: `value` is zero or within
// the type's range; subnormal fp16 results become 0.
uint16_t Narrow(DataType type, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (type == DataType::kBfloat16) return static_cast<uint16_t>(bits >> 16);
  const uint32_t exponent = bits >> 23 & 0xff;
  if (exponent < 113) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (exponent - 112) << 10 |
                               (bits >> 13 & 0x3ff));
}

// Rounds to a tenth of a microsecond. Smaller digits are noise and would lengthen the output.
double Rounded(double ms) { return std::round(ms * 1e4) / 1e4; }

float Value(Filling filling, uint32_t random) {
  if (filling == Filling::kRandom) return static_cast<float>(random) * 0x1p-31f - 1.0f;
  return random / 2 % 12 != 0 ? 0.0f : random % 2 != 0 ? 1.0f : -1.0f;
}

}  // namespace

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw Failure(std::string(what) + ": " + cudaGetErrorString(error));
}

void Check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char message[256] = {};
  cudnnGetLastErrorString(message, sizeof message);
  throw Failure(std::string(what) + ": " + cudnnGetErrorString(status) + " " + message);
}

void Check(const Status& status) {
  if (!status.ok()) throw Failure(status.message());
}

Cases::Cases(const Options& options)
    : deadline_(std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(options.seconds))),
      first_(options.first) {}

void Cases::Print(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::scoped_lock lock(mutex_);
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Cases::Run(const std::string& name, const std::function<Json()>& work) {
  if (next_++ < first_) return;
  if (IsLate()) return Print({{"not run", name}});
  Print({{"begin", name}});
  Json line = {{"case", name}};
  try {
    line.update(work());
  } catch (const std::exception& failure) {
    line["failed"] = failure.what();
  }
  Print(line);
  // An error that remains in the context would fail all later cases, so the process ends.
  int devices = 0;
  if (!line.contains("failed") || cudaGetDeviceCount(&devices) != cudaSuccess) return;
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "after %s: %s\n", name.c_str(), cudaGetErrorString(error));
  std::_Exit(kBroken);
}

const cudnn::Functions& Linked() {
  static const cudnn::Functions functions = [] {
    const SharedLibrary library = Take(SharedLibrary::Loaded("libcudnn.so.9"));
    cudnn::Functions loaded;
    Check(cudnn::LoadFunctions([&](const char* name) { return library.Symbol(name); }, loaded));
    return loaded;
  }();
  return functions;
}

Device::Device() {
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudnnCreate(&handle_), "cudnnCreate");
  Check(cudnnSetStream(handle_, stream_), "cudnnSetStream");
  Check(cudaEventCreate(&begin_), "cudaEventCreate");
  Check(cudaEventCreate(&end_), "cudaEventCreate");
}

Device::~Device() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudnnDestroy(handle_);
  cudaStreamDestroy(stream_);
}

double Device::EventMs(const std::function<void()>& enqueue) const {
  Check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  enqueue();
  Check(cudaEventRecord(end_, stream_), "cudaEventRecord");
  Check(cudaEventSynchronize(end_), "waiting for an event");
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
  return Rounded(ms);
}

void Device::WarmUp(const Options& options, const std::function<void()>& enqueue) const {
  double spent_ms = 0;
  do {
    spent_ms += HostMs([&] {
      enqueue();
      Wait();
    });
  } while (!options.tiny && spent_ms < kWarmUpMs);
}

double HostMs(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const auto spent = std::chrono::steady_clock::now() - begin;
  return Rounded(std::chrono::duration<double, std::milli>(spent).count());
}

size_t L2Bytes() {
  int device = 0, bytes = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDevAttrL2CacheSize");
  return static_cast<size_t>(bytes);
}

Memory::Memory(size_t bytes) {
  const std::string what = "cudaMalloc of " + std::to_string(bytes >> 20) + " MiB";
  Check(cudaMalloc(&address_, std::max<size_t>(bytes, 1)), what.c_str());
}

void Fill(void* address, size_t elements, DataType type, Filling filling, uint32_t seed) {
  const size_t own = std::min(elements, kBlockElements), width = ElementBytes(type);
  std::vector<char> block(own * width);
  for (size_t i = 0; i < own; ++i) {
    const float value = Value(filling, Random(seed, static_cast<uint32_t>(i)));
    const uint16_t narrow = Narrow(type, value);
    std::memcpy(&block[i * width], width == 4 ? static_cast<const void*>(&value) : &narrow, width);
  }
  Check(cudaMemcpy(address, block.data(), block.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  char* const begin = static_cast<char*>(address);
  const size_t bytes = elements * width;
  for (size_t done = block.size(); done < bytes; done += std::min(done, bytes - done)) {
    Check(cudaMemcpy(begin + done, begin, std::min(done, bytes - done), cudaMemcpyDeviceToDevice),
          "cudaMemcpy");
  }
  Check(cudaDeviceSynchronize(), "filling");
}

}  // namespace ucudnn::facts
