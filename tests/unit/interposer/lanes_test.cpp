// Whose calls are whose, for the report.
#include "interposer/lanes.h"

#include <gtest/gtest.h>

#include "interposer/session.h"

namespace ucudnn::interposer {
namespace {

const char kHandles[4] = {};

CUstream Stream(uintptr_t number) { return reinterpret_cast<CUstream>(number * 16); }

uint64_t Bit(int number) { return uint64_t{1} << number; }

TEST(Lanes, AreHandlesOnStreamsInTheOrderTheyCame) {
  Lanes lanes;
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[1], false, Stream(1)), Bit(1));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, nullptr), Bit(2));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, CU_STREAM_LEGACY), Bit(2)) << "the default by name";
}

TEST(Lanes, OrderedHandlesAreOneWhateverTheirStream) {
  Lanes lanes;
  EXPECT_EQ(lanes.BitOf(&kHandles[0], true, Stream(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], true, Stream(2)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, nullptr), Bit(1));
}

TEST(Lanes, AHandleMadeAnewGoesOnWhereTheLastOneOnItsStreamWas) {
  Lanes lanes;
  lanes.BitOf(&kHandles[0], false, Stream(1));
  lanes.BitOf(&kHandles[0], false, Stream(2));
  EXPECT_EQ(lanes.BitOf(&kHandles[1], false, Stream(2)), Bit(2)) << "both are there";
  lanes.Leave(&kHandles[0]);
  EXPECT_EQ(lanes.BitOf(&kHandles[2], false, Stream(2)), Bit(1));
  EXPECT_EQ(lanes.BitOf(&kHandles[3], false, Stream(2)), Bit(3));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(1)), Bit(0));
}

TEST(Lanes, TheLastStandsForAllThatFindNoNumber) {
  Lanes lanes;
  for (int stream = 0; stream < Lanes::kOthers; ++stream) {
    EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(stream)), Bit(stream));
  }
  for (const int stream : {100, 200, 100}) {
    EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(stream)), Bit(Lanes::kOthers));
  }
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, Stream(5)), Bit(5));
}

TEST(Session, ForgetsItsLaneOnlyWhereThatMayBeAnother) {
  Session session;
  session.Open(nullptr, 0, Stream(1));
  EXPECT_EQ(session.lane(), 0u);
  session.set_lane(4);
  session.set_stream(Stream(1));
  EXPECT_EQ(session.lane(), 4u);
  session.set_stream(Stream(2));
  EXPECT_EQ(session.lane(), 0u);
  session.set_lane(8);
  session.set_order(&session);
  EXPECT_EQ(session.lane(), 0u);
}

TEST(SessionTable, WhatIsOrderedWithTheSameIsOrdered) {
  SessionTable table;
  Session* sessions[4] = {};
  for (int i = 0; i < 4; ++i) {
    sessions[i] = table.FindOrOpen(reinterpret_cast<cudnnHandle_t>(const_cast<char*>(&kHandles[i])),
                                   [](Session& session) { session.Open(nullptr, 0, nullptr); });
  }
  table.Order(*sessions[0], *sessions[1]);
  table.Order(*sessions[2], *sessions[3]);
  EXPECT_NE(sessions[0]->order(), nullptr);
  EXPECT_EQ(sessions[0]->order(), sessions[1]->order());
  EXPECT_NE(sessions[0]->order(), sessions[2]->order());
  table.Order(*sessions[1], *sessions[2]);
  for (const Session* session : sessions) EXPECT_EQ(session->order(), sessions[0]->order());
}

}  // namespace
}  // namespace ucudnn::interposer
