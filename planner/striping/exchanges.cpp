#include "planner/striping/exchanges.h"

#include <algorithm>
#include <utility>

#include "convolution/pooled_boxes.h"
#include "convolution/problem.h"
#include "planner/cost/cost_model.h"

namespace ucudnn::planner {
namespace {

// Numbers of elements of one image and channel that each cell of the grid sends and receives.
struct RowCounts {
  std::vector<int64_t> sent;
  std::vector<int64_t> received;
};

RowCounts NoRows(const SpatialGrid& cut) {
  const auto cells = static_cast<size_t>(cut.GroupSize());
  return {std::vector<int64_t>(cells), std::vector<int64_t>(cells)};
}

template <typename Layer>
ConvolutionProblem WindowsOf(const Layer& layer) {
  ConvolutionProblem problem;
  problem.spatial_rank = kMaxSpatial;
  problem.w = layer.window;
  problem.stride = layer.stride;
  problem.pad = layer.pad;
  if constexpr (requires { layer.dilation; }) problem.dilation = layer.dilation;
  return problem;
}

// Calls visit(cell, its stripes) for every cell. `elements` is the placement of the tensor over
// which the windows slide.
template <typename Visit>
void ForEachCell(ConvolutionProblem problem, const Placement& elements, const SpatialGrid& cut,
                 const Visit& visit) {
  AxisExtents extents;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (elements.axes[axis].IsCut()) {
      extents[axis] = elements.axes[axis].extents;
      continue;
    }
    // Nothing is exchanged along an axis that is not cut. One row and a window of one row make this
    // axis a factor of 1 in the counts of elements; FactorOf() has the axis's rows as a factor.
    problem.w[axis] = problem.stride[axis] = problem.dilation[axis] = 1;
    problem.pad[axis] = 0;
    extents[axis] = {1};
  }
  for (int cell = 0; cell < cut.GroupSize(); ++cell) {
    const GridCell at = cut.CellOf(cell);
    const std::array<int, kMaxSpatial> part = {at.d, at.h, at.w};
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      problem.x[axis] = static_cast<int32_t>(extents[axis][static_cast<size_t>(part[axis])]);
    }
    const Result<Stripes> stripes = Stripes::Make(problem, cut, cell, extents);
    // Judge() has already refused a problem that has no stripes.
    if (stripes.ok()) visit(static_cast<size_t>(cell), *stripes);
  }
}

// Counts the elements of rows that ucudnn exchanges inside the ranks' own calls.
RowCounts UnderOwnCalls(const ConvolutionProblem& problem, const Placement& elements,
                        const SpatialGrid& cut) {
  RowCounts rows = NoRows(cut);
  ForEachCell(problem, elements, cut, [&](size_t cell, const Stripes& stripes) {
    for (const HaloMessage& message : stripes.Received()) {
      rows.received[cell] += message.ElementsPerImage();
      rows.sent[static_cast<size_t>(message.peer)] += message.ElementsPerImage();
    }
  });
  return rows;
}

// Counts the elements of rows that ucudnn exchanges for a pooling's gradient. `of` selects the
// tensor: &PooledBoxPair::windows is dy, and &PooledBoxPair::elements is x, whose rows only a
// maximum pooling needs.
RowCounts UnderPooling(ConvolutionProblem problem, const Placement& elements,
                       const SpatialGrid& cut, SpatialBox PooledBoxPair::*of) {
  problem.operation = Operation::kBackwardData;
  RowCounts rows = NoRows(cut);
  ForEachCell(problem, elements, cut, [&](size_t cell, const Stripes& stripes) {
    for (const PooledMessage& message : PooledReceives(stripes)) {
      rows.received[cell] += Elements(message.boxes.*of);
      rows.sent[static_cast<size_t>(message.peer)] += Elements(message.boxes.*of);
    }
  });
  return rows;
}

