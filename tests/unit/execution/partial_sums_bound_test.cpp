// Gradients of 16-bit filters in pieces, on the stand-in's arithmetic, against sums in fp64: within
// the bound that convolution/partial_sums.h states.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "tests/support/device.h"
#include "tests/support/engines.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"

namespace ucudnn::execution {
namespace {

using Bits = std::vector<uint16_t>;
using Values = std::vector<double>;

double Decode(DataType type, uint16_t bits) {
  if (type == DataType::kBfloat16) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

// Of a number that the type holds, normal or zero.
uint16_t Encode(DataType type, double value) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  if (type == DataType::kBfloat16) return static_cast<uint16_t>(bits >> 16);
  if (value == 0) return 0;
  const uint32_t exponent = (bits >> 23 & 255) - 127 + 15;
  return static_cast<uint16_t>(bits >> 16 & 0x8000) |
         static_cast<uint16_t>(exponent << 10 | (bits >> 13 & 1023));
}

constexpr size_t kPixels = 80;

ConvolutionProblem Problem(DataType type) {
  return test::ProblemWith({.operation = Operation::kBackwardFilter,
                            .n = 10,
                            .k = 6,
                            .x = {1, 8, 10},
                            .type = type,
                            .alignment = 16});
}

// sum over images [begin, end) of x * dy, exactly: the filter's gradient as k, c, h, w.
Values Gradient(const ConvolutionProblem& p, const Values& x, const Values& y, int begin, int end) {
  Values w(size_t(p.k) * p.c * 9);
  for (int n = begin; n < end; ++n)
    for (int k = 0; k < p.k; ++k)
      for (int c = 0; c < p.c; ++c)
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s)
            for (int i = 0; i < p.x[1]; ++i)
              for (int j = 0; j < p.x[2]; ++j) {
                const int h = i + r - 1, v = j + s - 1;
                if (h < 0 || v < 0 || h >= p.x[1] || v >= p.x[2]) continue;
                w[((k * p.c + c) * 3 + r) * 3 + s] += x[((n * p.c + c) * p.x[1] + h) * p.x[2] + v] *
                                                      y[((n * p.k + k) * p.x[1] + i) * p.x[2] + j];
              }
  return w;
}

class Memory {
 public:
  explicit Memory(size_t bytes) {
    EXPECT_EQ(cuMemAlloc(&address_, std::max<size_t>(bytes, 1)), CUDA_SUCCESS);
  }
  ~Memory() { cuMemFree(address_); }
  void* data(size_t offset = 0) const { return reinterpret_cast<void*>(address_ + offset); }
  void Upload(const Bits& bits) {
    EXPECT_EQ(cuMemcpyHtoD(address_, bits.data(), bits.size() * sizeof(uint16_t)), CUDA_SUCCESS);
  }
  Bits Download(size_t elements) const {
    Bits bits(elements);
    EXPECT_EQ(cuMemcpyDtoH(bits.data(), address_, elements * sizeof(uint16_t)), CUDA_SUCCESS);
    return bits;
  }

