#include "options/launcher_note.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace ucudnn {
namespace {

// Listens as a launcher does, on a socket in the abstract namespace of Unix sockets.
class Listener {
 public:
  explicit Listener(const std::string& name) {
    descriptor_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Listener() { close(descriptor_); }

  std::optional<ReceivedNote> Next() {
    char bytes[4096];
    const ssize_t count = recv(descriptor_, bytes, sizeof bytes, 0);
    if (count < 0) return std::nullopt;
    return ReadLauncherNote(std::string_view(bytes, static_cast<size_t>(count)));
  }

 private:
  int descriptor_;
};

std::string TestSocket() { return "ucudnn-test-" + std::to_string(getpid()); }

TEST(LauncherNote, ArrivesAsItWasSent) {
  Listener listener(TestSocket());
  TellLauncher(TestSocket(), LauncherNote::kUnequal, 3, "rank 0 made 3 calls more");
  TellLauncher(TestSocket(), LauncherNote::kFailed, -1, "");
  std::optional<ReceivedNote> note = listener.Next();
  ASSERT_TRUE(note);
  EXPECT_EQ(note->note, LauncherNote::kUnequal);
  EXPECT_EQ(note->rank, 3);
  EXPECT_EQ(note->line, "rank 0 made 3 calls more");
  note = listener.Next();
  ASSERT_TRUE(note);
  EXPECT_EQ(note->note, LauncherNote::kFailed);
  EXPECT_EQ(note->rank, -1);
  EXPECT_EQ(note->line, "");
  EXPECT_FALSE(listener.Next());
}

TEST(LauncherNote, IsCutAndPrintable) {
  Listener listener(TestSocket());
  TellLauncher(TestSocket(), LauncherNote::kFailed, 0, std::string(5000, '\n'));
  const std::optional<ReceivedNote> note = listener.Next();
  ASSERT_TRUE(note);
  EXPECT_EQ(note->line, std::string(kLongestLauncherNote, ' '));
}

TEST(LauncherNote, WithoutALauncherNothingHappens) {
  Listener other(TestSocket());
  TellLauncher("", LauncherNote::kFailed, 0, "line");
  TellLauncher("ucudnn-test-nobody", LauncherNote::kFailed, 0, "line");
  TellLauncher(TestSocket() + std::string(5000, 'x'), LauncherNote::kFailed, 0, "line");
  EXPECT_FALSE(other.Next());
  TellLauncher(TestSocket(), LauncherNote::kFailed, 0, "line");
  EXPECT_TRUE(other.Next());
}

TEST(LauncherNote, AFullLauncherIsNotWaitedFor) {
  Listener listener(TestSocket());
  for (int i = 0; i < 10000; ++i) TellLauncher(TestSocket(), LauncherNote::kFailed, 0, "line");
  EXPECT_TRUE(listener.Next());
}

TEST(LauncherNote, OtherDatagramsAreNone) {
  for (const std::string& datagram :
       {std::string(), std::string("F"), std::string("X\0line", 6), std::string("\0\0", 2),
        std::string("F\0", 2) + std::string(kLongestLauncherNote + 1, 'x')}) {
    EXPECT_FALSE(ReadLauncherNote(datagram));
  }
}

}  // namespace
}  // namespace ucudnn
