#include "interposer/graph/variant_packs.h"

#include <atomic>
#include <cstring>
#include <new>

namespace ucudnn::interposer {
namespace {

// How many packs of one thread a block holds; a thread with more packs has further blocks.
constexpr int kSlots = 32;

struct Slot {
  std::atomic<cudnnBackendDescriptor_t> key = nullptr;  // null: the slot is free
  VariantPack pack;
};

struct Block {
  std::array<Slot, kSlots> slots;
  std::atomic<int> used = 0;  // slots at this index and above were never used
  std::atomic<Block*> next = nullptr;
};

// The blocks of a thread. After the thread has ended, another thread takes over the pool, with the
// shadows of the packs that still exist.
struct Pool {
  Block first;
  std::atomic<bool> owned = true;
  Pool* next = nullptr;  // next in the list of all pools
};

std::atomic<Pool*> all_pools = nullptr;

Pool* TakePool() noexcept {
  for (Pool* pool = all_pools.load(std::memory_order_acquire); pool != nullptr; pool = pool->next) {
    bool owned = false;
    if (pool->owned.compare_exchange_strong(owned, true, std::memory_order_acquire)) return pool;
  }
  Pool* const pool = new (std::nothrow) Pool;
  if (pool == nullptr) return nullptr;
  pool->next = all_pools.load(std::memory_order_relaxed);
  while (!all_pools.compare_exchange_weak(pool->next, pool, std::memory_order_release)) {
  }
  return pool;
}

struct Owner {
  Pool* pool = nullptr;
  ~Owner() {
    if (pool != nullptr) pool->owned.store(false, std::memory_order_release);
    pool = nullptr;
  }
};
thread_local Owner owner;

Slot* FindIn(Pool& pool, cudnnBackendDescriptor_t key) {
  for (Block* block = &pool.first; block != nullptr;
       block = block->next.load(std::memory_order_acquire)) {
    const int used = block->used.load(std::memory_order_acquire);
    for (int i = 0; i < used; ++i) {
      if (block->slots[i].key.load(std::memory_order_acquire) == key) return &block->slots[i];
    }
  }
  return nullptr;
}

Slot* FindOwn(cudnnBackendDescriptor_t key) {
  return key == nullptr || owner.pool == nullptr ? nullptr : FindIn(*owner.pool, key);
}

Slot* FindAnywhere(cudnnBackendDescriptor_t key) {
  if (key == nullptr) return nullptr;
  if (Slot* slot = FindOwn(key)) return slot;
  for (Pool* pool = all_pools.load(std::memory_order_acquire); pool != nullptr; pool = pool->next) {
    if (Slot* slot = FindIn(*pool, key)) return slot;
  }
  return nullptr;
}

bool Close(Slot* slot) {
  if (slot == nullptr) return false;
  slot->key.store(nullptr, std::memory_order_release);
  return true;
}

}  // namespace

void VariantPack::OnSet(cudnnBackendAttributeName_t name, int64_t count, const void* values) {
  const bool fits = count >= 0 && count <= kMost && (count == 0 || values != nullptr);
  switch (name) {
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
      plain = plain && fits;
      pointer_count = fits ? static_cast<int>(count) : 0;
      if (pointer_count > 0) std::memcpy(pointers.data(), values, pointer_count * sizeof(void*));
      break;
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
      plain = plain && fits;
      uid_count = fits ? static_cast<int>(count) : 0;
      if (uid_count > 0) std::memcpy(uids.data(), values, uid_count * sizeof(int64_t));
      break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      workspace = count > 0 && values != nullptr ? *static_cast<void* const*>(values) : nullptr;
      break;
    default:
      plain = false;
      break;
  }
}

bool OpenPack(cudnnBackendDescriptor_t pack) noexcept {
  if (owner.pool == nullptr) owner.pool = TakePool();
  if (owner.pool == nullptr) return false;
  // The program may have destroyed an earlier pack at this address without ucudnn's knowledge.
  Close(FindOwn(pack));
  for (Block* block = &owner.pool->first;;) {
    // Only the pool's owner occupies a slot; any thread may free one.
    for (int i = 0; i < kSlots; ++i) {
      Slot& slot = block->slots[i];
      if (slot.key.load(std::memory_order_acquire) != nullptr) continue;
      slot.pack.Clear();
      if (block->used.load(std::memory_order_relaxed) <= i) {
        block->used.store(i + 1, std::memory_order_release);
      }
      slot.key.store(pack, std::memory_order_release);
      return true;
    }
    Block* next = block->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      next = new (std::nothrow) Block;
      if (next == nullptr) return false;
      block->next.store(next, std::memory_order_release);
    }
    block = next;
  }
}

VariantPack* FindPack(cudnnBackendDescriptor_t pack) noexcept {
  Slot* const slot = FindAnywhere(pack);
  return slot == nullptr ? nullptr : &slot->pack;
}

VariantPack* FindOwnPack(cudnnBackendDescriptor_t descriptor) noexcept {
  Slot* const slot = FindOwn(descriptor);
  return slot == nullptr ? nullptr : &slot->pack;
}

bool CloseOwnPack(cudnnBackendDescriptor_t descriptor) noexcept {
  return Close(FindOwn(descriptor));
}

bool ClosePack(cudnnBackendDescriptor_t pack) noexcept { return Close(FindAnywhere(pack)); }

}  // namespace ucudnn::interposer
