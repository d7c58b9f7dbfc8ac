// Declares what the commands of facts.cpp share: named cases that print lines of JSON, errors that
// become exceptions, the device, its memory and its events.
//
// A failed case prints its error, and the next cases run. No case begins after Options::seconds,
// and the program prints the names of cases that it did not reach.
#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::facts {

using Json = nlohmann::ordered_json;

constexpr size_t kTinyArenaBytes = size_t{64} << 20;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void Check(cudaError_t error, const char* what);
void Check(cudnnStatus_t status, const char* what);
void Check(const Status& status);
template <typename T>
T Take(Result<T> result) {
  Check(result.status());
  return std::move(*result);
}

struct Options {
  bool tiny = false;    // whether sizes are small enough for a CPU
  double seconds = 60;  // no case begins after so many seconds
  int first = 0;        // the number of cases that are skipped at the beginning
  std::string profile;  // the file of a device profile that replaces the device, or empty
};

// Prints {"begin": NAME} before each case and {"case": NAME, …} after it, so that the output of a
// crashed program shows in which case it crashed. Prints {"not run": NAME} for a case that would
// begin too late. Print() and IsLate() are thread-safe.
class Cases {
 public:
  explicit Cases(const Options& options);
  bool IsLate() const { return std::chrono::steady_clock::now() > deadline_; }
  void Run(const std::string& name, const std::function<Json()>& work);
  void Print(const Json& line);

 private:
  const std::chrono::steady_clock::time_point deadline_;
  const int first_;
  int next_ = 0;
  std::mutex mutex_;
};

// Returns the functions of the cuDNN library with which the program is linked.
const cudnn::Functions& Linked();

// A cuDNN handle, its stream, and two events, all owned by this object.
class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  cudaStream_t stream() const { return stream_; }
  void Wait() const { Check(cudaStreamSynchronize(stream_), "waiting for the stream"); }
  // Returns the milliseconds between two events around the work that `enqueue` puts on the stream.
  double EventMs(const std::function<void()>& enqueue) const;
  // Repeats `enqueue` for half a second, so that the GPU raises its clocks; with Options::tiny it
  // runs once.
  void WarmUp(const Options& options, const std::function<void()>& enqueue) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double HostMs(const std::function<void()>& work);
size_t L2Bytes();

class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory() { cudaFree(address_); }
  Memory(Memory&& other) noexcept : address_(std::exchange(other.address_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;

  void* get() const { return address_; }
  char* at(size_t byte) const { return static_cast<char*>(address_) + byte; }

 private:
  void* address_ = nullptr;
};

enum class Filling {
  kRandom,  // random numbers between -1 and 1
  kWhole,   // -1, 0 and 1, mostly 0, with which sums are exact in every type
};
// Fills memory with repetitions of a block of random elements. The length of the block is a prime,
// so that rows differ.
void Fill(void* address, size_t elements, DataType type, Filling filling, uint32_t seed);

void Plans(const Options& options);
void Legacy(const Options& options);
void Kernels(const Options& options);
void Launches(const Options& options);
void Sweep(const Options& options);
void Tiles(const Options& options);
void Repeat(const Options& options);
void Copy(const Options& options);

}  // namespace ucudnn::facts
