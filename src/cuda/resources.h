// Owned driver objects: context scope, device memory, stream, event. Each needs its context current
// from construction to destruction. Thread-compatible. Errors carry the driver's name of the error.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::cuda {

// Makes `context` current for a scope; costs nothing when it already is. A null context is left
// alone.
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

// Lets this thread allocate and synchronise while other threads capture: their capture stays valid.
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
  // Creates a stream whose work goes before that of other streams. REQUIRES: MissingForExchange()
  // is null.
  Status CreateUrgent();
  Status Synchronize();
  CUstream get() const { return stream_; }

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
};

// Memory that is allocated and freed in the order of one stream, so that neither waits for the
// device. Freed memory returns to the device when the stream is next waited for. The pool must
// outlive its buffers.
class MemoryPool {
 public:
  explicit MemoryPool(const Driver& driver) : driver_(driver) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Makes the pool on the device of the current context. On a device without pools, plain
  // allocations are used.
  Status Create(CUstream stream);
  CUresult Allocate(CUdeviceptr* address, size_t bytes) const;
  void Free(CUdeviceptr address) const;
  // False if plain allocations are used: freeing one waits for the whole device.
  bool ordered() const { return pool_ != nullptr; }
  // Waits for the stream, so that freed memory returns to the device. Otherwise a buffer that grows
  // holds its old and its new size.
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

  // Holds at least `bytes`, after freeing what it held before; 0 bytes hold nothing. Work on the
  // pool's stream may use the memory.
  Status Reserve(size_t bytes);
  // Reserves at least `bytes`. If there is not enough memory, it holds as much as before again, or
  // nothing.
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
  // An event that streams wait for, and that measures no time.
  Status CreateUntimed();
  Status Record(CUstream stream);
  // Makes work that is enqueued on `stream` from now on wait for the event as it was recorded last.
  Status HoldBack(CUstream stream) const;
  // Returns whether a stream has yet to reach the event. False also if the event's context is gone
  // or has failed, so that no stream ever will.
  bool Pending() const;
  CUevent get() const { return event_; }
  // Milliseconds from `begin` to this event; waits for this event.
  Result<double> MillisecondsSince(const Event& begin);

 private:
  const Driver& driver_;
  CUevent event_ = nullptr;
};

// True while `stream` records a CUDA graph. The legacy default stream cannot be captured.
bool IsCapturing(const Driver& driver, CUstream stream);

// Returns `result` as a Status that names `action`.
Status DriverStatus(const Driver& driver, CUresult result, const char* action);

}  // namespace ucudnn::cuda
