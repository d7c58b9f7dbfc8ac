// What the programs of facts.cpp have in common: named cases that print one line of JSON each,
// statuses that become exceptions, the device with its memory and its clock.
//
// A failed case prints its error, and the others go on. The program ends before its time is over
// and names the cases that it did not reach.
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
  bool tiny = false;    // sizes that a CPU can run
  double seconds = 60;  // no case begins after them
  int first = 0;        // earlier cases are left out
  std::string profile;  // a file with a device profile, in place of the device
};

// Prints each case as {"case": NAME, …}. {"begin": NAME} comes before it, so that the reader of a
// crashed program's output knows the case. Print() alone is thread-safe.
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

// Returns the functions of the cuDNN with which the program is linked.
const cudnn::Functions& Linked();

// A handle on a stream of its own.
class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  cudaStream_t stream() const { return stream_; }
  void Wait() const { Check(cudaStreamSynchronize(stream_), "waiting for the stream"); }
  // Returns the milliseconds between events around what `enqueue` puts on the stream.
  double EventMs(const std::function<void()>& enqueue) const;
  // Repeats `enqueue` for half a second, so that clocks are up; on a stand-in it runs once.
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
  kRandom,  // of every sign and of some size, as activations are
  kWhole,   // -1, 0 and 1, mostly 0: sums are exact in every type
};
// Repeats a block of random elements. Its length is a prime, so that rows differ.
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
