#include "command/ranks/terminal_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ucudnn::command {

TerminalInput::~TerminalInput() {
  CloseReader();
  Close();
}

Status TerminalInput::Open() {
  reader_ = STDIN_FILENO;
  if (isatty(STDIN_FILENO) == 0) return Status::Ok();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::Error(std::string("pipe: ") + strerror(errno));
  reader_ = ends[0];
  writer_ = ends[1];
  owns_reader_ = true;
  fcntl(writer_, F_SETFL, O_NONBLOCK);
  return Status::Ok();
}

void TerminalInput::CloseReader() {
  if (owns_reader_) close(reader_);
  owns_reader_ = false;
}

void TerminalInput::Close() {
  if (writer_ >= 0) close(writer_);
  writer_ = -1;
}

int TerminalInput::wants_to_read() const {
  if (writer_ < 0 || !typed_.empty()) return -1;
  return tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
}

int TerminalInput::wants_to_write() const { return typed_.empty() ? -1 : writer_; }

void TerminalInput::Read() {
  char bytes[4096];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) return Close();
  typed_.assign(bytes, static_cast<size_t>(count));
  Write();
}

void TerminalInput::Write() {
  const ssize_t taken = write(writer_, typed_.data(), typed_.size());
  if (taken < 0 && (errno == EINTR || errno == EAGAIN)) return;
  // Other errors are final: nobody reads the pipe any more.
  if (taken < 0) {
    typed_.clear();
    return Close();
  }
  typed_.erase(0, static_cast<size_t>(taken));
}

}  // namespace ucudnn::command
