#include "draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "planning/micro_batch_sizes.h"
#include "random.h"
#include "tests/integration/interposer/layer.h"
#include "tests/integration/interposer/primed_store.h"

namespace ucudnn::fuzz {
namespace {

using test::Extra;
using test::Placement;

constexpr int kMaxImages = 20;
constexpr int64_t kMaxElements = 20000;  // elements of image and output, over all images
constexpr int kMeasuredSizes = 12;

// Each part of a case is drawn from a separate stream of random numbers, so that the parts are
// independent.
enum Stream : uint64_t { kKernel, kSetting, kCost, kCall };

// Draws one axis of image, filter and convolution; a filter larger than the image gets padding.
void DrawAxis(Random& random, int axis, int most, ConvolutionProblem& problem) {
  problem.x[axis] = static_cast<int>(random.Between(1, most));
  problem.w[axis] = random.Chance(40) ? 3 : static_cast<int>(random.Between(1, 5));
  problem.dilation[axis] = random.Chance(75) ? 1 : static_cast<int>(random.Between(2, 3));
  problem.stride[axis] = random.Chance(60) ? 1 : static_cast<int>(random.Between(2, 3));
  const int effective = (problem.w[axis] - 1) * problem.dilation[axis] + 1;
  problem.pad[axis] = random.Chance(30)   ? 0
                      : random.Chance(60) ? problem.w[axis] / 2
                                          : static_cast<int>(random.Between(0, effective));
  problem.pad[axis] = std::max(problem.pad[axis], (effective - problem.x[axis] + 1) / 2);
}

void DrawChannels(Random& random, ConvolutionProblem& problem) {
  const int64_t shape = random.Between(1, 100);
  if (shape <= 60) {
    problem.c = static_cast<int>(random.Between(1, random.Chance(15) ? 20 : 6));
    problem.k = static_cast<int>(random.Between(1, random.Chance(15) ? 20 : 6));
  } else if (shape <= 75) {  // depthwise, with one or two filters for each channel
    problem.groups = problem.c = static_cast<int>(random.Between(2, 8));
    problem.k = problem.c * static_cast<int>(random.Between(1, 2));
  } else {
    problem.groups = static_cast<int>(random.Between(2, 4));
    problem.c = problem.groups * static_cast<int>(random.Between(1, 4));
    problem.k = problem.groups * static_cast<int>(random.Between(1, 4));
  }
}

// Changes the problem to one that Winograd supports.
void MakeWinograd(Random& random, ConvolutionProblem& problem) {
  problem.type = problem.compute = DataType::kFloat;
  problem.spatial_rank = 2;
  problem.groups = 1;
  problem.c = 16 * static_cast<int>(random.Between(1, 2));
  problem.k = 16 * static_cast<int>(random.Between(1, 2));
  problem.x[0] = problem.w[0] = 1;
  problem.pad = {0, 1, 1};
  problem.stride = problem.dilation = {1, 1, 1};
  for (const int axis : {1, 2}) {
    problem.x[axis] = static_cast<int>(random.Between(3, 9));
    problem.w[axis] = 3;
  }
}

// Draws strides with gaps, for any order of the axes. In 85 of 100 cases the images are outermost.
Strides DrawStrides(Random& random, int images, int channels, const Spatial& extents, int rank) {
  std::vector<int> order = {1, 3, 4};  // fastest first
  if (rank == 3) order.push_back(2);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Next() % i]);
  order.insert(random.Chance(85) ? order.end() : order.begin() + random.Between(0, 2), 0);
  const std::array<int, 5> all = {images, channels, extents[0], extents[1], extents[2]};
  Strides strides = {};
  int64_t stride = random.Between(1, 2);
  const bool aligned_images = random.Chance(60);
  for (const int axis : order) {
    if (axis == 0 && aligned_images) stride = (stride + 7) / 8 * 8;
    strides[axis] = stride;
    stride = stride * all[axis] + random.Between(0, 3);
  }
  if (rank == 2) strides[2] = strides[3] * extents[1];
  return strides;
}

