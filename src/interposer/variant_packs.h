// The application's variant packs: cuDNN does not give their pointers back. Frameworks make one for
// every execution, so that shadows come from a pool of the thread's own: no lock and no allocation
// once a thread has made its first. A pack may be used and destroyed on another thread, too.
// Thread-safe; process-wide, and leaked at exit.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

namespace ucudnn::interposer {

struct VariantPack {
  static constexpr int kMost = 16;  // operands; no convolution of ours has more than five
  std::array<void*, kMost> pointers;
  std::array<int64_t, kMost> uids;
  int pointer_count = 0, uid_count = 0;
  void* workspace = nullptr;
  // Nothing was set that is not here: more operands, other shapes, intermediates.
  bool plain = true;

  // Null when there is none.
  void* Find(int64_t uid) const {
    for (int i = 0; i < uid_count && i < pointer_count; ++i) {
      if (uids[i] == uid) return pointers[i];
    }
    return nullptr;
  }
  // As a new one.
  void Clear() {
    pointer_count = uid_count = 0;
    workspace = nullptr;
    plain = true;
  }
  // The genuine library took the attribute.
  void OnSet(cudnnBackendAttributeName_t name, int64_t count, const void* values);
};

// A shadow for a new pack; false when memory is out: then the pack stays unknown.
bool OpenPack(cudnnBackendDescriptor_t pack) noexcept;
// Null when it is unknown. Stays valid until it is closed.
VariantPack* FindPack(cudnnBackendDescriptor_t pack) noexcept;
// The same for a pack of the calling thread: for descriptors of any type.
VariantPack* FindOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
// False when it is no pack.
bool CloseOwnPack(cudnnBackendDescriptor_t descriptor) noexcept;
bool ClosePack(cudnnBackendDescriptor_t pack) noexcept;

}  // namespace ucudnn::interposer
