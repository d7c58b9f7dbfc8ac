// The root's side of making a communicator.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "shim/host/nccl/bootstrap_messages.h"
#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

class BootstrapRoot {
 public:
  BootstrapRoot(File listener, const IdContent& id) : listener_(std::move(listener)), id_(id) {}
  // Everything, from the first rank to the last; returns when no rank needs it any more.
  void Serve();

 private:
  struct Guest {
    File socket;
    File memory;
    Hello hello;
    int32_t pid;
  };
  Outcome Gather();
  void Accept();
  bool Hear(File& stranger);
  Outcome CheckPlace(const Hello& hello) const;
  Outcome CheckDevices() const;
  Outcome HandOut();
  Outcome AwaitReady(const Guest& guest);
  void Refuse(const Outcome& outcome);

  File listener_;
  const IdContent id_;
  std::deque<File> strangers_;  // have not said the token yet
  std::vector<Guest> guests_;   // in the order they came
};

}  // namespace hostgpu::nccl
