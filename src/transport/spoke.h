// The connection of a rank other than 0 to rank 0's hub. One thread at a time uses it.
#pragma once

#include <memory>
#include <string>

#include "transport/link.h"

namespace ucudnn::transport {

class Spoke final : public Link {
 public:
  // The hub must have accepted `connection`. The caller owns `sink`, which must outlive this
  // object.
  Spoke(std::unique_ptr<Connection> connection, const Meeting& meeting, Sink& sink);

  bool Takes() const override;
  void Send(FrameKind kind, std::string_view body) override;
  void Flush() override { connection_->Flush(); }
  bool Finished() const override { return connection_->queued() == 0; }
  void Watch(std::vector<pollfd>& wait) override;
  void Serve(std::span<const pollfd> ready) override;
  void Close() override;

 private:
  void Take(const Frame& frame);
  void Lose(const std::string& line);

  const std::unique_ptr<Connection> connection_;
  const int rank_, size_;
  const Times times_;
  Sink& sink_;
  Hearing hearing_;
  Clock::time_point heard_ = Clock::now();
  std::string hub_doing_;
  bool failed_ = false, hub_left_ = false;
  bool ended_ = false;  // the hub has closed the connection, and its last frame was taken
};

}  // namespace ucudnn::transport
