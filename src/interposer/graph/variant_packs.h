// Shadows of the application's variant packs, whose pointers cuDNN does not return. Frameworks make
// a pack for every execution, so each thread has a pool of shadows: after a thread's first pack it
// takes no lock and allocates nothing. Another thread may use or destroy a pack. Thread-safe. The
// pools belong to the process and are leaked at exit.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

namespace ucudnn::interposer {

struct VariantPack {
  // Most operands that are kept; a convolution that ucudnn divides has at most 3 +
  // kMostFusedOperands.
  static constexpr int kMost = 16;
  std::array<void*, kMost> pointers;
  std::array<int64_t, kMost> uids;
  int pointer_count = 0, uid_count = 0;
  void* workspace = nullptr;
  // False once an attribute was set that is not kept here: more operands, other shapes, or
  // intermediates.
  bool plain = true;

  // Returns the pointer of the operand `uid`; null if there is none.
  void* Find(int64_t uid) const {
    for (int i = 0; i < uid_count && i < pointer_count; ++i) {
      if (uids[i] == uid) return pointers[i];
    }
    return nullptr;
  }
  // Resets the pack to a new one.
  void Clear() {
    pointer_count = uid_count = 0;
    workspace = nullptr;
    plain = true;
  }
  // To be called after the real library has accepted the attribute.
  void OnSet(cudnnBackendAttributeName_t name, int64_t count, const void* values);
};

// Makes a shadow for a new pack. If memory is out, returns false, and the pack stays unknown.
bool OpenPack(cudnnBackendDescriptor_t pack) noexcept;
// Returns null if the pack is unknown. Valid until the pack is closed.
VariantPack* FindPack(cudnnBackendDescriptor_t pack) noexcept;
// As FindPack, for a pack that the calling thread has made; `descriptor` may be of any type.
VariantPack* FindOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
// Frees the shadow. Returns false if `descriptor` is no pack that the calling thread has made.
bool CloseOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
bool ClosePack(cudnnBackendDescriptor_t pack) noexcept;

}  // namespace ucudnn::interposer
