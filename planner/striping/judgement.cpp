#include "planner/striping/judgement.h"

#include <algorithm>
#include <utility>

#include "convolution/axis_cut.h"

namespace ucudnn::planner {
namespace {

std::string On(size_t axis) { return std::string(1, kAxisLetters[axis]) + ": "; }

// Keeps the worst verdict and the first reason for that verdict.
void Worsen(Judgement& judgement, Verdict verdict, const std::string& why) {
  if (verdict <= judgement.verdict) return;
  judgement.verdict = verdict;
  judgement.why = why;
}

void NeverAsItIs(Judgement& judgement, const std::string& why) {
  Worsen(judgement, Verdict::kConvert, why);
  judgement.never_as_it_is = true;
}

void Never(Judgement& judgement, const std::string& why) {
  Worsen(judgement, Verdict::kRefused, why);
  judgement.never_as_it_is = judgement.never_converted = true;
}

bool IsCopied(const AxisPlacement& placed, const SpatialGrid& grid, size_t axis) {
  return grid.Parts()[axis] > 1 && !placed.IsCut();
}

// If copies have more than one row, ucudnn mistakes them for stripes, unless the program says that
// they are copies.
void JudgeCopies(const AxisPlacement& placed, size_t axis, Judgement& judgement) {
  if (placed.Whole() > 1) {
    NeverAsItIs(judgement,
                On(axis) + "every rank has the same " + std::to_string(placed.Whole()) +
                    " rows, which a call takes for stripes unless it is told that they are copies");
  } else {
    judgement.ones = OnesAre::kReplicated;
  }
}

bool IsOneEverywhere(const std::vector<int64_t>& extents) {
  return std::all_of(extents.begin(), extents.end(), [](int64_t extent) { return extent == 1; });
}

// Judges a pooling over all rows of an axis. The ranks may hold stripes or copies of the rows.
void JudgePooledRows(const AxisPlacement& placed, size_t axis, Judgement& judgement) {
  judgement.pools_over_ranks = true;
  judgement.ones = OnesAre::kReplicated;
  if (!IsOneEverywhere(placed.extents)) return;
  Worsen(judgement, Verdict::kConvert,
         On(axis) + "every rank has one row, and nothing tells a call that pools them whether " +
             "they are copies");
}

// Returns whether each window covers exactly one stripe. In a rank's call ucudnn sees only the
// stripe, so there such a pooling looks like a pooling over all positions.
bool CoversEachStripe(const PaddedWindow& padded, const std::vector<int64_t>& extents) {
  return padded.window.pad == 0 && padded.back == 0 &&
         std::all_of(extents.begin(), extents.end(),
                     [&](int64_t extent) { return extent == padded.window.Extent(); });
}

void JudgeCutAxis(const Operator& op, size_t axis, const AxisPlacement& placed, int32_t outputs,
                  Judgement& judgement) {
  PaddedWindow padded = *WindowAlong(op, axis);
  const bool is_pooling = std::holds_alternative<Pooling>(op);
  AxisPlacement& out = judgement.output.axes[axis];
  if (is_pooling && padded.window.pad == 0 && padded.back == 0 &&
      padded.window.Extent() == placed.Whole()) {
    JudgePooledRows(placed, axis, judgement);
    out = {{1}};
    return;
  }
  const std::vector<int64_t> extents = RowsOfImage(placed);
  const bool stands = placed.before > 0 || placed.after > 0;
  padded.window.pad += placed.before;
  padded.back += placed.after;
  const Result<CutWindows> cut = CutWindowsOf(kAxisLetters[axis], padded, extents);
  if (!cut.ok() || !cut->is_own_call) {
    const int parts = static_cast<int>(extents.size());
    if (!CanBeCut(padded, parts, true)) judgement.never_as_it_is = true;
    if (!CanBeCut(padded, parts, false)) judgement.never_converted = true;
  }
  if (!cut.ok()) return Worsen(judgement, Verdict::kRefused, cut.message());
  out = {cut->outputs};
  if (out.Whole() != outputs) {
    return Worsen(judgement, Verdict::kRefused,
                  On(axis) + "rounding up adds a window behind the last of " +
                      std::to_string(placed.Whole()) + " rows");
  }
  judgement.windows[axis] = *cut;
  if (stands) {
    NeverAsItIs(judgement, On(axis) + "padding stands at the image's ends alone");
  } else if (!cut->is_own_call) {
    Worsen(judgement, Verdict::kConvert, cut->why);
  }
  const bool covers =
      is_pooling ? CoversEachStripe(padded, extents) : IsOneEverywhere(placed.extents);
  if (covers) judgement.ones = OnesAre::kSplit;
}

void JudgeWindows(const Operator& op, const Placement& input, const SpatialGrid& grid,
                  Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPlacement& placed = input.axes[axis];
    if (placed.IsCut()) {
      JudgeCutAxis(op, axis, placed, judgement.output.shape.extents[axis], judgement);
    } else if (IsCopied(placed, grid, axis)) {
      JudgeCopies(placed, axis, judgement);
    }
  }
}

void JudgeTransposed(const TransposedConvolution& layer, const Placement& input,
                     const SpatialGrid& grid, Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPlacement& placed = input.axes[axis];
    if (!placed.IsCut()) {
      if (IsCopied(placed, grid, axis)) JudgeCopies(placed, axis, judgement);
      continue;
    }
    const SlidingWindow window = {layer.window[axis], layer.dilation[axis], layer.stride[axis],
                                  layer.pad[axis]};
    const int64_t more =
        window.Extent() - 2 * window.pad + layer.extra_extent[axis] - window.stride;
    if (more != 0) {
      Never(judgement, On(axis) + "a transposed convolution with windows of extent " +
                           std::to_string(window.Extent()) + ", stride " +
                           std::to_string(window.stride) + " and pad " +
                           std::to_string(window.pad) + " gives each part " + std::to_string(more) +
                           " rows beside " + std::to_string(window.stride) + " for each row");
      continue;
    }
    if (placed.before > 0 || placed.after > 0) {
      Never(judgement, On(axis) + "a transposed convolution of what was padded");
      continue;
    }
    AxisPlacement out;
    for (const int64_t extent : placed.extents) out.extents.push_back(extent * window.stride);
    const Result<AxisCut> cut = CutAxis(kAxisLetters[axis], window, out.extents);
    if (!cut.ok()) {
      if (!CanBeCut({window, window.pad}, static_cast<int>(placed.extents.size()), true)) {
        judgement.never_as_it_is = judgement.never_converted = true;
      }
      Worsen(judgement, Verdict::kRefused, cut.message());
      continue;
    }
    judgement.output.axes[axis] = out;
    judgement.windows[axis] = CutWindows{placed.extents, cut->elements, true, ""};
    if (IsOneEverywhere(out.extents)) judgement.ones = OnesAre::kSplit;
  }
}

