#include "cudnn/part_call.h"

#include <gtest/gtest.h>

#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

char* Place(uintptr_t address) { return reinterpret_cast<char*>(address); }

TEST(Offsets, AreThoseOfTheImagesBefore) {
  ConvolutionProblem problem = test::ProblemWith({.n = 10, .c = 3, .k = 5, .x = {1, 6, 7}});
  problem.type = DataType::kHalf;
  problem.x_strides[0] = 200;
  problem.y_strides[0] = 300;
  const FusedOperand operands[] = {{7, DataType::kFloat, {}, 20}, {8, DataType::kHalf, {32}, 64}};
  const Offsets at = AtImage(problem, operands, 3);
  EXPECT_EQ(at.x, 3u * 200 * 2);
  EXPECT_EQ(at.w, 0u);
  EXPECT_EQ(at.y, 3u * 300 * 2);
  EXPECT_EQ(at.fused[0], 0u);
  EXPECT_EQ(at.fused[1], 3u * 64);
  // The offset of image 5 is 5 * 2^40 elements of 2 bytes, which does not fit 32 bits.
  problem.x_strides[0] = int64_t{1} << 40;
  EXPECT_EQ(AtImage(problem, {}, 5).x, size_t{10} << 40);
}

// The last tile computes rows 3 to 5 of the output for the second half of the output channels, from
// rows 2 to 5 of the image.
TEST(Offsets, OfATileAreThoseOfItsFirstElements) {
  const ConvolutionProblem whole =
      test::ProblemWith({.n = 1, .c = 3, .k = 4, .x = {1, 6, 8}, .type = DataType::kHalf});
  const auto cut = CutIntoTiles(whole, {.k = 2, .spatial = {1, 2, 1}});
  ASSERT_TRUE(cut.ok()) << cut.message();
  const FusedOperand operands[] = {
      {7, DataType::kFloat, whole.y_strides, 4 * 48 * 4},  // like y
      {8, DataType::kHalf, {0, 1}, 4 * 2},                 // one value for each channel
      {9, DataType::kHalf, {0, 0, 0, 8, 1}, 48 * 2}};      // one value for each pixel
  const Tile& last = cut->tiles.back();
  ASSERT_EQ(last.y[kAxisC], (Interval{2, 4}));
  ASSERT_EQ(last.y[kAxisH], (Interval{3, 6}));
  ASSERT_EQ(last.x[kAxisH], (Interval{2, 6}));
  const Offsets at = AtTile(whole, operands, last);
  EXPECT_EQ(at.x, 2u * 8 * 2);
  EXPECT_EQ(at.w, 2u * 3 * 9 * 2);
  EXPECT_EQ(at.y, (2u * 48 + 3 * 8) * 2);
  EXPECT_EQ(at.fused[0], (2u * 48 + 3 * 8) * 4);
  EXPECT_EQ(at.fused[1], 2u * 2);
  EXPECT_EQ(at.fused[2], 3u * 8 * 2);
}

class PartCallTest : public ::testing::Test {
 protected:
  PartCallTest() {
    whole_.x = Place(0x10000000);
    whole_.w = Place(0x20000000);
    whole_.y = Place(0x30000000);
    whole_.workspace = Place(0x40000000);
    whole_.workspace_bytes = 77;
    whole_.algorithm = 5;
    at_.x = 16;
    at_.w = 32;
    at_.y = 48;
    at_.fused = {0, 64};
  }

  ConvolutionCall whole_;
  Offsets at_;
};

TEST_F(PartCallTest, MovesTheTensorsAndNothingElse) {
  const ConvolutionCall part = PartCall(whole_, at_).get();
  EXPECT_EQ(part.x, Place(0x10000010));
  EXPECT_EQ(part.w, Place(0x20000020));
  EXPECT_EQ(part.y, Place(0x30000030));
  EXPECT_EQ(part.workspace, whole_.workspace);
  EXPECT_EQ(part.workspace_bytes, 77u);
  EXPECT_EQ(part.algorithm, 5);
  EXPECT_EQ(part.bias, nullptr);
  EXPECT_EQ(part.fused, nullptr);
  EXPECT_EQ(part.pooling, nullptr);
}

TEST_F(PartCallTest, MovesZWithYAndLeavesABiasWhereItIs) {
  BiasActivation bias;
  bias.z = Place(0x50000000);
  bias.bias = Place(0x60000000);
  whole_.bias = &bias;
  PartCall part(whole_, at_);
  EXPECT_EQ(part.get().bias->z, Place(0x50000030));
  EXPECT_EQ(part.get().bias->bias, Place(0x60000000));
  EXPECT_EQ(bias.z, Place(0x50000000));
  bias.z = nullptr;
  PartCall without(whole_, at_);
  EXPECT_EQ(without.get().bias->z, nullptr);
}

TEST_F(PartCallTest, MovesFusedOperandsEachByItsOwnOffset) {
  const FusedOperand operands[] = {{7}, {8}};
  FusedPointers fused;
  fused.operands = operands;
  fused.pointers = {Place(0x50000000), Place(0x60000000)};
  whole_.fused = &fused;
  PartCall part(whole_, at_);
  EXPECT_EQ(part.get().fused->pointers[0], Place(0x50000000));
  EXPECT_EQ(part.get().fused->pointers[1], Place(0x60000040));
  EXPECT_EQ(fused.pointers[1], Place(0x60000000));
}

TEST_F(PartCallTest, MovesTheTensorsOfAPooling) {
  const PoolingOperands pooling = {Place(0x50000000), Place(0x60000000)};
  whole_.pooling = &pooling;
  PartCall part(whole_, at_);
  EXPECT_EQ(part.get().pooling->x, Place(0x50000010));
  EXPECT_EQ(part.get().pooling->y, Place(0x60000030));
}

}  // namespace
}  // namespace ucudnn::cudnn
