// Shadows of the application's variant packs: copies of their pointers, which cuDNN does not
// return. Frameworks make a pack for every execution, so each thread has a pool of shadows. No
// function takes a lock. A thread allocates only for its first pack, and whenever it has more packs
// than its pool can hold. A thread may use or destroy the pack of another thread. Thread-safe. The
// pools belong to the process and are leaked at exit.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

namespace ucudnn::interposer {

struct VariantPack {
  // The most operands that a shadow keeps. A convolution that ucudnn divides has at most 3 +
  // kMostFusedOperands.
  static constexpr int kMost = 16;
  std::array<void*, kMost> pointers;
  std::array<int64_t, kMost> uids;
  int pointer_count = 0, uid_count = 0;
  void* workspace = nullptr;
  // False once the program has set something that the shadow does not keep: more operands, other
  // shapes, or intermediates.
  bool plain = true;

  // Returns the pointer of the operand `uid`; null if there is none.
  void* Find(int64_t uid) const {
    for (int i = 0; i < uid_count && i < pointer_count; ++i) {
      if (uids[i] == uid) return pointers[i];
    }
    return nullptr;
  }
  // Sets the shadow to the state of a new pack.
  void Clear() {
    pointer_count = uid_count = 0;
    workspace = nullptr;
    plain = true;
  }
  // To be called after the real library has accepted the attribute.
  void OnSet(cudnnBackendAttributeName_t name, int64_t count, const void* values);
};

// Makes a shadow for a new pack. Returns false if host memory is out; the pack then stays unknown.
bool OpenPack(cudnnBackendDescriptor_t pack) noexcept;
// Returns the shadow of a pack of any thread; null if the pack is unknown. The shadow is valid
// until the pack is closed.
VariantPack* FindPack(cudnnBackendDescriptor_t pack) noexcept;
// Returns the shadow if the calling thread has made the pack; otherwise null. `descriptor` may be
// of any type.
VariantPack* FindOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
// CloseOwnPack frees the shadow of a pack that the calling thread has made; ClosePack frees the
// shadow of a pack of any thread. Both return false if there is no such pack.
bool CloseOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
bool ClosePack(cudnnBackendDescriptor_t pack) noexcept;

}  // namespace ucudnn::interposer