void JudgePadding(const Padding& padding, const Placement& input, Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t before = padding.before[axis], after = padding.after[axis];
    AxisPlacement out = input.axes[axis];
    if (before == 0 && after == 0) {
      judgement.output.axes[axis] = out;
      continue;
    }
    if (!out.IsCut()) {
      judgement.output.axes[axis] = {{judgement.output.shape.extents[axis]}};
      continue;
    }
    if (before < 0 || after < 0) {
      Never(judgement, On(axis) + "a pad of " + std::to_string(before) + " and " +
                           std::to_string(after) + " rows takes rows away");
      continue;
    }
    NeverAsItIs(judgement, On(axis) + "a program would pad each part, and not the image");
    out.extents.front() += before;
    out.extents.back() += after;
    out.before += before;
    out.after += after;
    judgement.output.axes[axis] = out;
  }
}

void JudgeUpsampling(const Upsampling& upsampling, const Placement& input, Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    AxisPlacement out = {input.axes[axis].extents};
    for (int64_t& extent : out.extents) extent *= upsampling.factor[axis];
    judgement.output.axes[axis] = out;
    if (out.IsCut() && upsampling.factor[axis] > 1) {
      NeverAsItIs(judgement, On(axis) + "other interpolation than of nearest rows reads across " +
                                 "the cut, and which one it is the network does not say");
    }
  }
}

std::string RowsText(const AxisPlacement& axis) {
  Placement placement;
  placement.axes[0] = axis;
  return axis.IsCut() ? "stripes of " + placement.Text() + " rows"
                      : std::to_string(axis.Whole()) + " rows that all ranks have";
}

