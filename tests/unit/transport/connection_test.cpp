// Tests frames over a socket pair: complete frames, frames in pieces, frames that are too large,
// and garbage.
#include "transport/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <fcntl.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ucudnn::transport {
namespace {

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    raw_ = Descriptor(ends[0]);
    connection_ = std::make_unique<Connection>(Descriptor(ends[1]), 1000);
  }
  void Write(std::string_view bytes) const {
    ASSERT_EQ(send(raw_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Bytes(const Frame& frame) {
    std::vector<char> bytes;
    AppendFrame(bytes, frame);
    return std::string(bytes.begin(), bytes.end());
  }
  Descriptor raw_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, FramesArriveWholeHoweverTheBytesAreCut) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<std::string> sent;
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    sent.emplace_back(random() % 1001, static_cast<char>('a' + i % 26));
    bytes += Bytes({FrameKind::kPost, i, sent.back()});
  }
  size_t received = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t size = std::min<size_t>(rest.size(), 1 + random() % 3000);
    Write(rest.substr(0, size));
    rest.remove_prefix(size);
    EXPECT_TRUE(connection_->Receive());
    Frame frame;
    while (connection_->TakeFrame(frame) == Connection::Next::kFrame) {
      ASSERT_LT(received, sent.size());
      EXPECT_EQ(frame.kind, FrameKind::kPost);
      EXPECT_EQ(frame.from, static_cast<int>(received));
      EXPECT_EQ(frame.body, sent[received]);
      ++received;
    }
  }
  EXPECT_EQ(received, sent.size());
}

TEST_F(ConnectionTest, ABodyOverTheBoundBreaksIt) {
  const std::string body(1001, 'x');
  Write(Bytes({FrameKind::kPost, 0, body}));
  connection_->Receive();
  Frame frame;
  EXPECT_EQ(connection_->TakeFrame(frame), Connection::Next::kMalformed);
  EXPECT_TRUE(connection_->broken());
}

TEST_F(ConnectionTest, AnUnknownKindBreaksIt) {
  for (const uint32_t kind : {0u, static_cast<uint32_t>(FrameKind::kHello) - 1,
                              static_cast<uint32_t>(FrameKind::kLeave) + 1, 0xffffffffu}) {
    ConnectionTest::SetUp();
    int ends[2] = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    raw_ = Descriptor(ends[0]);
    connection_ = std::make_unique<Connection>(Descriptor(ends[1]), 1000);
    Write(Bytes({static_cast<FrameKind>(kind), 0, "body"}));
    connection_->Receive();
    Frame frame;
    EXPECT_EQ(connection_->TakeFrame(frame), Connection::Next::kMalformed) << kind;
  }
}

TEST_F(ConnectionTest, GarbageBreaksItOrWaitsForMore) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::string garbage(500, '\0');
  for (char& c : garbage) c = static_cast<char>(random());
  garbage[3] = '\x7f';  // a body that is too large
  Write(garbage);
  connection_->Receive();
  Frame frame;
  EXPECT_EQ(connection_->TakeFrame(frame), Connection::Next::kMalformed);
}

TEST_F(ConnectionTest, WhatWasSaidBeforeTheEndIsHeard) {
  Write(Bytes({FrameKind::kFail, 3, "line"}));
  raw_.Close();
  connection_->Queue({FrameKind::kPost, 0, "nobody reads this"});
  connection_->Flush();  // raises no SIGPIPE
  connection_->Receive();
  Frame frame;
  ASSERT_EQ(connection_->TakeFrame(frame), Connection::Next::kFrame);
  EXPECT_EQ(frame.body, "line");
  connection_->Receive();
  EXPECT_TRUE(connection_->broken());
  EXPECT_EQ(connection_->why_broken(), "its connection was closed");
}

TEST_F(ConnectionTest, WhatTheSocketDoesNotTakeIsSentLater) {
  const std::string body(1000, 'y');
  for (int i = 0; i < 2000; ++i) connection_->Queue({FrameKind::kPost, i, body});
  connection_->Flush();
  EXPECT_GT(connection_->queued(), 0u);
  size_t received = 0;
  std::vector<char> room(1 << 16);
  while (received < 2000 * (1000 + kFrameHeader)) {
    const ssize_t got = recv(raw_.get(), room.data(), room.size(), 0);
    if (got > 0) received += static_cast<size_t>(got);
    connection_->Flush();
  }
  EXPECT_EQ(connection_->queued(), 0u);
}

TEST_F(ConnectionTest, ShutdownIsHeardAlthoughAnotherHoldsTheSocket) {
  const Descriptor held(dup(connection_->descriptor()));
  connection_->Shutdown();
  connection_.reset();
  char byte;
  EXPECT_EQ(recv(raw_.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace ucudnn::transport
