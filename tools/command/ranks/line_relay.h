// Relays the output of several processes to one file in whole lines: no line is torn apart by
// another process's. Any bytes are allowed. Used from main's thread only; nothing here waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ucudnn::command {

// One file, to which the lines of all sources go in the order in which they were complete.
class LineOutput {
 public:
  // The caller keeps owning `descriptor`.
  explicit LineOutput(int descriptor);

  // Adds text of `source` (a number from 0), behind its earlier text. If the text ends within a
  // line, the source may continue the line; if another source comes in between, its text begins a
  // new line.
  void Add(int source, std::string_view text);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  size_t waiting() const { return text_.size() - written_; }  // bytes
  // Returns whether so much text is waiting that sources should not be read.
  bool full() const { return waiting() > kMuch; }
  // Writes some of the waiting text. REQUIRES: poll() said that the file is writable.
  void Write();

  // Returns false if nobody reads the output any more.
  bool has_reader() const;
  // Returns errno of output that is incomplete although it still has a reader; 0: none.
  int loss() const { return has_reader() ? error_ : 0; }

 private:
  static constexpr size_t kMuch = 256 << 10;

  const int descriptor_;
  const bool is_terminal_;
  std::string text_;
  size_t written_ = 0;
  int unfinished_ = -1;  // the source with an incomplete line; -1: none
  int error_ = 0;        // errno of the first write that failed; later text is dropped
};

// The lines of one source.
class LineRelay {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Reads from `descriptor` and closes it at the end.
  LineRelay(int source, int descriptor, LineOutput& output);
  LineRelay(LineRelay&& other) noexcept;
  LineRelay(const LineRelay&) = delete;
  ~LineRelay() { Close(); }

  int descriptor() const { return descriptor_; }  // -1: closed
  bool wants_to_read() const { return descriptor_ >= 0 && !output_->full(); }
  // Reads at most 64 KiB of the available bytes. At the end of the source its last line is passed
  // on, complete or not, and the relay is closed. Returns false if there was nothing.
  bool Read(Time now);
  // On a terminal an unfinished line is shown when nothing was added to it for a while, because it
  // may be a question that a person has to answer.
  bool has_unfinished() const { return !line_.empty() && output_->is_terminal(); }
  void ShowUnfinished(Time now);
  bool has_reader() const { return output_->has_reader(); }
  // Passes on what was read, and reads no more.
  void Finish();
  void Close();

  static constexpr std::chrono::milliseconds kPatience{250};

 private:
  // A longer line is passed on in pieces.
  static constexpr size_t kLongestLine = 256 << 10;

  void Hand();

  int source_;
  int descriptor_;
  LineOutput* output_;
  std::string line_;  // the incomplete line
  Time changed_;
};

}  // namespace ucudnn::command
