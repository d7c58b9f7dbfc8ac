#include "transport/strangers.h"

#include <cerrno>

namespace ucudnn::transport {
namespace {

constexpr size_t kMostStrangers = 64;
constexpr int kAcceptedAtOnce = 64;
constexpr Milliseconds kPauseWithoutRoom{100};

}  // namespace

Strangers::Strangers(Descriptor listening, std::string token, const Meeting& meeting)
    : listening_(std::move(listening)),
      token_(std::move(token)),
      version_(meeting.version),
      patience_(meeting.times.handshake) {}

void Strangers::Watch(std::vector<pollfd>& wait) const {
  const bool accepting = Clock::now() >= accepting_from_;
  if (listening_) {
    wait.push_back({.fd = listening_.get(), .events = static_cast<short>(accepting ? POLLIN : 0)});
  }
  for (const Stranger& stranger : waiting_) {
    wait.push_back(
        {.fd = stranger.connection->descriptor(), .events = stranger.connection->events()});
  }
}

std::vector<Arrival> Strangers::Serve(std::span<const pollfd> ready) {
  std::vector<Arrival> arrivals;
  const Clock::time_point now = Clock::now();
  const size_t first = listening_ ? 1 : 0;
  std::deque<Stranger> staying;
  for (size_t i = 0; i < waiting_.size() && first + i < ready.size(); ++i) {
    Stranger& stranger = waiting_[i];
    bool stays = now - stranger.since < patience_;
    if (ready[first + i].revents != 0) stays = stays && Hear(stranger, arrivals);
    if (stays) staying.push_back(std::move(stranger));
  }
  waiting_ = std::move(staying);
  if (listening_ && !ready.empty() && ready.front().revents != 0) Accept();
  return arrivals;
}

void Strangers::Accept() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Descriptor socket = AcceptFrom(listening_);
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // The system has no descriptor or memory left. The stranger that has waited longest is
        // dropped, so that ranks can connect.
        if (!waiting_.empty()) waiting_.pop_front();
        accepting_from_ = Clock::now() + kPauseWithoutRoom;
      }
      if (errno != EINTR && errno != ECONNABORTED) return;
      continue;
    }
    if (waiting_.size() >= kMostStrangers) waiting_.pop_front();
    waiting_.push_back(
        {std::make_unique<Connection>(std::move(socket), kLargestGreeting), Clock::now(), false});
  }
}

bool Strangers::Hear(Stranger& stranger, std::vector<Arrival>& arrivals) {
  Connection& connection = *stranger.connection;
  connection.Flush();
  connection.Receive();
  if (stranger.answered) {  // further data of the stranger is ignored
    Frame ignored;
    while (connection.TakeFrame(ignored) == Connection::Next::kFrame) {
    }
    return !connection.broken();  // malformed data has broken the connection, too
  }
  Frame frame;
  const Connection::Next next = connection.TakeFrame(frame);
  if (next == Connection::Next::kNone) return !connection.broken();
  if (next == Connection::Next::kMalformed) return false;
  if (frame.kind != FrameKind::kHello && frame.kind != FrameKind::kProbe) return false;
  const Greeting greeting = CompareToken(frame.body, token_);
  if (greeting == Greeting::kNone) return false;
  if (greeting == Greeting::kRight && frame.kind == FrameKind::kHello) {
    Arrival& arrival = arrivals.emplace_back();
    arrival.hello = UnpackHello(frame.body, version_);
    arrival.connection = std::move(stranger.connection);
    return false;
  }
  const bool probe = greeting == Greeting::kRight;
  if (!probe && frame.kind == FrameKind::kHello) {
    if (other_tokens_.count++ == 0) other_tokens_.first = Clock::now();
    other_tokens_.last_from = OtherSideOf(connection.descriptor());
  }
  connection.Queue({probe ? FrameKind::kAccepted : FrameKind::kOtherToken, 0, {}});
  connection.Flush();
  stranger.answered = true;
  return true;
}

void Strangers::SeeOff(std::unique_ptr<Connection> connection) {
  connection->Flush();
  waiting_.push_back({std::move(connection), Clock::now(), true});
}

void Strangers::Close() {
  listening_.Close();
  waiting_.clear();
}

bool Strangers::Flushed() const {
  for (const Stranger& stranger : waiting_) {
    if (stranger.connection->queued() > 0) return false;
  }
  return true;
}

}  // namespace ucudnn::transport
