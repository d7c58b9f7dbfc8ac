#include "cudnn/knobs.h"

#include <array>
#include <iterator>

namespace ucudnn::cudnn {
namespace {

// Indexed by the knob's number, from 0. Numbers are part of cuDNN's ABI and never change.
constexpr std::array<std::string_view, 44> kKnobs = {
    "SPLIT_K",
    "SWIZZLE",
    "TILE_SIZE",
    "USE_TEX",
    "EDGE",
    "KBLOCK",
    "LDGA",
    "LDGB",
    "CHUNK_K",
    "SPLIT_H",
    "WINO_TILE",
    "MULTIPLY",
    "SPLIT_K_BUF",
    "TILEK",
    "STAGES",
    "REDUCTION_MODE",
    "CTA_SPLIT_K_MODE",
    "SPLIT_K_SLC",
    "IDX_MODE",
    "SLICED",
    "SPLIT_RS",
    "SINGLEBUFFER",
    "LDGC",
    "SPECFILT",
    "KERNEL_CFG",
    "WORKSPACE",
    "TILE_CGA",
    "TILE_CGA_M",
    "TILE_CGA_N",
    "BLOCK_SIZE",
    "OCCUPANCY",
    "ARRAY_SIZE_PER_THREAD",
    "NUM_C_PER_BLOCK",
    "SPLIT_COLS",
    "TILE_ROWS",
    "TILE_COLS",
    "LOAD_SIZE",
    "CTA_COUNT",
    "STREAM_K",
    "SPLIT_P_SLC",
    "TILE_M",
    "TILE_N",
    "WARP_SPEC_CFG",
    "SWAP_AB",
};
constexpr std::string_view kPrefix = "CUDNN_KNOB_TYPE_";

}  // namespace

std::optional<int> KnobNumber(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (size_t i = 0; i < kKnobs.size(); ++i) {
    if (kKnobs[i] == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::optional<std::string> KnobName(int number) {
  if (number < 0 || number >= std::ssize(kKnobs)) return std::nullopt;
  return std::string(kPrefix) + std::string(kKnobs[number]);
}

}  // namespace ucudnn::cudnn
