#include "interposer/session/ordered_handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::interposer {
namespace {

using testing::UnorderedElementsAre;

const int handles[6] = {};

TEST(OrderedHandles, AreThoseDeclaredWithEitherBefore) {
  OrderedHandles ordered;
  EXPECT_EQ(ordered.NameOf(&handles[0]), nullptr);
  const OrderedHandles::Lane first = ordered.Join(&handles[0], &handles[1]);
  EXPECT_THAT(first.handles, UnorderedElementsAre(&handles[0], &handles[1]));
  EXPECT_EQ(first.name, ordered.NameOf(&handles[1]));
  const OrderedHandles::Lane other = ordered.Join(&handles[4], &handles[5]);
  EXPECT_NE(other.name, first.name);
  ordered.Join(&handles[2], &handles[3]);
  const OrderedHandles::Lane joined = ordered.Join(&handles[3], &handles[1]);
  EXPECT_THAT(joined.handles,
              UnorderedElementsAre(&handles[0], &handles[1], &handles[2], &handles[3]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ordered.NameOf(&handles[i]), joined.name);
  EXPECT_EQ(ordered.NameOf(&handles[4]), other.name);
}

TEST(OrderedHandles, OneMayBeALaneOfItsOwn) {
  OrderedHandles ordered;
  const OrderedHandles::Lane alone = ordered.Join(&handles[0], &handles[0]);
  EXPECT_THAT(alone.handles, UnorderedElementsAre(&handles[0]));
  EXPECT_EQ(ordered.Leave(&handles[0]), alone.name);
}

TEST(OrderedHandles, TheLastToLeaveEndsTheLane) {
  OrderedHandles ordered;
  ordered.Join(&handles[0], &handles[1]);
  const void* const name = ordered.Join(&handles[1], &handles[2]).name;
  EXPECT_EQ(ordered.Leave(&handles[3]), nullptr);
  EXPECT_EQ(ordered.Leave(&handles[0]), nullptr);
  EXPECT_EQ(ordered.NameOf(&handles[0]), nullptr);
  EXPECT_EQ(ordered.Leave(&handles[2]), nullptr);
  EXPECT_EQ(ordered.NameOf(&handles[1]), name);
  EXPECT_EQ(ordered.Leave(&handles[1]), name);
  EXPECT_EQ(ordered.NameOf(&handles[1]), nullptr);
}

}  // namespace
}  // namespace ucudnn::interposer
