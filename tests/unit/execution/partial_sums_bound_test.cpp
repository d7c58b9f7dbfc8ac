// Computes gradients of 16-bit filters in pieces with the stand-in's arithmetic, and tests that
// they differ from sums in fp64 by no more than the bound in convolution/partial_sums.h.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "convolution/partial_sums.h"
#include "convolution/tiles.h"
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

// Encodes a value that `type` represents exactly, as a normal number or zero.
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

// y has 8 x 8 elements, so each row has 16 bytes and keeps the alignment. With `pad_h` = 0 the
// legacy API can compute the gradient in tiles of rows.
ConvolutionProblem Problem(DataType type, int images, int pad_h = 1) {
  return test::ProblemWith({.operation = Operation::kBackwardFilter,
                            .n = images,
                            .k = 6,
                            .x = {1, 10 - 2 * pad_h, 8},
                            .pad = {0, pad_h, 1},
                            .type = type,
                            .alignment = 16});
}

// Selects some of the images and some rows of y.
struct Part {
  Interval images, rows;
};

// Returns the exact sum of x * dy over `part`: the filter's gradient in the order k, c, h, w.
Values Gradient(const ConvolutionProblem& p, const Values& x, const Values& y, const Part& part) {
  Values w(size_t(p.k) * p.c * 9);
  const Spatial outputs = OutputExtents(p);
  for (int64_t n = part.images.begin; n < part.images.end; ++n)
    for (int k = 0; k < p.k; ++k)
      for (int c = 0; c < p.c; ++c)
        for (int r = 0; r < 3; ++r)
          for (int s = 0; s < 3; ++s)
            for (int64_t i = part.rows.begin; i < part.rows.end; ++i)
              for (int j = 0; j < outputs[2]; ++j) {
                const int64_t h = i + r - p.pad[1], v = j + s - p.pad[2];
                if (h < 0 || v < 0 || h >= p.x[1] || v >= p.x[2]) continue;
                w[((k * p.c + c) * 3 + r) * 3 + s] +=
                    x[((n * p.c + c) * p.x[1] + h) * p.x[2] + v] *
                    y[((n * p.k + k) * outputs[1] + i) * outputs[2] + j];
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

  // Returns the configuration with which `engine` computes `part` as a partial sum of `problem`;
  // nullopt if the engine does not support `part`.
  std::optional<MicroConfiguration> Partial(const ConvolutionProblem& problem,
                                            const std::string& engine,
                                            const ConvolutionProblem& part) {
    cudnn::LegacyEngines engines(functions_, handle_);
    const std::vector<cudnn::EngineChoice> choices = test::Choices(engines, part);
    const auto choice = std::find_if(choices.begin(), choices.end(),
                                     [&](const auto& other) { return other.engine == engine; });
    if (choice == choices.end()) return std::nullopt;
    return AsPartial(problem, {engine, part.n, 1, choice->workspace_bytes, true}, 0);
  }

  // Returns a plan of `engine` in pieces of `sizes` images. The plan has no runs if the engine does
  // not support a piece.
  Configuration Plan(const std::string& engine, const std::vector<int>& sizes) {
    Configuration configuration;
    for (const int size : sizes) {
      ConvolutionProblem part = problem_;
      part.n = size;
      const auto partial = Partial(problem_, engine, part);
      if (!partial) return {};
      configuration.runs.push_back({*partial, 1});
    }
    return configuration;
  }

  // Returns a plan in which `engine` computes the rows of y in `parts` parts. The plan has no runs
  // if the engine does not support the parts.
  Division Rows(const ConvolutionProblem& problem, const std::string& engine, int parts) {
    auto cut = CutIntoTiles(problem, {.spatial = {1, parts, 1}});
    EXPECT_TRUE(cut.ok()) << cut.message();
    Division division({}, std::make_shared<const Tiles>(std::move(*cut)));
    for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
      const TileKind& of = division.tiles->kinds[kind];
      auto partial = Partial(problem, engine, of.problem);
      if (!partial) return Configuration();
      partial->tile = of.lengths;
      division.configuration.runs.push_back({*partial, division.tiles->CountOf(kind)});
    }
    return division;
  }

  // Runs `division` on a filter that holds `before` and begins at an odd element. Returns the
  // result.
  Bits Run(const ConvolutionProblem& problem, const Division& division, const Values& x,
           const Values& y, float alpha, float beta, const Bits& before) {
    const auto encoded = [&](const Values& values) {
      Bits bits;
      for (const double value : values) bits.push_back(Encode(problem.type, value));
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
    // The stand-in reports a fault if a piece touches a byte after the workspace.
    Memory workspace(division.configuration.WorkspaceBytes());
    cudnn::OwnedDescriptors descriptors(functions_);
    EXPECT_TRUE(descriptors.Create(problem).ok());
    auto made = test::LegacySchedule(functions_, problem, division, {});
    EXPECT_TRUE(made.ok()) << made.message();
    cudnn::ConvolutionCall call;
    call.operation = problem.operation;
    call.handle = handle_;
    call.descriptors = descriptors.get();
    call.alpha = &alpha;
    call.beta = &beta;
    call.x = x_memory.data();
    call.y = y_memory.data();
    call.w = w_memory.data(2);
    call.workspace = workspace.data();
    call.workspace_bytes = division.configuration.WorkspaceBytes();
    Outcome outcome;
    EXPECT_EQ((*made)->Run(call, outcome), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(outcome, Outcome::kPlanned);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    Bits after = w_memory.Download(guarded.size());
    EXPECT_EQ(after.front(), kGuard);
    EXPECT_EQ(after.back(), kGuard);
    return {after.begin() + 1, after.end() - 1};
  }

  // Checks that results stay within the bound. The data are multiples of 1/64 up to 1, so every sum
  // is exact in fp32 and engines round only their results. `parts` are the division's parts, in any
  // order.
  void CheckBound(const ConvolutionProblem& problem, const Division& division,
                  const std::vector<Part>& parts) {
    const DataType type = problem.type;
    const bool half = type == DataType::kHalf;
    const double u = half ? 0x1p-11 : 0x1p-8, s = half ? 0x1p-25 : 0x1p-126;
    const auto draw = [&] { return static_cast<int>(random_() % 129) / 64.0 - 1; };
    Values x(size_t(problem.n) * problem.x_strides[0]), y(size_t(problem.n) * problem.y_strides[0]);
    for (const auto& [alpha, beta] :
         {std::pair{1.f, 0.f}, {1.f, 1.f}, {-0.3f, 1.7f}, {0x1p-9f, -0.01f}}) {
      std::generate(x.begin(), x.end(), draw);
      std::generate(y.begin(), y.end(), draw);
      Values sum(size_t(problem.k) * problem.c * 9), magnitude(sum.size());
      for (const Part& part : parts) {
        const Values partial = Gradient(problem, x, y, part);
        for (size_t i = 0; i < sum.size(); ++i) {
          sum[i] += partial[i];
          magnitude[i] += std::abs(partial[i]);
        }
      }
      Bits before(sum.size());
      for (uint16_t& bits : before) {
        // With beta = 0 the old content is not read, so it may be NaN, which 0x7fff encodes.
        bits = beta == 0 ? 0x7fff : Encode(type, 8 * draw());
      }
      const Bits after = Run(problem, division, x, y, alpha, beta, before);
      const auto m = static_cast<double>(parts.size());
      const double a = std::abs(double{alpha});
      for (size_t i = 0; i < sum.size(); ++i) {
        const double old = beta == 0 ? 0 : beta * Decode(type, before[i]);
        const double result = Decode(type, after[i]);
        const double bound =
            (1 + u) * (a * (u + (m + 3) * 0x1p-24) * magnitude[i] + 0x1p-22 * std::abs(old) +
                       u * std::abs(result) + (m * a + 1) * s);
        const double error = std::abs(result - (alpha * sum[i] + old));
        ASSERT_LE(error, bound) << m << " parts, alpha " << alpha << ", beta " << beta
                                << ", element " << i;
        largest_ = std::max(largest_, error / bound);
      }
    }
  }

  const cudnn::Functions functions_ = test::StandIn();
  const ConvolutionProblem problem_ = Problem(GetParam(), 10);
  cudnnHandle_t handle_ = nullptr;
  std::mt19937 random_{20181210};
  double largest_ = 0;  // the largest error, in units of its bound
};

TEST_P(PartialSumsBound, HoldsForAnyAlphaAndBeta) {
  int plans = 0;
  for (const char* engine : {"legacy:0", "legacy:1"}) {
    for (const std::vector<int>& sizes :
         {std::vector<int>{4, 4, 2}, {9, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
      const Configuration configuration = Plan(engine, sizes);
      if (configuration.runs.empty()) continue;
      ++plans;
      std::vector<Part> parts;
      int64_t begin = 0;
      for (const int size : sizes) {
        parts.push_back({{begin, begin + size}, {0, 8}});
        begin += size;
      }
      SCOPED_TRACE(engine);
      CheckBound(problem_, configuration, parts);
    }
  }
  EXPECT_GE(plans, 3);
  // The largest error exceeds a fifth of its bound, so the bound is not far too large.
  EXPECT_GT(largest_, 0.2);
}

// The tiles of one image also compute partials of the gradient, so the same bound must hold.
TEST_P(PartialSumsBound, HoldsForTilesOfOneImage) {
  const ConvolutionProblem problem = Problem(GetParam(), 1, 0);
  int plans = 0;
  for (const char* engine : {"legacy:0", "legacy:1"}) {
    for (const int count : {2, 3, 8}) {
      const Division division = Rows(problem, engine, count);
      if (division.tiles == nullptr) continue;
      ++plans;
      std::vector<Part> parts;
      for (const Tile& tile : division.tiles->tiles) parts.push_back({{0, 1}, tile.y[kAxisH]});
      ASSERT_EQ(static_cast<int>(parts.size()), count);
      SCOPED_TRACE(engine);
      CheckBound(problem, division, parts);
    }
  }
  EXPECT_GE(plans, 3);
  EXPECT_GT(largest_, 0.2);
}

TEST_P(PartialSumsBound, APartialBeyondItsTypeIsNeverLostInTheSum) {
  const bool half = GetParam() == DataType::kHalf;
  const Configuration configuration = Plan("legacy:0", {4, 6});
  ASSERT_FALSE(configuration.runs.empty());
  // Both partials overflow, with opposite signs, so no result may be finite.
  const double big = half ? 128 : 0x1p63, small = half ? 16 : 0x1p60;
  Values x(size_t(problem_.n) * problem_.x_strides[0], big),
      y(size_t(problem_.n) * problem_.y_strides[0]);
  for (size_t i = 0; i < y.size(); ++i) y[i] = i < y.size() * 4 / 10 ? small : -small;
  const Bits before(size_t(problem_.k) * problem_.c * 9);
  for (const uint16_t bits : Run(problem_, configuration, x, y, 1, 0, before)) {
    EXPECT_FALSE(std::isfinite(Decode(GetParam(), bits)));
  }
  // If only one partial overflows, the result is infinite.
  for (size_t i = y.size() * 4 / 10; i < y.size(); ++i) y[i] = 0;
  for (const uint16_t bits : Run(problem_, configuration, x, y, 1, 0, before)) {
    EXPECT_EQ(Decode(GetParam(), bits), INFINITY);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartialSumsBound,
                         ::testing::Values(DataType::kHalf, DataType::kBfloat16),
                         [](const auto& given) { return DataTypeName(given.param); });

}  // namespace
}  // namespace ucudnn::execution
