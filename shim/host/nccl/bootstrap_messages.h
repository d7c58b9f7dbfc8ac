// What ranks and the root of a communicator say to each other while it is made, over a socket of
// their machine that keeps messages apart.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "shim/host/nccl/board.h"
#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

constexpr uint32_t kBootstrapMagic = 0x48474e31;  // changes with these structures and the board's

// What an ncclUniqueId holds: the name of the root's abstract socket, and what it asks for first.
struct IdContent {
  uint32_t magic;
  uint32_t reserved;
  unsigned char name[16];
  unsigned char token[32];
};
static_assert(sizeof(IdContent) <= NCCL_UNIQUE_ID_BYTES);

// From a rank, with the file of its device memory.
struct Hello {
  uint32_t magic;
  int32_t ranks;
  int32_t rank;
  int32_t device;    // its process's number of it
  uint64_t process;  // drawn at random by each process
  unsigned char token[32];
};

struct Member {
  uint64_t process;
  int32_t pid;  // as the root sees it; 0 in a foreign namespace
  int32_t device;
};

// To a rank: with the board's file and those of all members' memory, or with why not.
struct Answer {
  uint32_t magic;
  int32_t result;
  char reason[192];
  Member members[kMaxRanks];
};

// From a rank once it has everything in reach, and to all once all have.
struct Ready {
  uint32_t magic;
  int32_t result;
  char reason[192];
};

// False when the other side is gone (or its queue is full).
bool SendMessage(const File& socket, const void* data, size_t bytes, const std::vector<int>& files);

struct Received {
  size_t bytes = 0;
  std::vector<File> files;
};
// Nothing when the other side is gone. REQUIRES: poll says that there is something.
std::optional<Received> ReceiveMessage(const File& socket, void* data, size_t bytes);

template <class Text>
void SetReason(Text& reason, const std::string& text) {
  static_assert(std::is_array_v<Text>);
  std::strncpy(reason, text.c_str(), sizeof reason - 1);
  reason[sizeof reason - 1] = '\0';
}

}  // namespace hostgpu::nccl
