// Tests that cudnnReduceTensor equals naive loops. Operands are small integers, so results are
// exact.
#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kSummedDims = {2, 3, 2, 4, 5};

class ReduceTensorTest : public LayerTest {
 protected:
  ReduceTensorTest() { cudnnCreateReduceTensorDescriptor(&sum_); }
  ~ReduceTensorTest() override { cudnnDestroyReduceTensorDescriptor(sum_); }

  void Set(cudnnReduceTensorOp_t operation) {
    const bool wide = type_ == DataType::kDouble;
    ASSERT_OK(cudnnSetReduceTensorDescriptor(
        sum_, operation, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
        CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
  }
  size_t Workspace(DeviceTensor& a, DeviceTensor& c) {
    size_t bytes = 0;
    EXPECT_OK(cudnnGetReductionWorkspaceSize(handle_, sum_, Describe(a), Describe(c), &bytes));
    return bytes;
  }
  cudnnStatus_t Run(double alpha, DeviceTensor& a, double beta, DeviceTensor& c, size_t bytes) {
    const DeviceMemory workspace(bytes);
    return Enqueue([&] {
      return cudnnReduceTensor(handle_, sum_, nullptr, 0, workspace.data, bytes, Scale(alpha),
                               Describe(a), a.data, Scale(beta), Describe(c), c.data);
    });
  }

  cudnnReduceTensorDescriptor_t sum_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, ReduceTensorTest, EveryTypeAndLayout());

TEST_P(ReduceTensorTest, SumsOverWhatTheResultHasOneOf) {
  Set(CUDNN_REDUCE_TENSOR_ADD);
  for (const Index& small : {Index{1, 3, 1, 1, 1}, Index{1, 1, 1, 1, 1}, Index{2, 3, 1, 4, 5},
                             Index{2, 1, 2, 4, 1}, kSummedDims}) {
    DeviceTensor a(kSummedDims, layout_, type_), c(small, layout_, type_);
    a.Fill(random_);
    c.Fill(random_);
    ASSERT_OK(Run(2, a, -3, c, Workspace(a, c)));
    c.ForEach([&](const Index& at) { c.Set(at, -3 * c.At(at)); });
    a.ForEach([&](const Index& at) {
      Index to;
      for (int i = 0; i < 5; ++i) to[i] = small[i] == 1 ? 0 : at[i];
      c.Set(to, c.At(to) + 2 * a.At(at));
    });
    EXPECT_TRUE(c.Matches());
  }
}

TEST_P(ReduceTensorTest, RefusesLessRoomThanItSaidAndOtherOperations) {
  Set(CUDNN_REDUCE_TENSOR_ADD);
  DeviceTensor a(kSummedDims, layout_, type_), c({2, 3, 1, 1, 1}, layout_, type_);
  const size_t bytes = Workspace(a, c);
  EXPECT_EQ(Run(1, a, 0, c, bytes - 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(Run(1, c, 0, a, bytes), CUDNN_STATUS_BAD_PARAM);
  Set(CUDNN_REDUCE_TENSOR_MAX);
  EXPECT_EQ(Run(1, a, 0, c, bytes), CUDNN_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace hostgpu::test
