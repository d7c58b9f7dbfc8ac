#include "transport/meeting_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ucudnn::transport {
namespace {

TEST(MeetingPlace, IsReadAndWritten) {
  for (const char* const text : {"tcp://host-1.example.org:29500", "tcp://10.0.0.1:1",
                                 "tcp://[fe80::1]:65535", "file:/tmp/a b"}) {
    const Result<MeetingPlace> place = ParseMeetingPlace(text);
    ASSERT_TRUE(place.ok()) << place.message();
    EXPECT_EQ(place->Text(), text);
  }
  EXPECT_EQ(ParseMeetingPlace("tcp://[::1]:5")->host, "::1");
  EXPECT_EQ(ParseMeetingPlace("tcp://a:29500")->port, 29500);
  EXPECT_TRUE(ParseMeetingPlace("file:/x")->in_file());
}

TEST(MeetingPlace, WhatIsNoneIsRefusedWithItsText) {
  for (const char* const text :
       {"", "tcp://", "tcp://host", "tcp://:1", "tcp://host:", "tcp://host:0", "tcp://host:65536",
        "tcp://host:1x", "tcp://host:-1", "tcp://[::1:5", "tcp://a b:1", "tcp://a/b:1",
        "file:", "file:relative", "file://", "udp://a:1", "a:1", "tcp://a\n:1", "TCP://a:1"}) {
    const Result<MeetingPlace> place = ParseMeetingPlace(text);
    if (std::string_view(text) == "file://") {  // the root folder: no file, but an absolute path
      EXPECT_TRUE(place.ok());
      continue;
    }
    ASSERT_FALSE(place.ok()) << text;
    EXPECT_THAT(place.message(), ::testing::HasSubstr("tcp://host:port and file:PATH")) << text;
  }
}

TEST(MeetingPlace, OurPortIsNeverTheLaunchersAndNeighboursGetDifferentOnes) {
  uint16_t before = 0;
  for (int port = 1; port <= 65535; ++port) {
    const uint16_t ours = PortBesideLauncher(static_cast<uint16_t>(port));
    EXPECT_NE(ours, port);
    EXPECT_NE(ours, before);
    EXPECT_GE(ours, 10000);
    EXPECT_LE(ours, 32767);
    before = ours;
  }
  EXPECT_EQ(PortBesideLauncher(29500), 14651);  // 10000 + (19500 + 7919) mod 22768
}

}  // namespace
}  // namespace ucudnn::transport
