// Makes random calls of descriptor functions on the real cuDNN and on the stand-in, and compares
// the results.
#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/host/cudnn/library_pair.h"

constexpr int kUntouched = -77;

// Holds a descriptor of each library; both are null for a call without a descriptor.
template <class Handle>
struct Twin {
  Handle real = nullptr;
  Handle ours = nullptr;
};

// Holds the status of a call, then every value that it may have written.
using Outcome = std::vector<int64_t>;

// Stands for an argument that a call writes: an array of `count` values. The value at `unread` is
// not compared.
template <class T>
struct Out {
  int count = 1;
  int unread = -1;
  std::array<T, 12> values = {};
};

class RandomCalls : public LibraryPair {
 protected:
  void SetUp() override {
    LibraryPair::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const char* text = std::getenv("CONFORMANCE_SEED");
    seed_ = text != nullptr ? std::strtoul(text, nullptr, 10) : std::random_device{}();
    std::fprintf(stderr, "CONFORMANCE_SEED=%u\n", seed_);
    random_.seed(seed_);
  }

  int Pick(std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }
  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Between(1, 100) <= percent; }

  // Most values are plausible; the others are at limits or beyond them.
  int Extent() {
    if (Chance(82)) return Pick({1, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64});
    return Pick({0, -1, INT_MIN, INT_MAX, 32768, 65536, 46341, 1 << 20, 33, 12});
  }
  int Stride() {
    if (Chance(78)) return Pick({1, 2, 4, 5, 20, 64, 100, 1280});
    return Pick({0, -1, -60, INT_MIN, INT_MAX, 1 << 30, 65536});
  }
  cudnnDataType_t Type() {
    return static_cast<cudnnDataType_t>(Chance(72) ? Pick({0, 0, 0, 1, 2, 3, 5, 7, 8, 9})
                                                   : Between(-2, 23));
  }
  cudnnTensorFormat_t Format() {
    return static_cast<cudnnTensorFormat_t>(Chance(85) ? Pick({0, 1, 2}) : Pick({-1, 3, 100}));
  }
  int DimCount() { return Chance(80) ? Between(3, 6) : Between(-1, 10); }
  cudnnDataType_t ComputeType() {
    return static_cast<cudnnDataType_t>(Chance(85) ? Pick({0, 1, 2}) : Between(-1, 22));
  }
  cudnnConvolutionMode_t Mode() {
    return static_cast<cudnnConvolutionMode_t>(Chance(92) ? Pick({0, 1}) : Pick({-1, 2}));
  }
  std::array<int, 12> Extents() {
    std::array<int, 12> values;
    for (int& value : values) value = Extent();
    return values;
  }
  std::array<int, 12> Strides() {
    std::array<int, 12> values;
    for (int& value : values) value = Stride();
    return values;
  }
  int Window(int usual_low) {
    if (Chance(88)) return Between(usual_low, 3);
    return Pick({0, -1, -3, INT_MAX, 1 << 30, 100});
  }
  std::array<int, 12> Windows(int usual_low) {
    std::array<int, 12> values;
    for (int& value : values) value = Window(usual_low);
    return values;
  }

  template <class T, size_t N>
  Twin<T> One(std::array<Twin<T>, N>& pool) {
    return Chance(16) ? Twin<T>{} : pool[Between(0, N - 1)];
  }

  // Runs `call(library, side)` on both libraries and compares the outcomes. `side` selects the
  // descriptors of one library.
  template <class Call>
  void Compare(const char* what, const Call& call) {
    const Outcome real = call(real_, &Sides::kReal);
    const Outcome ours = call(ours_, &Sides::kOurs);
    ++calls_;
    refused_ += real[0] != CUDNN_STATUS_SUCCESS;
    ++per_function_[what];
    ASSERT_EQ(ours, real) << what << ", call " << calls_ << ", CONFORMANCE_SEED=" << seed_;
  }

  struct Sides {
    static constexpr int kReal = 0;
    static constexpr int kOurs = 1;
  };
  template <class T>
  static T On(const Twin<T>& twin, const int* side) {
    return *side == Sides::kReal ? twin.real : twin.ours;
  }

  // Calls `function` of both libraries without a comparison.
  template <class... Parameters, class... Arguments>
  void OnBoth(CudnnFunction<cudnnStatus_t (*)(Parameters...)> function, Arguments... arguments) {
    real_[function](Passed<Parameters>(arguments, &Sides::kReal)...);
    ours_[function](Passed<Parameters>(arguments, &Sides::kOurs)...);
  }
  // Calls `function` of both libraries with these arguments, and compares: descriptors are passed
  // as Twin, arrays that the function reads as std::array, what it writes as Out, all other
  // arguments by value.
  template <class... Parameters, class... Arguments>
  void Call(CudnnFunction<cudnnStatus_t (*)(Parameters...)> function, Arguments... arguments) {
    Compare(function.name, [&](const Library& l, const int* side) {
      Outcome outcome{l[function](Passed<Parameters>(arguments, side)...)};
      (AppendWritten(outcome, arguments), ...);
      return outcome;
    });
  }

  void ReportCalls() const {
    for (const auto& [name, count] : per_function_) std::printf("%6d %s\n", count, name.c_str());
    std::printf("%d calls, %d of them refused by the real library\n", calls_, refused_);
  }

  template <class Parameter, class T>
  static Parameter Passed(const Twin<T>& twin, const int* side) {
    return On(twin, side);
  }
  template <class Parameter, class T>
  static Parameter Passed(Out<T>& out, const int*) {
    out.values.fill(static_cast<T>(kUntouched));
    return out.values.data();
  }
  template <class Parameter, size_t N>
  static Parameter Passed(const std::array<int, N>& values, const int*) {
    return values.data();
  }
  template <class Parameter, class T>
  static Parameter Passed(const T& value, const int*) {
    return static_cast<Parameter>(value);
  }
  template <class T>
  static void AppendWritten(Outcome&, const T&) {}
  template <class T>
  static void AppendWritten(Outcome& outcome, const Out<T>& out) {
    for (int i = 0; i < out.count; ++i) {
      if (i != out.unread) outcome.push_back(static_cast<int64_t>(out.values[i]));
    }
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  int calls_ = 0;
  int refused_ = 0;
  std::map<std::string, int> per_function_;
};