// Returns (part, number of rows) for each part of one axis that owns some of `needed`.
std::vector<std::pair<int, int64_t>> OwnersOf(const Interval& needed,
                                              const std::vector<Interval>& owned) {
  std::vector<std::pair<int, int64_t>> owners;
  for (size_t part = 0; part < owned.size(); ++part) {
    const int64_t rows = Overlap(needed, owned[part]);
    if (rows > 0) owners.emplace_back(static_cast<int>(part), rows);
  }
  return owners;
}

// Counts the elements that each rank fetches before its call: all that it reads outside its own
// stripe.
RowCounts FetchedRows(const Placement& input, const Judgement& judgement, const SpatialGrid& cut) {
  RowCounts rows = NoRows(cut);
  std::array<std::vector<Interval>, kMaxSpatial> owned, needed;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const bool windows = judgement.windows[axis].has_value();
    owned[axis] = windows ? OwnedRows(RowsOfImage(input.axes[axis])) : std::vector{Interval{0, 1}};
    needed[axis] = windows ? judgement.windows[axis]->needed : owned[axis];
  }
  for (int cell = 0; cell < cut.GroupSize(); ++cell) {
    const GridCell at = cut.CellOf(cell);
    const std::array<int, kMaxSpatial> part = {at.d, at.h, at.w};
    std::array<std::vector<std::pair<int, int64_t>>, kMaxSpatial> owners;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      owners[axis] = OwnersOf(needed[axis][static_cast<size_t>(part[axis])], owned[axis]);
    }
    for (const auto& [d, of_d] : owners[0]) {
      for (const auto& [h, of_h] : owners[1]) {
        for (const auto& [w, of_w] : owners[2]) {
          const int peer = cut.RankOf({0, d, h, w});
          if (peer == cell) continue;
          rows.received[static_cast<size_t>(cell)] += of_d * of_h * of_w;
          rows.sent[static_cast<size_t>(peer)] += of_d * of_h * of_w;
        }
      }
    }
  }
  return rows;
}

// Turns the counts of cells into bytes of ranks. `factor` is the number of bytes of one element
// over all images and channels, and over all rows along axes that are not cut.
Exchange OfRanks(Pass pass, const RowCounts& rows, int64_t factor, const SpatialGrid& cut,
                 const SpatialGrid& grid) {
  Exchange exchange{pass, {}, {}, 0};
  const bool travels = std::any_of(rows.sent.begin(), rows.sent.end(),
                                   [](int64_t elements) { return elements > 0; });
  if (!travels) return exchange;
  for (int rank = 0; rank < grid.GroupSize(); ++rank) {
    const auto cell = static_cast<size_t>(CellIn(cut, grid, rank));
    exchange.sent.push_back(rows.sent[cell] * factor);
    exchange.received.push_back(rows.received[cell] * factor);
  }
  return exchange;
}

RowCounts Returned(const RowCounts& rows) { return {rows.received, rows.sent}; }

int64_t FactorOf(const Placement& tensor) {
  int64_t factor = int64_t{tensor.shape.n} * tensor.shape.c * kElementBytes;
  for (const AxisPlacement& axis : tensor.axes) factor *= axis.IsCut() ? 1 : axis.Whole();
  return factor;
}

// The rows that a layer with windows exchanges in its passes.
struct WindowRows {
  RowCounts forward;
  RowCounts data;    // for the data gradient
  RowCounts filter;  // for the filter gradient
};