ConvolutionProblem DrawKernel(Random random) {
  ConvolutionProblem problem;
  problem.operation =
      random.OneOf({Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter});
  problem.type = random.OneOf({DataType::kFloat, DataType::kFloat, DataType::kHalf,
                               DataType::kBfloat16, DataType::kDouble});
  problem.compute = problem.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  if (problem.type == DataType::kHalf && random.Chance(15)) problem.compute = DataType::kHalf;
  problem.mode =
      random.Chance(70) ? ConvolutionMode::kCrossCorrelation : ConvolutionMode::kConvolution;
  problem.math =
      random.Chance(50) ? MathType::kDefault : static_cast<MathType>(random.Between(0, 3));
  problem.spatial_rank = random.Chance(75) ? 2 : 3;
  for (int axis = kMaxSpatial - problem.spatial_rank; axis < kMaxSpatial; ++axis) {
    DrawAxis(random, axis, axis == 0 ? 3 : problem.spatial_rank == 3 ? 6 : 9, problem);
  }
  DrawChannels(random, problem);
  if (random.Chance(8)) MakeWinograd(random, problem);
  problem.n =
      static_cast<int>(std::max(random.Between(1, kMaxImages), random.Between(1, kMaxImages)));
  const Spatial y = OutputExtents(problem);
  const int64_t image = 1LL * problem.c * problem.x[0] * problem.x[1] * problem.x[2] +
                        1LL * problem.k * y[0] * y[1] * y[2];
  problem.n = static_cast<int>(std::clamp<int64_t>(kMaxElements / image, 1, problem.n));
  problem.layout = random.Chance(60) ? Layout::kNchw : Layout::kNhwc;
  SetPackedStrides(problem);
  if (random.Chance(30)) {
    problem.x_strides = DrawStrides(random, problem.n, problem.c, problem.x, problem.spatial_rank);
  }
  if (random.Chance(30)) {
    problem.y_strides = DrawStrides(random, problem.n, problem.k, y, problem.spatial_rank);
  }
  return test::AsRead(problem);
}

// Draws times that make random plans: a size may be fast in one engine and slow in another.
test::Cost DrawCost(uint64_t seed, long number, int whole) {
  Random random(seed, {kCost, static_cast<uint64_t>(number)});
  const double exponent = random.OneOf({0.8, 1.0, 1.2, 1.5, 2.0, 2.0});
  const double spread = random.OneOf({1.0, 1.2, 2.0, 5.0});
  const bool strange = random.Chance(3);  // some times in the store are 0, NaN or infinite
  const bool gaps = random.Chance(50);    // some engines have no measurements at some sizes
  return [=](int algorithm, int size) -> double {
    Random row(seed, {kCost, static_cast<uint64_t>(number), static_cast<uint64_t>(algorithm),
                      static_cast<uint64_t>(size)});
    if (gaps && row.Chance(size == whole ? 10 : 45)) return -1;
    if (strange && row.Chance(30)) {
      return row.OneOf(
          {0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()});
    }
    return 0.01 * std::pow(size, exponent) * std::pow(spread, row.Unit());
  };
}

