// Runs ranks as child processes in tests. The parent, which must not have touched CUDA, passes on
// the texts that the ranks gather. When a rank is gone, it makes the others abort, as the control
// plane does.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/transport/exchanging_ranks.h"

namespace ucudnn::transport::testing {

inline bool SendAll(int socket, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  for (ssize_t sent; bytes > 0; next += sent, bytes -= sent) {
    sent = send(socket, next, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
  }
  return true;
}

inline bool ReceiveAll(int socket, void* data, size_t bytes) {
  char* next = static_cast<char*>(data);
  for (ssize_t received; bytes > 0; next += received, bytes -= received) {
    received = recv(socket, next, bytes, 0);
    if (received <= 0) return false;
  }
  return true;
}

inline bool SendText(int socket, const std::string& text) {
  const uint32_t bytes = text.size();
  return SendAll(socket, &bytes, sizeof bytes) && SendAll(socket, text.data(), bytes);
}

inline bool ReceiveText(int socket, std::string* text) {
  uint32_t bytes = 0;
  if (!ReceiveAll(socket, &bytes, sizeof bytes)) return false;
  text->resize(bytes);
  return ReceiveAll(socket, text->data(), bytes);
}

// A rank's gatherer. Its thread aborts the channel when the parent says that a rank is gone.
class ProcessGatherer : public Gatherer {
 public:
  ProcessGatherer(int texts, int alarm, int size) : texts_(texts), alarm_(alarm), size_(size) {
    std::thread([this] {
      char byte = 0;
      (void)!read(alarm_, &byte, 1);
      std::lock_guard lock(mutex_);
      failed_ = true;
      if (channel_) channel_->Abort();
    }).detach();
  }
  void Guard(Channel* channel) {
    std::lock_guard lock(mutex_);
    channel_ = channel;
    if (failed_ && channel_) channel_->Abort();
  }
  Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
    std::vector<std::string> all(size_);
    bool good = SendText(texts_, std::string(mine));
    for (std::string& text : all) good = good && ReceiveText(texts_, &text);
    if (!good) return Status::Error("the parent has given up");
    return all;
  }
  bool failed() {
    std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  const int texts_, alarm_, size_;
  std::mutex mutex_;
  Channel* channel_ = nullptr;
  bool failed_ = false;
};

struct RankProcess {
  int rank, size;
  RankDevice& device;
  ProcessGatherer& gatherer;
  ChannelSetup setup;
};

constexpr int kGood = 0, kFailed = 2;  // exit statuses: the channel worked; the channel failed

// Runs `body` with the channel that `open` opens for the rank. If another rank is gone,
// self.gatherer aborts the channel meanwhile. Returns the exit status that `body` returns, or 1 if
// the channel does not open.
inline int WithChannel(RankProcess& self, Open open, const std::function<int(Channel&)>& body) {
  const Result<std::unique_ptr<Channel>> channel = open(self.setup);
  EXPECT_TRUE(channel.ok()) << channel.message();
  if (!channel.ok()) return 1;
  self.gatherer.Guard(channel->get());
  const int status = body(**channel);
  self.gatherer.Guard(nullptr);
  return status;
}

// Kills this process after a time of less than 20 ms, which `seed` determines.
inline void KillSelfLater(unsigned seed) {
  std::thread([time = std::chrono::microseconds(seed % 20000)] {
    std::this_thread::sleep_for(time);
    kill(getpid(), SIGKILL);
  }).detach();
}

inline bool Exited(int status, int code) {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

// Expects that `victim` was killed, and that the channels of all other ranks failed.
inline void ExpectThatOneWasKilled(const std::vector<int>& ended, int victim) {
  for (int rank = 0; rank < static_cast<int>(ended.size()); ++rank) {
    const int status = ended[rank];
    EXPECT_TRUE(rank == victim ? WIFSIGNALED(status) : Exited(status, kFailed))
        << "rank " << rank << ": " << status;
  }
}

// Runs `body` for each of `size` ranks in a child process. Rank r has device r modulo `devices`.
// `body` returns the exit status of its rank; a failed expectation makes the status 1. Returns the
// statuses of waitpid, by rank.
inline std::vector<int> RunProcesses(int size, int devices,
                                     const std::function<int(RankProcess&)>& body) {
  struct Ends {
    int texts[2], alarm[2];
  };
  std::vector<Ends> ends(size);
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (Ends& end : ends) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end.texts), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end.alarm), 0);
  }
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      for (int other = 0; other < size; ++other) {
        close(ends[other].texts[0]);
        close(ends[other].alarm[0]);
        if (other == rank) continue;
        close(ends[other].texts[1]);
        close(ends[other].alarm[1]);
      }
      int status = 1;
      auto* const gatherer =  // leaked: its thread waits for ever
          new ProcessGatherer(ends[rank].texts[1], ends[rank].alarm[1], size);
      {
        RankDevice device(rank % devices);
        RankProcess self{rank, size, device, *gatherer, {}};
        self.setup = {.driver = cuda::GetDriver(),
                      .context = device.context,
                      .rank = rank,
                      .size = size,
                      .gatherer = gatherer,
                      .timeout = milliseconds(20000),
                      .given_up = [gatherer] { return gatherer->failed(); },
                      .add = AddOnHost};
        status = body(self);
      }
      _exit(::testing::Test::HasFailure() ? 1 : status);
    }
    children.push_back(child);
  }
  for (Ends& end : ends) {
    close(end.texts[1]);
    close(end.alarm[1]);
  }
  // Passes texts on until the first rank is gone. After that no rank gathers any more.
  std::thread passing_on([&ends, size] {
    std::vector<std::string> texts(size);
    for (bool all = true; all;) {
      for (int rank = 0; rank < size && all; ++rank) {
        all = ReceiveText(ends[rank].texts[0], &texts[rank]);
      }
      for (int rank = 0; rank < size && all; ++rank) {
        for (const std::string& text : texts) all = all && SendText(ends[rank].texts[0], text);
      }
    }
  });
  // A rank that exits with 0 has done its work. Any other end of a rank makes all ranks abort.
  std::vector<int> ended(size, -1);
  for (int left = size; left > 0; --left) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    for (int rank = 0; rank < size; ++rank) {
      if (children[rank] == child) ended[rank] = status;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    for (Ends& end : ends) {
      shutdown(end.alarm[0], SHUT_RDWR);
      shutdown(end.texts[0], SHUT_RDWR);
    }
  }
  for (Ends& end : ends) shutdown(end.texts[0], SHUT_RDWR);
  passing_on.join();
  for (Ends& end : ends) {
    close(end.texts[0]);
    close(end.alarm[0]);
  }
  return ended;
}

}  // namespace ucudnn::transport::testing
