// Provides jobs for the tests of this folder: ranks as threads of this process, and as other
// processes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/becomes.h"
#include "tests/support/must.h"
#include "transport/ranks.h"

namespace ucudnn::transport::test {

using ucudnn::test::Becomes;

inline constexpr Milliseconds kLong{60000};  // only a fault takes this long

// Returns a port that was free a moment ago.
inline uint16_t FreePort() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// Returns times that let faults be found soon. `silence` is longer than a loaded machine keeps a
// thread waiting.
inline Times ShortTimes() {
  Times times;
  times.heartbeat = Milliseconds(50);
  times.silence = Milliseconds(2000);
  times.unreachable = Milliseconds(600);
  times.handshake = Milliseconds(600);
  times.refusing = Milliseconds(3000);
  times.timeout = kLong;
  return times;
}

struct Job {
  explicit Job(int ranks, int groups = 1) : size(ranks), group_size(ranks / groups) {
    meeting.place = {"127.0.0.1", FreePort(), {}};
    meeting.token = "secret";
    meeting.version = "1.2.3";
    meeting.terms = {{"UCUDNN_SPATIAL", "h4"}};
    meeting.times = ShortTimes();
  }
  Meeting Of(int rank) const {
    Meeting mine = meeting;
    mine.membership = {rank, size, rank / group_size, rank % group_size, group_size};
    return mine;
  }

  int size, group_size;
  Meeting meeting;
};

using JoinResult = Result<std::unique_ptr<Ranks>>;

// Runs body(0) to body(count - 1) at the same time, each on a thread of its own.
inline void OnThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<std::unique_ptr<JoinResult>> JoinThese(const std::vector<Meeting>& meetings) {
  std::vector<std::unique_ptr<JoinResult>> joined(meetings.size());
  OnThreads(static_cast<int>(meetings.size()), [&](int i) {
    joined[static_cast<size_t>(i)] =
        std::make_unique<JoinResult>(Ranks::Join(meetings[static_cast<size_t>(i)]));
  });
  return joined;
}

// Returns the meetings of all ranks of `job` except `missing`.
inline std::vector<Meeting> Meetings(const Job& job, int missing = -1) {
  std::vector<Meeting> all;
  for (int rank = 0; rank < job.size; ++rank) {
    if (rank != missing) all.push_back(job.Of(rank));
  }
  return all;
}

// Joins all ranks of `job` except `missing`, as threads of this process. Fails the test if a rank
// cannot join.
inline std::vector<std::unique_ptr<Ranks>> JoinAll(const Job& job, int missing = -1) {
  std::vector<std::unique_ptr<Ranks>> all;
  for (auto& joined : JoinThese(Meetings(job, missing))) {
    all.push_back(ucudnn::test::Must(std::move(*joined)));
  }
  return all;
}

// Joins and leaves at once. Returns the error if the rank cannot join, otherwise an empty text.
inline std::string JoinAndLeave(const Meeting& meeting) {
  JoinResult joined = Ranks::Join(meeting);
  if (!joined.ok()) return joined.message();
  (*joined)->Leave("");
  return {};
}

// Returns the failure that `ranks` learns of within 15 s, the time that users are promised. Fails
// the test if there is none.
inline std::string FailureOf(const Ranks& ranks) {
  EXPECT_TRUE(Becomes([&] { return ranks.Failure().has_value(); }, Milliseconds(15000)));
  return ranks.Failure().value_or("none");
}

// A forked process that runs `body` and writes lines for this process. REQUIRES: this process has
// started no thread before.
class Child {
 public:
  using Tell = std::function<void(const std::string&)>;
  explicit Child(const std::function<void(const Tell& tell)>& body) {
    EXPECT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(pipe_[1]);
      return;
    }
    close(pipe_[0]);
    body([this](const std::string& line) {
      const std::string text = line + "\n";
      [[maybe_unused]] const ssize_t written = write(pipe_[1], text.data(), text.size());
    });
    _exit(0);
  }
  Child(const Child&) = delete;
  ~Child() {
    Kill();
    close(pipe_[0]);
  }
  // Returns the next line that the child writes, or "ended" if the child has closed its pipe.
  std::string Heard() const {
    std::string line;
    char byte;
    while (read(pipe_[0], &byte, 1) == 1) {
      if (byte == '\n') return line;
      line += byte;
    }
    return "ended";
  }
  void Signal(int number) const { kill(pid_, number); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  int pipe_[2] = {};
  pid_t pid_ = 0;
};

// Returns the body of a child process that is a rank: it joins, writes "joined" or the error, and
// if it has joined, runs `body`.
inline std::function<void(const Child::Tell&)> RankThat(
    const Meeting& meeting, const std::function<void(Ranks&, const Child::Tell&)>& body) {
  return [meeting, body](const Child::Tell& tell) {
    JoinResult joined = Ranks::Join(meeting);
    tell(joined.ok() ? "joined" : joined.message());
    if (joined.ok()) body(**joined, tell);
  };
}

inline void SleepForLong() { std::this_thread::sleep_for(kLong); }

}  // namespace ucudnn::transport::test