std::vector<int> DrawSizes(Random& random, const Setting& setting) {
  const ConvolutionProblem& problem = setting.problem;
  const int step = LegalStep(problem);
  // Policy auto may ask for any size, as policy all does.
  const BatchSizePolicy policy = setting.options.policy == BatchSizePolicy::kAuto
                                     ? BatchSizePolicy::kAll
                                     : setting.options.policy;
  const std::vector<int> all = planning::MicroBatchSizes(policy, problem.n, step);
  std::vector<int> sizes;
  if (random.Chance(95)) sizes.push_back(problem.n);
  if (problem.n % step != 0 && step < problem.n && random.Chance(80)) {
    sizes.push_back(problem.n % step);
  }
  for (int i = static_cast<int>(random.Between(1, kMeasuredSizes)); i > 0; --i) {
    sizes.push_back(random.OneOf(all));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Draws a number of bytes: near the need of an engine, zero, or arbitrary.
size_t DrawBytes(Random& random, const std::vector<size_t>& needs) {
  const size_t need = needs.empty() ? 0 : random.OneOf(needs);
  switch (random.Between(0, 6)) {
    case 0:
      return 0;
    case 1:
      return random.Between(1, 64);
    case 2:
      return random.Between(0, 2 * static_cast<int64_t>(need) + 100);
    case 3:
      return need > 0 ? need - 1 : 0;
    case 4:
      return need + random.Between(1, 20);
    default:
      return need;
  }
}

Placement DrawPlacement(Random& random, bool aligned, size_t element) {
  Placement placement;
  placement.edge = random.Chance(70) ? Placement::Edge::kEnd : Placement::Edge::kBegin;
  if (!aligned) placement.offset = random.Between(0, 15) / element * element;
  return placement;
}

test::Scales DrawScales(Random& random, DataType type) {
  test::Scales scales = {random.OneOf({1.0, 1.0, 1.0, 2.0, -1.0, 0.5, 0.0}),
                         random.OneOf({0.0, 0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 0.5})};
  // A float cannot hold these scales, but sums in double are still exact with them.
  if (type == DataType::kDouble && random.Chance(25)) scales.alpha = 1 + 0x1p-30;
  if (type == DataType::kDouble && random.Chance(15)) scales.beta = 1 - 0x1p-30;
  return scales;
}

Amount DrawWorkspace(Random& random, Protocol protocol, const std::vector<size_t>& needs) {
  const auto base = protocol == Protocol::kNone ? Amount::Base::kNeed : Amount::Base::kTold;
  switch (random.Between(0, 9)) {
    case 0:
      return {base, random.Between(1, 4096)};
    case 1:
      return {base, random.Chance(30) ? -1 : 0};
    case 2:
    case 3:
      return {Amount::Base::kNothing, static_cast<int64_t>(DrawBytes(random, needs))};
    case 4:
      return {Amount::Base::kNeed, 0};
    default:
      return {base, 0};
  }
}

// Draws an algorithm: mostly one that the stand-in has, otherwise one for which it returns errors.
int DrawAlgorithm(Random& random, Operation operation) {
  if (random.Chance(5)) return static_cast<int>(random.Between(-1, test::kAlgorithms));
  const int winograd = operation == Operation::kForward        ? 6
                       : operation == Operation::kBackwardData ? 4
                                                               : 5;
  const int plain = operation == Operation::kForward ? 2 : 0;
  return random.OneOf({0, 0, 0, 0, 1, 1, 1, plain, winograd});
}

const char* Name(Protocol protocol) {
  constexpr const char* kNames[] = {"none", "WorkspaceSize", "Get_v7", "Find", "FindEx"};
  return kNames[static_cast<int>(protocol)];
}

std::string Text(const Strides& strides) {
  std::string text;
  for (const int64_t stride : strides) text += (text.empty() ? "" : ",") + std::to_string(stride);
  return text;
}

std::string Text(const Placement& placement) {
  return std::to_string(placement.offset) + (placement.edge == Placement::Edge::kEnd ? "e" : "b");
}

}  // namespace

size_t Amount::Bytes(size_t told, size_t need) const {
  const size_t from = base == Base::kTold ? told : base == Base::kNeed ? need : 0;
  return static_cast<size_t>(std::max<int64_t>(static_cast<int64_t>(from) + difference, 0));
}

Setting DrawSetting(uint64_t seed, long number) {
  const auto kernel = static_cast<uint64_t>(number / kSettingsPerKernel);
  Random random(seed, {kSetting, static_cast<uint64_t>(number)});
  Setting setting;
  setting.problem = DrawKernel(Random(seed, {kKernel, kernel}));
  Options& options = setting.options;
  options.policy = random.OneOf(
      {BatchSizePolicy::kAll, BatchSizePolicy::kAll, BatchSizePolicy::kAll, BatchSizePolicy::kAuto,
       BatchSizePolicy::kAuto, BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kUndivided});
  options.deterministic = random.Chance(20);
  options.tuning.on = random.Chance(1);
  options.tuning.before_promising = random.Chance(50);
  options.tuning.after_calls = static_cast<long>(random.Between(0, 3));
  options.check = random.Chance(10);
  const int mode = static_cast<int>(random.Between(1, 100));
  options.mode = mode <= 2 ? Mode::kOff : mode <= 4 ? Mode::kObserve : Mode::kOn;
  options.log_level = LogLevel::kError;
  setting.has_store = random.Chance(97);
  const std::vector<int> sizes = DrawSizes(random, setting);
  setting.sizes = sizes;
  setting.rows = test::Offered(setting.problem, sizes, DrawCost(seed, number, setting.problem.n));
  for (const planning::Measurement& row : setting.rows) {
    setting.needs.push_back(row.micro.workspace_bytes);
  }
  if (random.Chance(55)) {
    options.workspace_limit = DrawBytes(random, setting.needs);
    options.strict_limit = random.Chance(30);
  } else {
    options.workspace_limit_auto = random.Chance(30);
  }
  // If `verified` is false, most rows are not verified, like rows that another machine or an
  // earlier release wrote.
  const bool verified = random.Chance(80);
  for (planning::Measurement& row : setting.rows) row.verified = verified || random.Chance(30);
  // If ucudnn measures during the run, it begins without rows. ucudnn then uses only legacy
  // engines, because calls to graph engines are not recorded.
  if (options.tuning.on) {
    options.engines = EngineSet::kLegacy;
    setting.rows.clear();
    setting.sizes.clear();
  }
  return setting;
}

Call DrawCall(uint64_t seed, long number, const Setting& setting, std::optional<int> images) {
  Random random(seed, {kCall, static_cast<uint64_t>(number)});
  Call call;
  ConvolutionProblem& problem = call.what.problem;
  problem = setting.problem;
  if (random.Chance(30)) problem.n = static_cast<int>(random.Between(1, problem.n));
  if (images) problem.n = *images;
  if (problem.operation == Operation::kForward) {
    call.what.extra = random.OneOf({Extra::kNone, Extra::kNone, Extra::kRelu, Extra::kIdentity});
    call.what.z_is_y = call.what.extra != Extra::kNone && random.Chance(30);
  }
  call.what.scales = DrawScales(random, problem.type);
  call.data_seed = random.Next();
  const size_t element = ElementBytes(problem.type);
  const bool aligned = random.Chance(80);
  for (Placement* placement : {&call.placements.x, &call.placements.w, &call.placements.y,
                               &call.placements.z, &call.workspace_placement}) {
    *placement = DrawPlacement(random, aligned || random.Chance(50), element);
  }
  call.placements.bias = DrawPlacement(random, random.Chance(50), element);
  call.protocol = random.OneOf({Protocol::kNone, Protocol::kWorkspaceSize, Protocol::kGet,
                                Protocol::kFindEx, Protocol::kFindEx, Protocol::kFind});
  call.algorithm = call.what.extra == Extra::kIdentity && random.Chance(80)
                       ? 1  // the only algorithm that supports an identity
                       : DrawAlgorithm(random, problem.operation);
  call.requested = random.Chance(50) ? 1 : static_cast<int>(random.Between(0, 10));
  call.pick = random.Chance(60) ? 0 : random.Between(0, 5);
  call.asks_again = random.Chance(30);
  call.lent = DrawBytes(random, setting.needs);
  call.workspace = DrawWorkspace(random, call.protocol, setting.needs);
  call.null_workspace = random.Chance(3);
  call.spoiled = call.what.scales.beta == 0 && !call.what.z_is_y && random.Chance(50);
  call.runs = random.Chance(70) ? 1 : 2;
  if (random.Chance(10)) call.failing_piece = static_cast<int>(random.Between(1, 3));
  if (random.Chance(2)) {
    call.fault = random.OneOf({Fault::kOutputBatch, Fault::kFilterChannels, Fault::kTypes});
  }
  return call;
}

std::string Describe(const Setting& setting) {
  const Options& options = setting.options;
  std::ostringstream text;
  text << "policy " << BatchSizePolicyName(options.policy);
  if (options.workspace_limit) text << " limit " << *options.workspace_limit;
  if (options.strict_limit) text << " strict";
  if (options.workspace_limit_auto) text << " limit auto";
  if (options.deterministic) text << " deterministic";
  if (options.check) text << " check";
  if (options.tuning.on) {
    text << " measures " << (options.tuning.before_promising ? "first, else " : "") << "after "
         << options.tuning.after_calls;
  }
  if (options.mode != Mode::kOn) text << (options.mode == Mode::kOff ? " off" : " observe");
  if (!setting.has_store) text << " no store";
  text << " rows";
  for (const planning::Measurement& row : setting.rows) {
    text << " " << row.micro.engine << "@" << row.micro.micro_batch << "=" << row.micro.time_ms
         << "ms/" << row.micro.workspace_bytes << (row.verified ? "" : " unverified");
  }
  return text.str();
}

std::string Describe(const Call& call) {
  const ConvolutionProblem& problem = call.what.problem;
  std::ostringstream text;
  text << Describe(problem) << " x " << Text(problem.x_strides) << " y " << Text(problem.y_strides)
       << " math " << static_cast<int>(problem.math)
       << (problem.mode == ConvolutionMode::kConvolution ? " flipped" : "") << " alpha "
       << call.what.scales.alpha << " beta " << call.what.scales.beta;
  if (call.what.extra != Extra::kNone) {
    text << (call.what.extra == Extra::kRelu ? " relu" : " identity")
         << (call.what.z_is_y ? " z is y" : "");
  }
  text << " at x" << Text(call.placements.x) << " w" << Text(call.placements.w) << " y"
       << Text(call.placements.y) << " z" << Text(call.placements.z) << " workspace"
       << Text(call.workspace_placement) << "; " << Name(call.protocol);
  if (call.protocol <= Protocol::kWorkspaceSize) {
    text << " algorithm " << call.algorithm;
  } else {
    text << " requested " << call.requested << " picks " << call.pick;
    if (call.protocol == Protocol::kFindEx) text << " lends " << call.lent;
  }
  if (call.asks_again) text << " asks again";
  constexpr const char* kBases[] = {"", "told", "need"};
  text << "; runs " << call.runs << " with " << (call.null_workspace ? "null for " : "")
       << kBases[static_cast<int>(call.workspace.base)] << std::showpos << call.workspace.difference
       << std::noshowpos << " bytes";
  if (call.spoiled) text << " spoiled";
  if (call.failing_piece > 0) text << " piece " << call.failing_piece << " fails";
  if (call.fault != Fault::kNone) text << " fault " << static_cast<int>(call.fault);
  return text.str();
}

}  // namespace ucudnn::fuzz