// Judges operators that combine tensors position by position.
void JudgeJoin(const std::vector<Placement>& inputs, Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const AxisPlacement* found = nullptr;
    for (const Placement& input : inputs) {
      const AxisPlacement& placed = input.axes[axis];
      // A gate of one pixel applies to every position, so any placement suits it.
      if (!placed.IsCut() && placed.Whole() == 1 && input.shape != judgement.output.shape) continue;
      if (found != nullptr && found->extents != placed.extents) {
        Worsen(judgement, Verdict::kRefused,
               On(axis) + "its inputs lie in " + RowsText(*found) + " and in " + RowsText(placed));
        break;
      }
      if (found == nullptr) found = &placed;
    }
    if (found == nullptr) found = &inputs.front().axes[axis];
    judgement.output.axes[axis] = {found->extents};
  }
}

void JudgeInput(const SpatialGrid& grid, int multiple, Judgement& judgement) {
  const std::array<int, kMaxSpatial> parts = grid.Parts();
  judgement.output = EqualStripes(judgement.output.shape, grid, multiple);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (parts[axis] == 1) continue;
    // A window of one tap reads every row, so CutAxis() refuses only parts without rows.
    const auto cut =
        CutAxis(kAxisLetters[axis], SlidingWindow(), judgement.output.axes[axis].extents);
    if (!cut.ok()) Worsen(judgement, Verdict::kRefused, cut.message());
  }
}

// Along axes where the output has as many rows as the input, the output gets the input's placement,
// without stored padding.
void KeepRows(const Placement& input, Judgement& judgement) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (input.axes[axis].Whole() == judgement.output.shape.extents[axis]) {
      judgement.output.axes[axis] = {input.axes[axis].extents};
    }
  }
}

// Returns whether rows of stored padding, which are zeros, are still zeros in the output of `op`.
bool KeepsZeros(const Operator& op) {
  const auto* const activation = std::get_if<Activation>(&op);
  if (activation == nullptr) return std::holds_alternative<Dropout>(op);
  return activation->kind != ActivationKind::kSigmoid &&
         activation->kind != ActivationKind::kHardSigmoid &&
         activation->kind != ActivationKind::kOther;
}

// Judges operators whose output has the positions of their input. Each output position follows from
// the same position of the input, and perhaps from sums over all positions.
void JudgeByPosition(const Operator& op, const Placement& input, Judgement& judgement) {
  KeepRows(input, judgement);
  if (KeepsZeros(op)) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      judgement.output.axes[axis] = input.axes[axis];
    }
  }
  if (std::holds_alternative<BatchNormalization>(op)) {
    for (const AxisPlacement& axis : input.axes) {
      if (axis.IsCut() && IsOneEverywhere(axis.extents)) judgement.ones = OnesAre::kSplit;
    }
  }
  if (std::holds_alternative<Dropout>(op)) {
    Worsen(judgement, Verdict::kUnvouched,
           "ranks draw other numbers than one process does; nothing is dropped in inference");
  }
}

// Returns whether an operator computes a position along an axis from other positions of the axis.
// Sliding windows do not count.
bool MixesPositions(const Operator& op, size_t axis) {
  if (std::holds_alternative<FullyConnected>(op) || std::holds_alternative<Flatten>(op) ||
      std::holds_alternative<Reshape>(op) || std::holds_alternative<Attention>(op)) {
    return true;
  }
  if (const auto* roll = std::get_if<Roll>(&op)) return roll->shift[axis] != 0;
  if (const auto* concat = std::get_if<Concat>(&op)) {
    return static_cast<size_t>(concat->axis) == axis + 1;
  }
  if (const auto* norm = std::get_if<GroupNormalization>(&op)) return !norm->by_position;
  const auto* opaque = std::get_if<Opaque>(&op);
  return opaque != nullptr && !(axis == 1 ? opaque->rows : axis == 2 && opaque->columns);
}

// Returns whether an input is cut along an axis whose positions the operator mixes. The queries of
// an attention (its first input) do not mix.
bool NeedsAllPositions(const Operator& op, const std::vector<Placement>& inputs) {
  const size_t first = std::holds_alternative<Attention>(op) ? 1 : 0;
  for (size_t at = first; at < inputs.size(); ++at) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (inputs[at].axes[axis].IsCut() && MixesPositions(op, axis)) return true;
    }
  }
  return false;
}

}  // namespace

const char* VerdictName(Verdict verdict) {
  constexpr std::array<const char*, 5> kNames = {"exact", "gather", "convert", "unvouched",
                                                 "refused"};
  return kNames[static_cast<size_t>(verdict)];
}