 private:
  CUdeviceptr address_ = 0;
};

class PartialSumsBound : public ::testing::TestWithParam<DataType> {
 protected:
  PartialSumsBound() {
    test::MakeContextCurrent();
    EXPECT_EQ(functions_.cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  ~PartialSumsBound() override { functions_.cudnnDestroy(handle_); }

  // `engine` in pieces of these sizes; without runs where it does not serve one.
  Configuration Plan(const std::string& engine, const std::vector<int>& sizes) {
    Configuration configuration;
    cudnn::LegacyEngines engines(functions_, handle_);
    for (const int size : sizes) {
      ConvolutionProblem part = problem_;
      part.n = size;
      const std::vector<cudnn::EngineChoice> choices = test::Choices(engines, part);
      const auto choice = std::find_if(choices.begin(), choices.end(),
                                       [&](const auto& other) { return other.engine == engine; });
      if (choice == choices.end()) return {};
      configuration.runs.push_back(
          {AsPartial(problem_, {engine, size, 1, choice->workspace_bytes, true}, 0), 1});
    }
    return configuration;
  }

  // What `configuration` makes of `before`, in a filter that begins on an odd element.
  Bits Run(const Configuration& configuration, const Values& x, const Values& y, float alpha,
           float beta, const Bits& before) {
    const auto encoded = [&](const Values& values) {
      Bits bits;
      for (const double value : values) bits.push_back(Encode(problem_.type, value));
      return bits;
    };
    Memory x_memory(2 * x.size()), y_memory(2 * y.size()), w_memory(2 * before.size() + 4);
    x_memory.Upload(encoded(x));
    y_memory.Upload(encoded(y));
    constexpr uint16_t kGuard = 0x1234;
    Bits guarded(before);
    guarded.insert(guarded.begin(), kGuard);
    guarded.push_back(kGuard);
    w_memory.Upload(guarded);
    // The stand-in faults on the byte behind.
    Memory workspace(configuration.WorkspaceBytes());
    cudnn::OwnedDescriptors descriptors(functions_);
    EXPECT_TRUE(descriptors.Create(problem_).ok());
    auto made = test::LegacySchedule(functions_, problem_, configuration, {});
    EXPECT_TRUE(made.ok()) << made.message();
    cudnn::ConvolutionCall call;
    call.operation = problem_.operation;
    call.handle = handle_;
    call.descriptors = descriptors.get();
    call.alpha = &alpha;
    call.beta = &beta;
    call.x = x_memory.data();
    call.y = y_memory.data();
    call.w = w_memory.data(2);
    call.workspace = workspace.data();
    call.workspace_bytes = configuration.WorkspaceBytes();
    Outcome outcome;
    EXPECT_EQ((*made)->Run(call, outcome), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(outcome, Outcome::kPlanned);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    Bits after = w_memory.Download(guarded.size());
    EXPECT_EQ(after.front(), kGuard);
    EXPECT_EQ(after.back(), kGuard);
    return {after.begin() + 1, after.end() - 1};
  }

  const cudnn::Functions functions_ = test::StandIn();
  const ConvolutionProblem problem_ = Problem(GetParam());
  cudnnHandle_t handle_ = nullptr;
};

// Multiples of 1/64 up to 1: every sum is exact in fp32, so that engines round nothing but their
// results.
TEST_P(PartialSumsBound, HoldsForAnyAlphaAndBeta) {
  const DataType type = GetParam();
  const bool half = type == DataType::kHalf;
  const double u = half ? 0x1p-11 : 0x1p-8, s = half ? 0x1p-25 : 0x1p-126;
  std::mt19937 random(20181210);
  const auto draw = [&] { return static_cast<int>(random() % 129) / 64.0 - 1; };
  Values x(size_t(problem_.n) * problem_.c * kPixels), y(size_t(problem_.n) * problem_.k * kPixels);
  int plans = 0;
  double largest = 0;  // of all errors, in units of their bound
  for (const char* engine : {"legacy:0", "legacy:1"}) {
    for (const std::vector<int>& sizes :
         {std::vector<int>{4, 4, 2}, {9, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
      const Configuration configuration = Plan(engine, sizes);
      if (configuration.runs.empty()) continue;
      ++plans;
      for (const auto& [alpha, beta] :
           {std::pair{1.f, 0.f}, {1.f, 1.f}, {-0.3f, 1.7f}, {0x1p-9f, -0.01f}}) {
        std::generate(x.begin(), x.end(), draw);
        std::generate(y.begin(), y.end(), draw);
        Values sum(size_t(problem_.k) * problem_.c * 9), magnitude(sum.size());
        int begin = 0;
        for (const int size : sizes) {
          const Values partial = Gradient(problem_, x, y, begin, begin + size);
          for (size_t i = 0; i < sum.size(); ++i) {
            sum[i] += partial[i];
            magnitude[i] += std::abs(partial[i]);
          }
          begin += size;
        }
        Bits before(sum.size());
        for (uint16_t& bits : before) {
          // Without beta it is not even read.
          bits = beta == 0 ? 0x7fff : Encode(type, 8 * draw());
        }
        const Bits after = Run(configuration, x, y, alpha, beta, before);
        const auto m = static_cast<double>(sizes.size());
        const double a = std::abs(double{alpha});
        for (size_t i = 0; i < sum.size(); ++i) {
          const double old = beta == 0 ? 0 : beta * Decode(type, before[i]);
          const double result = Decode(type, after[i]);
          const double bound =
              (1 + u) * (a * (u + (m + 3) * 0x1p-24) * magnitude[i] + 0x1p-22 * std::abs(old) +
                         u * std::abs(result) + (m * a + 1) * s);
          const double error = std::abs(result - (alpha * sum[i] + old));
          ASSERT_LE(error, bound) << engine << " in " << m << " pieces, alpha " << alpha
                                  << ", beta " << beta << ", element " << i;
          largest = std::max(largest, error / bound);
        }
      }
    }
  }
  EXPECT_GE(plans, 3);
  // Not by far.
  EXPECT_GT(largest, 0.2);
}

TEST_P(PartialSumsBound, APartialBeyondItsTypeIsNeverLostInTheSum) {
  const bool half = GetParam() == DataType::kHalf;
  const Configuration configuration = Plan("legacy:0", {4, 6});
  ASSERT_FALSE(configuration.runs.empty());
  // Both partials overflow, with opposite signs.
  const double big = half ? 128 : 0x1p63, small = half ? 16 : 0x1p60;
  Values x(size_t(problem_.n) * problem_.c * kPixels, big),
      y(size_t(problem_.n) * problem_.k * kPixels);
  for (size_t i = 0; i < y.size(); ++i) y[i] = i < y.size() * 4 / 10 ? small : -small;
  const Bits before(size_t(problem_.k) * problem_.c * 9);
  for (const uint16_t bits : Run(configuration, x, y, 1, 0, before)) {
    EXPECT_FALSE(std::isfinite(Decode(GetParam(), bits)));
  }
  // One alone stays an infinity.
  for (size_t i = y.size() * 4 / 10; i < y.size(); ++i) y[i] = 0;
  for (const uint16_t bits : Run(configuration, x, y, 1, 0, before)) {
    EXPECT_EQ(Decode(GetParam(), bits), INFINITY);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartialSumsBound,
                         ::testing::Values(DataType::kHalf, DataType::kBfloat16),
                         [](const auto& given) { return DataTypeName(given.param); });

}  // namespace
}  // namespace ucudnn::execution
