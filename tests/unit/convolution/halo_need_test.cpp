// Tests HaloNeedOf, which counts the elements that a rank must at least send and receive. The
// counts must equal the numbers of elements that windows read. Messages must hold at least as many
// elements.
#include "convolution/halo_need.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cut_convolution.h"
#include "tests/support/problem.h"

namespace ucudnn {
namespace {

// Returns the positions of the exchanged tensor that `part` reads along one axis. Tries every
// position.
std::vector<int64_t> ReadAlong(const AxisCut& cut, int part, Exchanged exchanged) {
  const bool forward = exchanged == Exchanged::kElements;
  const Interval own = (forward ? cut.windows : cut.elements)[static_cast<size_t>(part)];
  const int64_t all = (forward ? cut.elements : cut.windows).back().end;
  std::vector<int64_t> positions;
  for (int64_t position = 0; position < all; ++position) {
    bool is_read = false;
    for (int64_t result = own.begin; result < own.end; ++result) {
      const int64_t window = forward ? result : position, element = forward ? position : result;
      const int64_t from_first = element - (window * cut.window.stride - cut.window.pad);
      is_read = is_read || (from_first >= 0 && from_first < cut.window.Extent() &&
                            from_first % cut.window.dilation == 0);
    }
    if (is_read) positions.push_back(position);
  }
  return positions;
}

// Returns the number of positions owned by `owner` that `reader` reads.
int64_t ReadOf(const Stripes& owner, const Stripes& reader) {
  const Exchanged exchanged = ExchangedBy(owner.local.operation);
  int64_t product = 1;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisCut& cut = owner.cuts[axis];
    const auto& owned = exchanged == Exchanged::kElements ? cut.elements : cut.windows;
    const Interval& own = owned[static_cast<size_t>(owner.part[axis])];
    int64_t count = 0;
    for (const int64_t position : ReadAlong(cut, reader.part[axis], exchanged)) {
      if (position >= own.begin && position < own.end) ++count;
    }
    product *= count;
  }
  return product;
}

// Messages hold whole rows, including columns that no window reads. So they may hold more than
// HaloNeedOf counts.
TEST(HaloNeed, OfAnyStripesIsWhatIsReadAndMessagesHoldIt) {
  constexpr unsigned kSeed = 20261125;
  constexpr int kRounds = 2000;
  test::RandomCuts cuts(kSeed);
  int exchanging = 0, least = 0;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    const test::CutConvolution cut = cuts.Next(test::kOperations[round % 3]);
    const std::vector<Stripes> cells = cut.Cells();
    for (const Stripes& stripes : cells) {
      SCOPED_TRACE(cut.Text() + "; seed " + std::to_string(kSeed) + ", " + std::to_string(round));
      int64_t received = 0, sent = 0, read = 0, given = 0;
      for (const HaloMessage& message : stripes.Received()) received += message.ElementsPerImage();
      for (const HaloSend& send : stripes.Sent()) {
        for (const SpatialBox& box : send.boxes) sent += Elements(box);
      }
      for (const Stripes& other : cells) {
        if (other.cell == stripes.cell) continue;
        read += ReadOf(other, stripes);
        given += ReadOf(stripes, other);
      }
      const HaloNeed need = HaloNeedOf(stripes);
      const Exchanged exchanged = ExchangedBy(cut.whole.operation);
      for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
        const AxisCut& of = stripes.cuts[axis];
        EXPECT_EQ(need.axes[axis].owned,
                  exchanged == Exchanged::kElements ? of.elements : of.windows);
        for (int part = 0; part < of.Parts(); ++part) {
          const std::vector<int64_t> positions = ReadAlong(of, part, exchanged);
          const Interval hull =
              positions.empty() ? Interval{} : Interval{positions.front(), positions.back() + 1};
          EXPECT_EQ(need.axes[axis].needed[static_cast<size_t>(part)], hull);
        }
      }
      EXPECT_EQ(need.received, read);
      EXPECT_EQ(need.sent, given);
      EXPECT_LE(need.received, received);
      EXPECT_LE(need.sent, sent);
      if (received == 0) continue;
      ++exchanging;
      if (need.received == received) ++least;
    }
  }
  EXPECT_GT(exchanging, kRounds / 2);
  EXPECT_GT(least, exchanging * 3 / 4);
}

}  // namespace
}  // namespace ucudnn
