// Owners of driver objects: context scope, stream, device memory, event. Whenever an object other
// than a scope is used or destroyed, its context must be current. Thread-compatible. Errors contain
// the driver's name of the error.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::cuda {

// Makes `context` current for a scope. Does nothing if `context` is current already or is null.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// Lets this thread allocate and synchronise while other threads capture streams, without
// invalidating their captures.
class RelaxedCaptureScope {
 public:
  explicit RelaxedCaptureScope(const Driver& driver);
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// A stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  explicit Stream(const Driver& driver) : driver_(driver) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Status Create();
  // Creates a stream of the highest priority. REQUIRES: driver.MissingForExchange() is null.
  Status CreateUrgent();
  Status Synchronize();
  CUstream get() const { return stream_; }

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
};

// Memory that is allocated and freed in the order of one stream, so that neither allocating nor
// freeing waits for the device. Freed memory returns to the device at the next synchronisation of
// the stream. The pool must outlive its buffers. On a device without memory pools (ordered() is
// false), cuMemAlloc and cuMemFree are used instead, and freeing waits for the device.
class MemoryPool {
 public:
  explicit MemoryPool(const Driver& driver) : driver_(driver) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Makes a pool on the device of the current context, for use in the order of `stream`.
  Status Create(CUstream stream);
  CUresult Allocate(CUdeviceptr* address, size_t bytes) const;
  void Free(CUdeviceptr address) const;
  // Returns false if cuMemFree is used, which waits for the whole device.
  bool ordered() const { return pool_ != nullptr; }
  // Waits for the stream, so that freed memory returns to the device before more is allocated.
  // Without this wait, a growing buffer would hold its old and its new memory at the same time.
  // Does nothing unless ordered().
  void GiveBack() const;

 private:
  const Driver& driver_;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
};

class DeviceBuffer {
 public:
  explicit DeviceBuffer(const MemoryPool& pool, const Driver& driver)
      : pool_(pool), driver_(driver) {}
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // Makes the buffer at least `bytes` large. If the buffer is smaller, its memory is freed first,
  // and its content is lost. Only work on the pool's stream may use the memory.
  Status Reserve(size_t bytes);
  // Does the same as Reserve. If the allocation fails, allocates the old size again. The buffer is
  // empty if that allocation fails, too.
  Status Grow(size_t bytes);
  void* data() const { return reinterpret_cast<void*>(address_); }
  CUdeviceptr address() const { return address_; }
  size_t size() const { return size_; }

 private:
  const MemoryPool& pool_;
  const Driver& driver_;
  CUdeviceptr address_ = 0;
  size_t size_ = 0;
};

class Event {
 public:
  explicit Event(const Driver& driver) : driver_(driver) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Status Create();
  // Creates an event that streams can wait for, but whose time cannot be read.
  Status CreateUntimed();
  Status Record(CUstream stream);
  // Work that is enqueued on `stream` from now on waits for the latest Record of this event.
  Status HoldBack(CUstream stream) const;
  // Returns true if the event was recorded and the stream has not reached the event yet. Returns
  // false if the event's context is gone or has failed, because the event will then never be
  // reached.
  bool Pending() const;
  CUevent get() const { return event_; }
  // Waits for this event, then returns the milliseconds from `begin` to this event.
  Result<double> MillisecondsSince(const Event& begin);

 private:
  const Driver& driver_;
  CUevent event_ = nullptr;
};

// Returns whether `stream` is being captured into a CUDA graph, even if the capture has become
// invalid. Returns false for the legacy default stream, which cannot be captured.
bool IsCapturing(const Driver& driver, CUstream stream);

// Returns `result` as a Status that names `action`.
Status DriverStatus(const Driver& driver, CUresult result, const char* action);

}  // namespace ucudnn::cuda
