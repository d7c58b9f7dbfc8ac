// Calls functions of the real cuDNN and of the stand-in in one process, and compares what they
// answer. Descriptor functions of the real library work without a GPU.
#pragma once

#include <cudnn.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

// Names a function of cuDNN: CUDNN(Create) is cudnnCreate.
template <class Type>
struct CudnnFunction {
  const char* name;
};
#define CUDNN(function) \
  CudnnFunction<decltype(&::cudnn##function)> { "cudnn" #function }

// Names the functions that create and destroy a kind of descriptor.
#define KIND(Kind) CUDNN(Create##Kind##Descriptor), CUDNN(Destroy##Kind##Descriptor)

class Library {
 public:
  // Loads the library at `path`. Returns why it cannot be loaded, or an empty text.
  std::string Load(const char* path) {
    library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library_ == nullptr ? dlerror() : std::string();
  }
  template <class Type>
  Type operator[](CudnnFunction<Type> function) const {
    void* const found = dlsym(library_, function.name);
    if (found == nullptr) throw std::runtime_error(std::string("no ") + function.name);
    return reinterpret_cast<Type>(found);
  }

 private:
  void* library_ = nullptr;
};

enum Side { kReal, kOurs };

constexpr int kUntouched = -77;

// Holds a descriptor of each library; both are null for a call without a descriptor.
template <class Handle>
struct Twin {
  Handle of[2] = {};
};

// An argument through which a call writes an array or a value. The value with the index `unread` is
// not compared.
template <class T>
struct Out {
  // Returns the values up to the last one that the call wrote.
  std::vector<int64_t> Written() const {
    std::vector<int64_t> written;
    for (int i = 0; i < static_cast<int>(values.size()); ++i) {
      if (i == unread || values[i] == static_cast<T>(kUntouched)) continue;
      written.resize(i, kUntouched);
      written.push_back(static_cast<int64_t>(values[i]));
    }
    return written;
  }
  int unread = -1;
  std::array<T, 64> values = {};
};

// Holds what a call returned, then its integer arguments and the values that it wrote. kUntouched
// ends each array.
using Outcome = std::vector<int64_t>;

// Describes random integers: `percent` of them are values of `usual`, the others are values of
// `odd`.
struct Draw {
  int percent;
  std::vector<int> usual, odd;
};
inline std::vector<int> Range(int low, int high) {
  std::vector<int> values(high - low + 1);
  std::iota(values.begin(), values.end(), low);
  return values;
}
inline Draw Uniform(int low, int high) { return {100, Range(low, high), {}}; }

// Most values are plausible; the others are at limits or beyond them.
inline const Draw kExtent = {82,
                             {1, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64},
                             {0, -1, INT_MIN, INT_MAX, 32768, 65536, 46341, 1 << 20, 33, 12}};
inline const Draw kPad = {88, Range(0, 3), {0, -1, -3, INT_MAX, 1 << 30, 100}};
inline const Draw kStep = {88, Range(1, 3), kPad.odd};

class Conformance : public testing::Test {
 protected:
  // Loads both libraries once. Skips the test if the real library cannot be loaded.
  void SetUp() override {
    static std::string missing = libraries_[kReal].Load(REAL_CUDNN);
    if (!missing.empty()) GTEST_SKIP() << "no real cuDNN to compare with: " << missing;
    static std::string broken = libraries_[kOurs].Load(STANDIN_CUDNN);
    ASSERT_EQ(broken, "");
    const char* text = std::getenv("CONFORMANCE_SEED");
    seed_ = text != nullptr ? std::strtoul(text, nullptr, 10) : std::random_device{}();
    std::fprintf(stderr, "CONFORMANCE_SEED=%u\n", seed_);
    random_.seed(seed_);
  }

  void TearDown() override {
    for (const auto& destroy : destroys_) destroy();
  }

  // Makes a descriptor that lives until TearDown.
  template <class T>
  Twin<T> Make(CudnnFunction<cudnnStatus_t (*)(T*)> create,
               CudnnFunction<cudnnStatus_t (*)(T)> destroy) {
    Twin<T> twin;
    Call(create, &twin);
    destroys_.push_back([this, destroy, twin] { Call(destroy, twin); });
    return twin;
  }
  // Makes a descriptor that `set` sets with these arguments.
  template <class Create, class Destroy, class Set, class... Arguments>
  auto Make(Create create, Destroy destroy, Set set, Arguments... arguments) {
    const auto twin = Make(create, destroy);
    Call(set, twin, arguments...);
    return twin;
  }

  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Between(1, 100) <= percent; }
  template <class T>
  T OneOf(const std::vector<T>& values) {
    return values[Between(0, static_cast<int>(values.size()) - 1)];
  }
  int Int(const Draw& draw) {
    return OneOf(draw.odd.empty() || Chance(draw.percent) ? draw.usual : draw.odd);
  }
  std::array<int, 12> Ints(const Draw& draw) {
    std::array<int, 12> values;
    for (int& value : values) value = Int(draw);
    return values;
  }

  // Calls `function` of one library. A descriptor is passed as a Twin, several as a vector of Twin,
  // and a descriptor that the call creates as a pointer to Twin. An array that the function reads
  // is passed as a std::array, an array or a value that it writes as an Out. All other arguments
  // are passed by value.
  template <class Result, class... Parameters, class... Arguments>
  Outcome Answer(Side side, CudnnFunction<Result (*)(Parameters...)> function,
                 Arguments&&... arguments) {
    Outcome outcome;
    Append(outcome, libraries_[side][function](Passed<Parameters>(arguments, side)...));
    (Append(outcome, arguments), ...);
    return outcome;
  }
  // Calls `function` of both libraries without a comparison.
  template <class Function, class... Arguments>
  void OnBoth(Function function, Arguments... arguments) {
    for (const Side side : {kReal, kOurs}) Answer(side, function, arguments...);
  }
  // Calls `function` of both libraries with these arguments, and compares the outcomes.
  template <class Function, class... Arguments>
  void Call(Function function, Arguments... arguments) {
    const Outcome real = Answer(kReal, function, arguments...);
    Compare(function.name, real, Answer(kOurs, function, arguments...));
  }
  void Compare(const std::string& what, const Outcome& real, const Outcome& ours) {
    ++calls_;
    refused_ += real[0] != CUDNN_STATUS_SUCCESS;
    ++per_function_[what];
    ASSERT_EQ(ours, real) << what << ", call " << calls_ << ", CONFORMANCE_SEED=" << seed_;
  }

  // Describes a kind of call. MakeCalls makes each row's calls in proportion to its weight.
  struct Row {
    int weight;
    std::function<void()> make;
  };
  void MakeCalls(int count, const std::vector<Row>& rows) {
    int weights = 0;
    for (const Row& row : rows) weights += row.weight;
    for (const int end = calls_ + count; calls_ < end && !HasFailure();) {
      int left = Between(1, weights);
      const Row* row = rows.data();
      while ((left -= row->weight) > 0) ++row;
      row->make();
    }
    for (const auto& [name, calls] : per_function_) std::printf("%6d %s\n", calls, name.c_str());
    std::printf("%d calls, %d of them refused by the real library\n", calls_, refused_);
  }

  static inline Library libraries_[2];
  int calls_ = 0;
  int refused_ = 0;

 private:
  template <class Parameter, class T>
  Parameter Passed(const T& value, Side) {
    return static_cast<Parameter>(value);
  }
  template <class Parameter, size_t N>
  Parameter Passed(const std::array<int, N>& values, Side) {
    return values.data();
  }
  template <class Parameter, class T>
  Parameter Passed(Out<T>& out, Side) {
    out.values.fill(static_cast<T>(kUntouched));
    return out.values.data();
  }
  template <class Parameter, class T>
  Parameter Passed(const Twin<T>& twin, Side side) {
    return twin.of[side];
  }
  template <class Parameter, class T>
  Parameter Passed(Twin<T>* twin, Side side) {
    return &twin->of[side];
  }
  template <class Parameter, class T>
  Parameter Passed(const std::vector<Twin<T>>& twins, Side side) {
    handles_.clear();
    for (const Twin<T>& twin : twins) handles_.push_back(twin.of[side]);
    return handles_.data();
  }
  template <class T>
  static void Append(Outcome& outcome, const T& value) {
    if constexpr (std::is_same_v<T, const char*>) {
      outcome.insert(outcome.end(), value, value + std::strlen(value));
    } else if constexpr (std::is_convertible_v<T, int64_t>) {
      outcome.push_back(static_cast<int64_t>(value));
    }
  }
  template <class T>
  static void Append(Outcome& outcome, const Out<T>& out) {
    for (const int64_t value : out.Written()) outcome.push_back(value);
    outcome.push_back(kUntouched);
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  std::vector<void*> handles_;
  std::vector<std::function<void()>> destroys_;
  std::map<std::string, int> per_function_;
};
