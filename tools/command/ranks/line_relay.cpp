#include "command/ranks/line_relay.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ucudnn::command {

LineOutput::LineOutput(int descriptor)
    : descriptor_(descriptor), is_terminal_(isatty(descriptor) != 0) {}

bool LineOutput::has_reader() const { return error_ != EPIPE && error_ != EIO && error_ != EBADF; }

void LineOutput::Add(int source, std::string_view text) {
  if (text.empty() || error_ != 0) return;
  if (unfinished_ >= 0 && unfinished_ != source) text_ += '\n';
  text_ += text;
  unfinished_ = text.back() == '\n' ? -1 : source;
}

void LineOutput::Write() {
  constexpr int kMostPieces = 32;
  for (int piece = 0; piece < kMostPieces && waiting() > 0; ++piece) {
    pollfd can{descriptor_, POLLOUT, 0};
    if (piece > 0 && (poll(&can, 1, 0) <= 0 || (can.revents & POLLOUT) == 0)) return;
    // A write of at most PIPE_BUF bytes to a pipe is atomic, so other writers cannot interrupt it.
    std::string_view text = std::string_view(text_).substr(written_, PIPE_BUF);
    if (const size_t end = text.rfind('\n'); end != std::string_view::npos) {
      text = text.substr(0, end + 1);
    }
    const ssize_t taken = write(descriptor_, text.data(), text.size());
    if (taken < 0) {
      if (errno == EINTR || errno == EAGAIN) return;
      error_ = errno;
      text_.clear();
      written_ = 0;
      return;
    }
    written_ += static_cast<size_t>(taken);
  }
  if (written_ == text_.size() || written_ > kMuch) {
    text_.erase(0, written_);
    written_ = 0;
  }
}

LineRelay::LineRelay(int source, int descriptor, LineOutput& output)
    : source_(source), descriptor_(descriptor), output_(&output) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

LineRelay::LineRelay(LineRelay&& other) noexcept
    : source_(other.source_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      output_(other.output_),
      line_(std::move(other.line_)),
      changed_(other.changed_) {}

void LineRelay::Hand() {
  output_->Add(source_, line_);
  line_.clear();
}

bool LineRelay::Read(Time now) {
  if (descriptor_ < 0) return false;
  char bytes[64 << 10];
  const ssize_t count = read(descriptor_, bytes, sizeof bytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (count <= 0) {
    Finish();
    return true;
  }
  const std::string_view text(bytes, static_cast<size_t>(count));
  const size_t end = text.rfind('\n');
  if (end != std::string_view::npos) {
    line_ += text.substr(0, end + 1);
    Hand();
    line_ = text.substr(end + 1);
  } else {
    line_ += text;
    if (line_.size() >= kLongestLine) Hand();
  }
  changed_ = now;
  return true;
}

void LineRelay::ShowUnfinished(Time now) {
  if (has_unfinished() && now - changed_ >= kPatience) Hand();
}

void LineRelay::Finish() {
  Hand();
  Close();
}

void LineRelay::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

}  // namespace ucudnn::command
