// Tests that cudnnOpTensor equals naive loops. Operands are small integers, so results are exact.
#include <cmath>

#include "tests/unit/host/cudnn/layer_test.h"

namespace hostgpu::test {
namespace {

constexpr Index kOpDims = {2, 3, 2, 4, 5};

class OpTensorTest : public LayerTest {
 protected:
  OpTensorTest() { cudnnCreateOpTensorDescriptor(&op_); }
  ~OpTensorTest() override { cudnnDestroyOpTensorDescriptor(op_); }

  void Set(cudnnOpTensorOp_t op, cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN) {
    const bool wide = type_ == DataType::kDouble;
    ASSERT_OK(
        cudnnSetOpTensorDescriptor(op_, op, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, nan));
  }
  cudnnStatus_t Run(double alpha1, DeviceTensor& a, double alpha2, DeviceTensor& b, double beta,
                    DeviceTensor& c) {
    return Enqueue([&] {
      return cudnnOpTensor(handle_, op_, Scale(alpha1), Describe(a), a.data, Scale(alpha2),
                           Describe(b), b.data, Scale(beta), Describe(c), c.data);
    });
  }

  cudnnOpTensorDescriptor_t op_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, OpTensorTest, EveryTypeAndLayout());

TEST_P(OpTensorTest, EveryOperationRepeatsTheSecondOperand) {
  const auto f = [](cudnnOpTensorOp_t op, double a, double b) {
    switch (op) {
      case CUDNN_OP_TENSOR_ADD:
        return a + b;
      case CUDNN_OP_TENSOR_MUL:
        return a * b;
      case CUDNN_OP_TENSOR_MIN:
        return std::fmin(a, b);
      case CUDNN_OP_TENSOR_MAX:
        return std::fmax(a, b);
      case CUDNN_OP_TENSOR_SQRT:
        return std::sqrt(a);
      default:
        return 1 - a;
    }
  };
  for (const auto op : {CUDNN_OP_TENSOR_ADD, CUDNN_OP_TENSOR_MUL, CUDNN_OP_TENSOR_MIN,
                        CUDNN_OP_TENSOR_MAX, CUDNN_OP_TENSOR_SQRT, CUDNN_OP_TENSOR_NOT}) {
    Set(op);
    for (const Index& small : {Index{1, 3, 1, 1, 1}, Index{1, 1, 1, 1, 1}, Index{1, 3, 2, 4, 5},
                               Index{2, 1, 1, 4, 1}, kOpDims}) {
      SCOPED_TRACE(testing::Message() << "operation " << op);
      DeviceTensor a(kOpDims, layout_, type_), b(small, Layout::kNchw, type_),
          c(kOpDims, layout_, type_);
      a.Fill(random_);
      if (op == CUDNN_OP_TENSOR_SQRT) {
        a.FillWith([&](const Index& at) { return std::abs(a.At(at)); });
      }
      b.Fill(random_);
      c.Fill(random_);
      ASSERT_OK(Run(4, a, -3, b, 2, c));
      c.ForEach([&](const Index& at) {
        Index from;
        for (int i = 0; i < 5; ++i) from[i] = small[i] == 1 ? 0 : at[i];
        c.Set(at, f(op, 4 * a.At(at), -3 * b.At(from)) + 2 * c.At(at));
      });
      EXPECT_TRUE(c.Matches());
    }
  }
}

TEST_P(OpTensorTest, UpdatesInPlaceAndDoesNotReadTheOutputWithBetaZero) {
  Set(CUDNN_OP_TENSOR_ADD);
  DeviceTensor a(kOpDims, layout_, type_), b(kOpDims, layout_, type_), c(kOpDims, layout_, type_);
  a.Fill(random_);
  b.Fill(random_);
  LayerTest::Fill(c, NAN);
  ASSERT_OK(Run(1, a, -2, b, 0, c));
  ASSERT_OK(Run(1, a, -2, b, 0, a));
  c.ForEach([&](const Index& at) { c.Set(at, a.At(at) - 2 * b.At(at)); });
  a.ForEach([&](const Index& at) { a.Set(at, c.At(at)); });
  EXPECT_TRUE(c.Matches());
  EXPECT_TRUE(a.Matches());
}

TEST_P(OpTensorTest, ExtremesOfNaNs) {
  for (const auto op : {CUDNN_OP_TENSOR_MIN, CUDNN_OP_TENSOR_MAX}) {
    for (const auto nan : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
      Set(op, nan);
      DeviceTensor a(kOpDims, layout_, type_), b(kOpDims, layout_, type_),
          c(kOpDims, layout_, type_);
      LayerTest::Fill(a, NAN);
      LayerTest::Fill(b, 1);
      ASSERT_OK(Run(1, a, 1, b, 0, c));
      c.Download();
      EXPECT_EQ(std::isnan(c.At({1, 2, 0, 3, 4})), nan == CUDNN_PROPAGATE_NAN);
      if (nan == CUDNN_NOT_PROPAGATE_NAN) {
        EXPECT_EQ(c.At({1, 2, 0, 3, 4}), 1);
      }
    }
  }
}

TEST_P(OpTensorTest, OutputMayHaveAnotherTypeOfTheSamePrecision) {
  Set(CUDNN_OP_TENSOR_MUL);
  for (const DataType other :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
    DeviceTensor a(kOpDims, layout_, type_), b(kOpDims, layout_, type_), c(kOpDims, layout_, other);
    a.Fill(random_);
    b.Fill(random_);
    c.Fill(random_);
    const bool mixed = (other == DataType::kDouble) != (type_ == DataType::kDouble);
    ASSERT_EQ(Run(2, a, 3, b, 1, c), mixed ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS);
    if (!mixed) {
      c.ForEach([&](const Index& at) { c.Set(at, 6 * a.At(at) * b.At(at) + c.At(at)); });
    }
    EXPECT_TRUE(c.Matches());
  }
}

}  // namespace
}  // namespace hostgpu::test
