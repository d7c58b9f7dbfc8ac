// Workspace that the library brings for one call, out of its session's network. Of one thread.
#pragma once

#include "interposer/interposer.h"

namespace ucudnn::interposer {

class Interposer::LibraryWorkspace {
 public:
  // Nothing where `wanted` is false, the part is empty, or none is to be had.
  LibraryWorkspace(const Interposer& interposer, Session& session, cudnnHandle_t handle,
                   const LibraryPart& part, bool wanted, bool capturing);
  // Behind the call's work.
  ~LibraryWorkspace();
  LibraryWorkspace(const LibraryWorkspace&) = delete;
  LibraryWorkspace& operator=(const LibraryWorkspace&) = delete;

  void* data() const { return segment_.memory.data; }

 private:
  Session& session_;
  Network::Segment segment_;
};

}  // namespace ucudnn::interposer
