// Tests pooling against naive loops. Data are small integers. The number of elements in every
// averaged window is a power of two. So every result is exact except for one rounding.
#include <cmath>
#include <map>

#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

struct PoolingCase {
  cudnnPoolingMode_t mode;
  int dim_count;
  std::array<int, 3> window, pad, stride;  // along depth, height, width
};

const PoolingCase kCases[] = {
    {CUDNN_POOLING_MAX, 4, {1, 3, 2}, {0, 1, 0}, {1, 2, 1}},
    {CUDNN_POOLING_MAX, 5, {2, 3, 3}, {1, 1, 2}, {1, 1, 2}},
    {CUDNN_POOLING_MAX_DETERMINISTIC, 4, {1, 2, 2}, {0, 0, 0}, {1, 2, 2}},
    {CUDNN_POOLING_MAX_DETERMINISTIC, 5, {3, 2, 1}, {2, 0, 0}, {2, 1, 3}},
    {CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, 4, {1, 2, 4}, {0, 1, 2}, {1, 1, 2}},
    {CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, 5, {2, 2, 2}, {1, 1, 1}, {2, 1, 1}},
    {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 4, {1, 2, 2}, {0, 1, 1}, {1, 2, 1}},
    {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 5, {2, 1, 2}, {1, 0, 1}, {1, 2, 1}},
};

class PoolingTest : public LayerTest {
 protected:
  PoolingTest() { cudnnCreatePoolingDescriptor(&pooling_); }
  ~PoolingTest() override { cudnnDestroyPoolingDescriptor(pooling_); }

  void Set(const PoolingCase& c, cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN) {
    const int from = 5 - c.dim_count;
    ASSERT_OK(cudnnSetPoolingNdDescriptor(pooling_, c.mode, nan, c.dim_count - 2,
                                          c.window.data() + from, c.pad.data() + from,
                                          c.stride.data() + from));
  }
  cudnnStatus_t Forward(const DeviceTensor& x, const DeviceTensor& y, int dim_count,
                        double alpha = 1, double beta = 0) {
    return cudnnPoolingForward(handle_, pooling_, Scale(alpha), Describe(x, dim_count), x.data,
                               Scale(beta), Describe(y, dim_count), y.data);
  }
  static Index Image(const PoolingCase& c) { return {2, 3, c.dim_count == 5 ? 4 : 1, 6, 5}; }
  Index Output(const PoolingCase& c) {
    Index y = Image(c);
    for (int i = 2; i < 5; ++i)
      y[i] = 1 + (y[i] + 2 * c.pad[i - 2] - c.window[i - 2]) / c.stride[i - 2];
    return y;
  }
  // Calls body(input index) for each element in the window of output `o`, in the order of the
  // image.
  template <class Body>
  static void ForEachInput(const PoolingCase& c, const DeviceTensor& x, const Index& o,
                           const Body& body) {
    x.ForEach([&](const Index& i) {
      if (i[0] != o[0] || i[1] != o[1]) return;
      for (int a = 0; a < 3; ++a) {
        const int tap = i[a + 2] - (o[a + 2] * c.stride[a] - c.pad[a]);
        if (tap < 0 || tap >= c.window[a]) return;
      }
      body(i);
    });
  }
  static bool IsMaximum(const PoolingCase& c) {
    return c.mode == CUDNN_POOLING_MAX || c.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
  static double Count(const PoolingCase& c, const DeviceTensor& x, const Index& o) {
    if (c.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING)
      return c.window[0] * c.window[1] * c.window[2];
    double inside = 0;
    ForEachInput(c, x, o, [&](const Index&) { ++inside; });
    return inside;
  }

  cudnnPoolingDescriptor_t pooling_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, PoolingTest, EveryTypeAndLayout());

TEST_P(PoolingTest, ForwardIsTheNaiveLoop) {
  for (const PoolingCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << "mode " << c.mode << ", " << c.dim_count << " dimensions");
    Set(c);
    DeviceTensor x(Image(c), layout_, type_), y(Output(c), layout_, type_);
    x.Fill(random_);
    y.Fill(random_);
    int dims[5];
    ASSERT_OK(
        cudnnGetPoolingNdForwardOutputDim(pooling_, Describe(x, c.dim_count), c.dim_count, dims));
    ASSERT_EQ(dims[c.dim_count - 1], y.dims[4]);
    ASSERT_OK(Enqueue([&] { return Forward(x, y, c.dim_count, 2, -1); }));
    y.ForEach([&](const Index& o) {
      double largest = -INFINITY, sum = 0;
      ForEachInput(c, x, o, [&](const Index& i) {
        largest = std::fmax(largest, x.At(i));
        sum += x.At(i);
      });
      y.Set(o, 2 * (IsMaximum(c) ? largest : sum / Count(c, x, o)) - y.At(o));
    });
    EXPECT_TRUE(y.Matches());
  }
}

