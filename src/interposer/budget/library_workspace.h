// ucudnn's own workspace for one call, from its session's network. Used by the call's thread.
#pragma once

#include "interposer/budget/network.h"

namespace ucudnn::interposer {

class Session;

class LibraryWorkspace {
 public:
  // Takes what `part` says. data() is null where that is nothing, or where no memory is to be had.
  // While `capturing`, the memory comes from what is set aside for captures.
  LibraryWorkspace(const cuda::Driver& driver, Session& session, cudnnHandle_t handle,
                   const LibraryPart& part, bool capturing);
  // Gives a loan back; the call's work must be enqueued by then.
  ~LibraryWorkspace();
  LibraryWorkspace(const LibraryWorkspace&) = delete;
  LibraryWorkspace& operator=(const LibraryWorkspace&) = delete;

  void* data() const { return segment_.memory.data; }

 private:
  void TakeShare(const execution::ArenaOwner& owner, const LibraryPart& part);
  void TakeForCapture(const cuda::Driver& driver, const execution::ArenaOwner& owner,
                      const LibraryPart& part);

  Session& session_;
  Network::Segment segment_;
};

}  // namespace ucudnn::interposer
