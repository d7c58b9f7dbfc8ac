// What several processes write, on one file of ours in whole lines: none is torn apart by
// another's. Any bytes. Used from main's thread only; nothing here waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ucudnn::command {

// One file, to which the lines of all sources go in the order in which they were complete.
class LineOutput {
 public:
  // `descriptor` stays the caller's.
  explicit LineOutput(int descriptor);

  // Text of `source` (a number from 0), after what it added before. Where it ends within a line,
  // the source may go on with it; if another one comes between, that begins a line of its own.
  void Add(int source, std::string_view text);

  int descriptor() const { return descriptor_; }
  bool is_terminal() const { return is_terminal_; }
  size_t waiting() const { return text_.size() - written_; }  // bytes
  // So much waits that sources should not be read.
  bool full() const { return waiting() > kMuch; }
  // Writes some of what waits. REQUIRES: poll() said that the file takes something.
  void Write();

  // False: what is written has nobody left who reads it.
  bool has_reader() const;
  // errno of output that is not complete although somebody would read it; 0: none.
  int loss() const { return has_reader() ? error_ : 0; }

 private:
  static constexpr size_t kMuch = 256 << 10;

  const int descriptor_;
  const bool is_terminal_;
  std::string text_;
  size_t written_ = 0;
  int unfinished_ = -1;  // the source whose line is not complete; -1: none
  int error_ = 0;        // errno of the first write that failed; what comes afterwards is dropped
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
  // Reads what is there, not more than 64 KiB. At the end of the source its last line goes out,
  // whether it is complete or not, and the relay is closed. False: there was nothing.
  bool Read(Time now);
  // On a terminal an unfinished line is shown when nothing was added to it for a while, as a
  // question is that a person has to answer.
  bool has_unfinished() const { return !line_.empty() && output_->is_terminal(); }
  void ShowUnfinished(Time now);
  bool has_reader() const { return output_->has_reader(); }
  // What was read goes out, and no more is read.
  void Finish();
  void Close();

  static constexpr std::chrono::milliseconds kPatience{250};

 private:
  // A longer line goes out in pieces.
  static constexpr size_t kLongestLine = 256 << 10;

  void Hand();

  int source_;
  int descriptor_;
  LineOutput* output_;
  std::string line_;  // not complete
  Time changed_;
};

}  // namespace ucudnn::command