TEST_P(PoolingTest, GradientsAddUpWhereTheWindowsOverlap) {
  for (const PoolingCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << "mode " << c.mode << ", " << c.dim_count << " dimensions");
    Set(c);
    DeviceTensor x(Image(c), layout_, type_), dx(Image(c), layout_, type_);
    DeviceTensor y(Output(c), layout_, type_), dy(Output(c), layout_, type_);
    x.Fill(random_);
    dx.Fill(random_);
    dy.Fill(random_);
    const auto x_desc = Describe(x, c.dim_count), y_desc = Describe(y, c.dim_count);
    ASSERT_OK(Forward(x, y, c.dim_count));
    ASSERT_OK(cudaStreamSynchronize(stream_));
    ASSERT_OK(Enqueue([&] {
      return cudnnPoolingBackward(handle_, pooling_, Scale(2), y_desc, y.data,
                                  Describe(dy, c.dim_count), dy.data, x_desc, x.data, Scale(-1),
                                  Describe(dx, c.dim_count), dx.data);
    }));
    std::map<Index, double> sums;
    dy.ForEach([&](const Index& o) {
      Index largest{};
      double value = -INFINITY;
      ForEachInput(c, x, o, [&](const Index& i) {
        if (!IsMaximum(c)) {
          sums[i] += dy.At(o) / Count(c, x, o);
        } else if (x.At(i) > value) {
          value = x.At(i);
          largest = i;
        }
      });
      if (IsMaximum(c)) sums[largest] += dy.At(o);
    });
    dx.ForEach([&](const Index& i) { dx.Set(i, 2 * sums[i] - dx.At(i)); });
    EXPECT_TRUE(dx.Matches());
  }
}

TEST_P(PoolingTest, OutputIsNotReadWithBetaZero) {
  const PoolingCase& c = kCases[1];
  Set(c);
  DeviceTensor x(Image(c), layout_, type_), dx(Image(c), layout_, type_);
  DeviceTensor y(Output(c), layout_, type_);
  LayerTest::Fill(x, 1);
  LayerTest::Fill(dx, NAN);
  LayerTest::Fill(y, NAN);
  const auto x_desc = Describe(x), y_desc = Describe(y);
  ASSERT_OK(Forward(x, y, 5, 3));
  ASSERT_OK(cudnnPoolingBackward(handle_, pooling_, Scale(0), y_desc, y.data, y_desc, y.data,
                                 x_desc, x.data, Scale(0), Describe(dx), dx.data));
  ASSERT_OK(cudaStreamSynchronize(stream_));
  y.ForEach([&](const Index& at) { y.Set(at, 3); });
  dx.ForEach([&](const Index& at) { dx.Set(at, 0); });
  EXPECT_TRUE(y.Matches());
  EXPECT_TRUE(dx.Matches());
}

TEST_P(PoolingTest, NaNsArePropagatedOnlyOnDemand) {
  const PoolingCase c = {CUDNN_POOLING_MAX, 4, {1, 2, 2}, {0, 0, 0}, {1, 2, 2}};
  for (const auto nan : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
    Set(c, nan);
    DeviceTensor x({1, 1, 1, 2, 4}, layout_, type_), y({1, 1, 1, 1, 2}, layout_, type_);
    LayerTest::Fill(x, -1);
    x.Set({0, 0, 0, 0, 1}, NAN);
    x.Upload();
    ASSERT_OK(Forward(x, y, 4));
    ASSERT_OK(cudaStreamSynchronize(stream_));
    y.Download();
    EXPECT_EQ(std::isnan(y.At({0, 0, 0, 0, 0})), nan == CUDNN_PROPAGATE_NAN);
    EXPECT_EQ(y.At({0, 0, 0, 0, 1}), -1);
  }
}

TEST_P(PoolingTest, RefusesWhatItWouldNotComputeAsTheRealLibraryDoes) {
  DeviceTensor x({2, 3, 1, 6, 5}, layout_, type_), y({2, 3, 1, 7, 6}, layout_, type_);
  // With a padding of 1 a window of one pixel lies in the padding alone.
  ASSERT_OK(cudnnSetPooling2dDescriptor(pooling_, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 1, 1, 1,
                                        1, 1, 1));
  EXPECT_EQ(Forward(x, y, 4), CUDNN_STATUS_NOT_SUPPORTED);
  // Without padding y has 5 x 4 pixels, not 7 x 6.
  ASSERT_OK(cudnnSetPooling2dDescriptor(pooling_, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0,
                                        1, 1, 1));
  EXPECT_EQ(Forward(x, y, 4), CUDNN_STATUS_BAD_PARAM);
}

TEST_P(PoolingTest, RefusesAStrideThatARefusedSetterNeverSet) {
  DeviceTensor x({2, 3, 1, 6, 5}, layout_, type_), y({2, 3, 1, 5, 4}, layout_, type_);
  EXPECT_EQ(cudnnSetPooling2dDescriptor(pooling_, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0,
                                        0, 1, 0),
            CUDNN_STATUS_BAD_PARAM);
  int dims[4];
  EXPECT_EQ(cudnnGetPoolingNdForwardOutputDim(pooling_, Describe(x, 4), 4, dims),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Forward(x, y, 4), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace hostgpu::test