int64_t SummedGroups(const Operator& op) {
  if (const auto* norm = std::get_if<GroupNormalization>(&op)) return norm->groups;
  const auto* opaque = std::get_if<Opaque>(&op);
  return opaque != nullptr && opaque->sums ? opaque->channel_parts : 0;
}

std::optional<PaddedWindow> WindowAlong(const Operator& op, size_t axis) {
  if (const auto* layer = std::get_if<Convolution>(&op)) {
    return PaddedWindow{
        {layer->window[axis], layer->dilation[axis], layer->stride[axis], layer->pad[axis]},
        int64_t{layer->pad[axis]} + layer->extra_pad[axis]};
  }
  if (const auto* layer = std::get_if<Pooling>(&op)) {
    return PaddedWindow{{layer->window[axis], 1, layer->stride[axis], layer->pad[axis]},
                        int64_t{layer->pad[axis]} + layer->extra_pad[axis]};
  }
  return std::nullopt;
}

std::vector<int64_t> RowsOfImage(const AxisPlacement& axis) {
  std::vector<int64_t> rows = axis.extents;
  rows.front() -= axis.before;
  rows.back() -= axis.after;
  return rows;
}

SpatialGrid GridOfNode(const Graph& graph, const Node& node, const SpatialGrid& grid) {
  constexpr std::array<int SpatialGrid::*, kMaxSpatial> kParts = {&SpatialGrid::d, &SpatialGrid::h,
                                                                  &SpatialGrid::w};
  SpatialGrid met = grid;
  const auto* own = std::get_if<Input>(&node.op);
  if (own == nullptr) return met;
  for (const Node& other : graph.nodes) {
    const auto* input = std::get_if<Input>(&other.op);
    for (size_t axis = 0; input != nullptr && axis < kMaxSpatial; ++axis) {
      if (own->extents[axis] == 1 && input->extents[axis] > 1) met.*kParts[axis] = 1;
    }
  }
  return met;
}

Judgement Judge(const Operator& op, const std::vector<Placement>& inputs, const Shape& output,
                const SpatialGrid& grid, int multiple) {
  Judgement judgement;
  judgement.output = Whole(output);
  if (std::holds_alternative<Input>(op)) {
    JudgeInput(grid, multiple, judgement);
    return judgement;
  }
  const Placement& input = inputs.front();
  if (WindowAlong(op, 0)) {
    JudgeWindows(op, input, grid, judgement);
  } else if (const auto* transposed = std::get_if<TransposedConvolution>(&op)) {
    JudgeTransposed(*transposed, input, grid, judgement);
  } else if (std::holds_alternative<GlobalPooling>(op)) {
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      if (input.axes[axis].IsCut()) JudgePooledRows(input.axes[axis], axis, judgement);
    }
  } else if (NeedsAllPositions(op, inputs) && SummedGroups(op) > 0) {
    NeverAsItIs(judgement, "each rank would take the means and variances of its own positions");
    KeepRows(input, judgement);
  } else if (NeedsAllPositions(op, inputs)) {
    Worsen(judgement, Verdict::kGather,
           "it needs all positions: the program gathers them before it");
    const bool keeps = std::holds_alternative<Attention>(op) || std::holds_alternative<Roll>(op) ||
                       std::holds_alternative<Opaque>(op);
    if (keeps) KeepRows(input, judgement);
  } else if (std::holds_alternative<Attention>(op)) {
    KeepRows(input, judgement);
  } else if (std::holds_alternative<Flatten>(op) || std::holds_alternative<FullyConnected>(op) ||
             std::holds_alternative<Reshape>(op)) {
    // Every rank has the whole input and computes the whole output.
  } else if (const auto* padding = std::get_if<Padding>(&op)) {
    JudgePadding(*padding, input, judgement);
  } else if (const auto* upsampling = std::get_if<Upsampling>(&op)) {
    JudgeUpsampling(*upsampling, input, judgement);
  } else if (inputs.size() > 1) {
    JudgeJoin(inputs, judgement);
  } else {
    JudgeByPosition(op, input, judgement);
  }
  if (judgement.verdict == Verdict::kRefused) judgement.output = EqualStripes(output, grid);
  return judgement;
}

}  // namespace ucudnn::planner