// A rank's own convolution call exchanges rows of x forward, and rows of dy once for each gradient.
// A transposed convolution computes the data gradient of a convolution C. So its forward pass and
// its filter gradient exchange the rows that C exchanges for its data gradient. Its data gradient
// exchanges the rows that C exchanges forward.
//
// A rank that fetches rows of x before its call sends back their gradients, and exchanges nothing
// for the filter gradient.
WindowRows RowsOf(const Operator& op, const Placement& input, const Judgement& judgement,
                  const SpatialGrid& cut) {
  const auto with = [](ConvolutionProblem problem, Operation operation) {
    problem.operation = operation;
    return problem;
  };
  if (const auto* layer = std::get_if<TransposedConvolution>(&op)) {
    const ConvolutionProblem problem = WindowsOf(*layer);
    const Placement& elements = judgement.output;
    const RowCounts windows = UnderOwnCalls(with(problem, Operation::kBackwardData), elements, cut);
    return {windows, UnderOwnCalls(with(problem, Operation::kForward), elements, cut), windows};
  }
  if (judgement.verdict != Verdict::kExact) {
    const RowCounts rows = FetchedRows(input, judgement, cut);
    return {rows, Returned(rows), NoRows(cut)};
  }
  if (const auto* layer = std::get_if<Convolution>(&op)) {
    const ConvolutionProblem problem = WindowsOf(*layer);
    const RowCounts windows = UnderOwnCalls(with(problem, Operation::kBackwardData), input, cut);
    return {UnderOwnCalls(with(problem, Operation::kForward), input, cut), windows, windows};
  }
  const RowCounts rows = UnderOwnCalls(WindowsOf(std::get<Pooling>(op)), input, cut);
  return {rows, NoRows(cut), NoRows(cut)};
}

Exchange Together(const Exchange& one, const Exchange& other) {
  if (other.sent.empty()) return one;
  if (one.sent.empty()) return other;
  Exchange sum = one;
  for (size_t rank = 0; rank < sum.sent.size(); ++rank) {
    sum.sent[rank] += other.sent[rank];
    sum.received[rank] += other.received[rank];
  }
  return sum;
}

Exchange PoolingGradient(const Pooling& layer, const Placement& input, const Placement& output,
                         const SpatialGrid& cut, const SpatialGrid& grid) {
  const ConvolutionProblem problem = WindowsOf(layer);
  const Exchange dy =
      OfRanks(Pass::kBackward, UnderPooling(problem, input, cut, &PooledBoxPair::windows),
              FactorOf(output), cut, grid);
  if (layer.kind != PoolingKind::kMaximum) return dy;
  return Together(
      dy, OfRanks(Pass::kBackward, UnderPooling(problem, input, cut, &PooledBoxPair::elements),
                  FactorOf(input), cut, grid));
}

std::vector<Exchange> OfWindows(const Operator& op, const Placement& input,
                                const Judgement& judgement, const SpatialGrid& grid) {
  const SpatialGrid cut = input.CutGrid(grid);
  const WindowRows rows = RowsOf(op, input, judgement, cut);
  const bool is_transposed = std::holds_alternative<TransposedConvolution>(op);
  const bool by_own_calls = is_transposed || judgement.verdict == Verdict::kExact;
  const bool is_pooling = std::holds_alternative<Pooling>(op);
  const int64_t in = FactorOf(input);
  const int64_t out = FactorOf(judgement.output);
  std::vector<Exchange> exchanges = {OfRanks(Pass::kForward, rows.forward, in, cut, grid)};
  if (is_pooling) {
    exchanges.push_back(
        by_own_calls ? PoolingGradient(std::get<Pooling>(op), input, judgement.output, cut, grid)
                     : OfRanks(Pass::kBackward, rows.data, in, cut, grid));
    return exchanges;
  }
  exchanges.push_back(OfRanks(Pass::kBackwardData, rows.data, by_own_calls ? out : in, cut, grid));
  exchanges.push_back(
      OfRanks(Pass::kBackwardFilter, rows.filter, is_transposed ? in : out, cut, grid));
  return exchanges;
}

// Every rank receives the whole input. All ranks then compute the same gradient of it, so the
// backward pass exchanges nothing.
std::vector<Exchange> GatheredWhole(const Placement& input, const SpatialGrid& grid) {
  const int64_t others = input.CutGrid(grid).GroupSize() - 1;
  const int64_t whole = int64_t{input.shape.n} * input.shape.Features() * kElementBytes;
  Exchange exchange{Pass::kForward, {}, {}, 0};
  for (int rank = 0; rank < grid.GroupSize(); ++rank) {
    const int64_t own = input.Elements(grid, rank) * kElementBytes;
    exchange.sent.push_back(own * others);
    exchange.received.push_back(whole - own);
  }
  return {exchange};
}

