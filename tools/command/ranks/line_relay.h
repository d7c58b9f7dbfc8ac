// Relays the output of several processes to one file in whole lines, so that no line of one process
// interrupts a line of another. Two kinds of lines are relayed in parts: lines longer than
// LineRelay::kLongestLine and, on a terminal, lines that stay unfinished. Any bytes are permitted.
// Used from main's thread only; no function waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ucudnn::command {

// The file to which lines are relayed. Writes the text of all sources in the order of Add() calls.
class LineOutput {
 public:
  // The caller stays the owner of `descriptor`.
  explicit LineOutput(int descriptor);

  // Adds text of `source` (a number from 0 on). If the text ends within a line, the next text of
  // this source continues the line. If another source's text comes first, it begins a new line.
  void Add(int source, std::string_view text);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  size_t waiting() const { return text_.size() - written_; }  // bytes
  // Returns true if more than kMuch bytes are waiting. The caller then stops reading from sources.
  bool full() const { return waiting() > kMuch; }
  // Writes some of the waiting text. REQUIRES: poll() said that the file is writable.
  void Write();

  // Returns false if nobody reads the output any more.
  bool has_reader() const;
  // Returns the errno of the failed write if output was lost although it has a reader. Otherwise
  // returns 0.
  int loss() const { return has_reader() ? error_ : 0; }

 private:
  static constexpr size_t kMuch = 256 << 10;

  const int descriptor_;
  const bool is_terminal_;
  std::string text_;
  size_t written_ = 0;
  int unfinished_ = -1;  // the source whose line is incomplete; -1 if there is none
  int error_ = 0;        // errno of the first failed write; later text is dropped
};

// Reads the output of one source and adds its lines to a LineOutput.
class LineRelay {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Takes ownership of `descriptor`, the end of a pipe from which the source's output is read.
  LineRelay(int source, int descriptor, LineOutput& output);
  LineRelay(LineRelay&& other) noexcept;
  LineRelay(const LineRelay&) = delete;
  ~LineRelay() { Close(); }

  int descriptor() const { return descriptor_; }  // -1: closed
  bool wants_to_read() const { return descriptor_ >= 0 && !output_->full(); }
  // Reads at most 64 KiB of the available bytes. At the end of the source, adds its last line,
  // complete or not, and closes the relay. Returns false if there was nothing to read.
  bool Read(Time now);
  // On a terminal, an unfinished line may be a question to the user. ShowUnfinished() shows the
  // line if nothing was added to it for kPatience.
  bool has_unfinished() const { return !line_.empty() && output_->is_terminal(); }
  void ShowUnfinished(Time now);
  bool has_reader() const { return output_->has_reader(); }
  // Adds the unfinished line, and closes the relay.
  void Finish();
  void Close();

  static constexpr std::chrono::milliseconds kPatience{250};

 private:
  // A line of this many bytes or more is added in parts.
  static constexpr size_t kLongestLine = 256 << 10;

  void Hand();

  int source_;
  int descriptor_;
  LineOutput* output_;
  std::string line_;  // the incomplete line
  Time changed_;
};

}  // namespace ucudnn::command
