// Tests the stand-in for cuRAND: the distribution of its numbers, that they do not depend on how
// many a call generates, and what it refuses.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "shim/host/curand/api.h"
#include "tests/unit/host/shared.h"

namespace hostgpu::test {
namespace {

constexpr int kPseudoDefault = 100, kQuasiDefault = 200;
constexpr size_t kMany = 100000;

// Owns a generator, and generates numbers on the device.
class Generator {
 public:
  explicit Generator(unsigned long long seed = 7) {
    EXPECT_OK(curandCreateGenerator(&handle, kPseudoDefault));
    EXPECT_OK(curandSetPseudoRandomGeneratorSeed(handle, seed));
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  ~Generator() { EXPECT_OK(curandDestroyGenerator(handle)); }

  template <class Draw>
  std::vector<float> Drawn(size_t count, const Draw& draw) {
    const DeviceMemory memory(count * sizeof(float));
    EXPECT_OK(draw(memory.As<float>()));
    std::vector<float> numbers(count);
    EXPECT_OK(
        cudaMemcpy(numbers.data(), memory.data, count * sizeof(float), cudaMemcpyDeviceToHost));
    return numbers;
  }
  std::vector<float> Uniform(size_t count) {
    return Drawn(count, [&](float* to) { return curandGenerateUniform(handle, to, count); });
  }

  curandGenerator_st* handle = nullptr;
};

// Returns the mean and the standard deviation.
std::pair<double, double> Moments(const std::vector<float>& numbers) {
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / numbers.size();
  double squares = 0;
  for (const float number : numbers) squares += (number - mean) * (number - mean);
  return {mean, std::sqrt(squares / numbers.size())};
}

// Returns five standard errors of the mean of kMany numbers. The standard deviation of the numbers
// has a smaller standard error, so the result is a bound for it, too.
double Tolerance(double deviation) { return 5 * deviation / std::sqrt(kMany); }

TEST(Curand, UniformNumbersFillTheUnitInterval) {
  Generator generator;
  const std::vector<float> numbers = generator.Uniform(kMany);
  for (const float number : numbers) ASSERT_TRUE(number > 0 && number <= 1) << number;
  const double expected = std::sqrt(1.0 / 12);
  const auto [mean, deviation] = Moments(numbers);
  EXPECT_NEAR(mean, 0.5, Tolerance(expected));
  EXPECT_NEAR(deviation, expected, Tolerance(expected));
}

TEST(Curand, NormalNumbersHaveTheMeanAndDeviationAskedFor) {
  Generator generator;
  const auto [mean, deviation] = Moments(generator.Drawn(
      kMany, [&](float* to) { return curandGenerateNormal(generator.handle, to, kMany, 3, 2); }));
  EXPECT_NEAR(mean, 3, Tolerance(2));
  EXPECT_NEAR(deviation, 2, Tolerance(2));
}

TEST(Curand, NumbersDependOnSeedAndPlaceAlone) {
  Generator whole, parts, other(8);
  const std::vector<float> expected = whole.Uniform(1000);
  std::vector<float> joined = parts.Uniform(300);
  const std::vector<float> rest = parts.Uniform(700);
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(joined, expected);
  EXPECT_NE(other.Uniform(1000), expected);
}

TEST(Curand, RunsInStreamOrder) {
  Generator generator;
  const Stream stream;
  ASSERT_OK(curandSetStream(generator.handle, stream));
  const DeviceMemory memory(64);
  ASSERT_OK(cudaMemset(memory.data, 0, 64));
  ASSERT_OK(cudaDeviceSynchronize());
  const auto draw = [&] {
    EXPECT_OK(curandGenerateUniform(generator.handle, memory.As<float>(), 16));
  };
  const Graph graph(stream, draw, cudaStreamCaptureModeRelaxed);
  float numbers[16] = {1};
  ASSERT_OK(cudaMemcpy(numbers, memory.data, 64, cudaMemcpyDeviceToHost));
  EXPECT_EQ(numbers[0], 0.0f) << "captured, not run";
}

TEST(Curand, RefusesWhatItCannotDo) {
  curandGenerator_st* none = nullptr;
  EXPECT_EQ(curandCreateGenerator(&none, 0), CURAND_STATUS_TYPE_ERROR);
  EXPECT_EQ(curandCreateGenerator(&none, kQuasiDefault), CURAND_STATUS_ARCH_MISMATCH);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(curandGenerateUniform(nullptr, nullptr, 1), CURAND_STATUS_NOT_INITIALIZED);
  Generator generator;
  float on_host[2] = {};
  EXPECT_EQ(curandGenerateUniform(generator.handle, on_host, 2), CURAND_STATUS_LAUNCH_FAILURE);
  EXPECT_EQ(curandGenerateNormal(generator.handle, on_host, 1, 0, 1),
            CURAND_STATUS_LENGTH_NOT_MULTIPLE);
}

}  // namespace
}  // namespace hostgpu::test