std::vector<Exchange> Sums(Pass pass, int64_t numbers) {
  return {{pass, {}, {}, numbers * kElementBytes}};
}

std::vector<Exchange> AllOf(const Operator& op, const Placement& input, const Judgement& judgement,
                            const SpatialGrid& grid, int64_t parameters) {
  if (judgement.verdict == Verdict::kGather) {
    std::vector<Exchange> exchanges = GatheredWhole(input, grid);
    if (std::holds_alternative<Attention>(op)) {  // gathers the keys and the values
      exchanges.front() = Together(exchanges.front(), exchanges.front());
    }
    return exchanges;
  }
  // Ranks exchange sums, or maxima, of each channel of each image.
  if (judgement.pools_over_ranks) {
    return Sums(Pass::kForward, int64_t{input.shape.n} * input.shape.c);
  }
  if (WindowAlong(op, 0) || std::holds_alternative<TransposedConvolution>(op)) {
    std::vector<Exchange> exchanges = OfWindows(op, input, judgement, grid);
    if (parameters > 0) exchanges.back().summed = parameters * kElementBytes;
    return exchanges;
  }
  if (std::holds_alternative<BatchNormalization>(op)) {
    // Forward, ranks add up the sums for the mean and the variance of each channel; backward, the
    // sums of dy and of dy times x, which are also the gradients of the parameters.
    std::vector<Exchange> exchanges = Sums(Pass::kForward, 2 * int64_t{input.shape.c});
    exchanges.push_back(Sums(Pass::kBackward, 2 * int64_t{input.shape.c}).front());
    return exchanges;
  }
  const int64_t groups = SummedGroups(op);
  if (groups > 0 && judgement.verdict == Verdict::kConvert) {
    // Ranks add up two numbers for each group of channels of each image forward (mean and
    // variance), and two backward (sums of gradients).
    const int64_t numbers = 2 * int64_t{input.shape.n} * groups;
    std::vector<Exchange> exchanges = Sums(Pass::kForward, numbers);
    exchanges.push_back(Sums(Pass::kBackward, numbers + parameters).front());
    return exchanges;
  }
  return parameters > 0 ? Sums(Pass::kBackward, parameters) : std::vector<Exchange>();
}

}  // namespace

const char* PassName(Pass pass) {
  constexpr std::array<const char*, 4> kNames = {"forward", "backward_data", "backward_filter",
                                                 "backward"};
  return kNames[static_cast<size_t>(pass)];
}

StripeTraffic TrafficOf(const std::vector<Exchange>& exchanges, const SpatialGrid& grid,
                        bool forward_only) {
  std::vector<int64_t> sent(static_cast<size_t>(grid.GroupSize()));
  std::vector<int64_t> received = sent;
  for (const Exchange& exchange : exchanges) {
    if (forward_only && exchange.pass != Pass::kForward) continue;
    for (size_t rank = 0; rank < exchange.sent.size(); ++rank) {
      sent[rank] += exchange.sent[rank];
      received[rank] += exchange.received[rank];
    }
  }
  StripeTraffic traffic;
  for (size_t rank = 0; rank < sent.size(); ++rank) {
    traffic.most_sent = std::max(traffic.most_sent, sent[rank]);
    traffic.most_received = std::max(traffic.most_received, received[rank]);
    traffic.all += received[rank] * grid.n;
  }
  return traffic;
}

std::vector<Exchange> ExchangesOf(const Operator& op, const Placement& input,
                                  const Judgement& judgement, const SpatialGrid& grid,
                                  int64_t parameters, bool has_gradient) {
  if (judgement.verdict == Verdict::kRefused || !input.IsCut()) return {};
  std::vector<Exchange> exchanges = AllOf(op, input, judgement, grid, parameters);
  std::erase_if(exchanges, [&](const Exchange& exchange) {
    const bool is_data = exchange.pass == Pass::kBackwardData ||
                         (exchange.pass == Pass::kBackward && parameters == 0);
    return (is_data && !has_gradient) || (exchange.sent.empty() && exchange.summed == 0);
  });
  return exchanges;
}

}  // namespace ucudnn::planner
