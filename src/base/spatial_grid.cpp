#include "base/spatial_grid.h"

#include <charconv>
#include <cstdint>

#include "base/text.h"

namespace ucudnn {
namespace {

struct GridAxis {
  char letter;
  int SpatialGrid::*parts;
};

constexpr std::array<GridAxis, 4> kGridAxes = {{{'n', &SpatialGrid::n},
                                                {'d', &SpatialGrid::d},
                                                {'h', &SpatialGrid::h},
                                                {'w', &SpatialGrid::w}}};

const GridAxis* GridAxisOf(char letter) {
  for (const GridAxis& axis : kGridAxes) {
    if (EqualsIgnoreCase(std::string_view(&letter, 1), std::string_view(&axis.letter, 1))) {
      return &axis;
    }
  }
  return nullptr;
}

Status NoGrid(std::string_view text, const std::string& why) {
  return Status::Error(Quoted(text) + " is not a spatial grid: " + why + "; expected " +
                       kSpatialGridForm);
}

}  // namespace

Result<SpatialGrid> SpatialGrid::Parse(std::string_view text) {
  const std::string too_many = "it has more than " + std::to_string(kMostSpatialRanks) + " ranks";
  SpatialGrid grid;
  std::string named;
  std::string_view rest = Trim(text);
  if (rest.empty()) return NoGrid(text, "it names no axis");
  while (!rest.empty()) {
    const GridAxis* axis = GridAxisOf(rest.front());
    if (axis == nullptr) return NoGrid(text, Quoted(rest.substr(0, 1)) + " is no axis");
    const std::string letter(1, axis->letter);
    if (named.find(axis->letter) != std::string::npos) return NoGrid(text, letter + " comes twice");
    named += letter;
    uint64_t parts = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), parts);
    if (error == std::errc::invalid_argument) {
      return NoGrid(text, letter + " has no number of parts");
    }
    if (error != std::errc() || parts > kMostSpatialRanks) return NoGrid(text, too_many);
    if (parts == 0) return NoGrid(text, letter + " has 0 parts, where 1 is the least");
    grid.*axis->parts = static_cast<int>(parts);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  int64_t ranks = 1;
  for (const GridAxis& axis : kGridAxes) ranks *= grid.*axis.parts;
  if (ranks > kMostSpatialRanks) return NoGrid(text, too_many);
  if (grid.GroupSize() < 2) return NoGrid(text, "it cuts no image, as d, h or w of 2 parts do");
  return grid;
}

std::string SpatialGrid::Text() const {
  std::string text;
  for (const GridAxis& axis : kGridAxes) {
    const int parts = this->*axis.parts;
    if (parts != 1) text += axis.letter + std::to_string(parts);
  }
  return text.empty() ? "h1" : text;
}

GridCell SpatialGrid::CellOf(int rank) const {
  return {rank / (d * h * w), rank / (h * w) % d, rank / w % h, rank % w};
}

int SpatialGrid::RankOf(const GridCell& cell) const {
  return ((cell.n * d + cell.d) * h + cell.h) * w + cell.w;
}

}  // namespace ucudnn
