// Times a 3x3 convolution of large bf16 images, undivided and in parts along h. The result has the
// image's size.
#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "facts_plans.h"
#include "tests/support/problem.h"

namespace ucudnn::facts {
namespace {

constexpr int kTileRounds = 5, kLongRounds = 3;
constexpr double kLongMs = 700;          // a case that takes longer runs only once
constexpr int64_t kEstimated = 64;       // an image's time is estimated from a 64th of the image
constexpr double kMostWholeMs = 12000;   // an undivided image that would take longer does not run
constexpr uint16_t kUnwritten = 0xffff;  // a NaN that marks elements of y which are not written
constexpr size_t kWidth = 2;             // the bytes of an element

// A part of an image: the rows [first, first + rows) of y. These rows read x_rows rows of x, from
// row x_first on. `pre` and `post` rows of padding replace rows outside the image.
struct Part {
  int64_t first = 0, rows = 0, x_first = 0, x_rows = 0, pre = 0, post = 0;
  bool operator==(const Part&) const = default;
};

std::vector<Part> Cut(int64_t size, int64_t parts) {
  std::vector<Part> cut;
  for (int64_t i = 0; i < parts; ++i) {
    Part part;
    part.first = size * i / parts;
    part.rows = size * (i + 1) / parts - part.first;
    part.pre = part.first == 0 ? 1 : 0;
    part.post = part.first + part.rows == size ? 1 : 0;
    part.x_first = part.first - 1 + part.pre;
    part.x_rows = part.rows + 2 - part.pre - part.post;
    cut.push_back(part);
  }
  return cut;
}

struct Picture {
  int64_t channels, size;
  Layout layout;
  // True if parts are copied to packed tensors, because their channels are too far apart for views.
  bool packs;

  size_t Elements() const { return static_cast<size_t>(channels * size * size); }
  // Returns the strides of a part of `rows` rows in an image of `height` rows. There is one image,
  // so the stride of n needs to cover only the part. For strides of 2^31 elements or more cuDNN
  // offers only engine 0.
  Strides StridesOf(int64_t rows, int64_t height) const {
    const bool last = layout == Layout::kNhwc;
    const int64_t c = last ? 1 : height * size, h = last ? size * channels : size;
    const int64_t w = last ? channels : 1;
    return {1 + (channels - 1) * c + (rows - 1) * h + (size - 1) * w, c, 0, h, w};
  }
  std::string Name() const {
    const std::string c = std::to_string(channels);
    return c + "->" + c + " " + std::to_string(size) + "^2 bf16 " +
           (layout == Layout::kNchw ? "nchw" : "nhwc");
  }
};

// Returns the first plan that cuDNN builds for a part.
Plan PlanOf(const cudnn::PlanDevice& device, const Picture& picture, const Part& part, bool packed,
            int64_t engine = kAnyEngine) {
  const auto c = static_cast<int>(picture.channels), size = static_cast<int>(picture.size);
  const auto pre = static_cast<int>(part.pre), post = static_cast<int>(part.post);
  NamedGraph graph;
  graph.problem = test::ProblemWith({.n = 1,
                                     .c = c,
                                     .k = c,
                                     .x = {1, static_cast<int>(part.x_rows), size},
                                     .pad = {0, pre, 1},
                                     .type = DataType::kBfloat16,
                                     .layout = picture.layout});
  graph.problem.extra_pad = {0, post - pre, 0};
  graph.problem.x_strides = picture.StridesOf(part.x_rows, packed ? part.x_rows : size);
  graph.problem.y_strides = picture.StridesOf(part.rows, packed ? part.rows : size);
  return FirstPlan(graph.Build(device).get(), device, engine);
}

float Widened(uint16_t bits) { return __bfloat162float(std::bit_cast<__nv_bfloat16>(bits)); }

// Returns "equal", "equal when rounded" (engines may round intermediate values), or how many
// elements differ.
std::string Compared(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  if (a == b) return "equal";
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different += a[i] != b[i] && !(std::nearbyint(Widened(a[i])) == std::nearbyint(Widened(b[i])));
  }
  if (different == 0) return "equal when rounded";
  return std::to_string(different) + " of " + std::to_string(a.size()) + " DIFFER";
}

// Parts with the same padding and number of rows share a plan.
using Kind = std::array<int64_t, 3>;
Kind KindOf(const Part& part) { return {part.pre, part.post, part.rows}; }
std::map<Kind, Plan> PlansOf(const cudnn::PlanDevice& device, const Picture& picture,
                             const std::vector<Part>& cut) {
  std::map<Kind, Plan> plans;
  for (const Part& part : cut) {
    if (plans.contains(KindOf(part))) continue;
    plans.emplace(KindOf(part), PlanOf(device, picture, part, picture.packs && cut.size() > 1));
  }
  return plans;
}
Json Described(const std::map<Kind, Plan>& plans) {
  Json described = Json::array();
  for (const auto& [kind, plan] : plans) {
    Json row = {{"pre", kind[0]}, {"post", kind[1]}, {"rows", kind[2]}};
    row.update(plan.described);
    described.push_back(row);
  }
  return described;
}

// One division of the picture, with the plans and the memory for its parts.
class Way {
 public:
  Way(const Device& device, const Picture& picture, int64_t parts, char* x, char* w, char* y)
      : device_(device), picture_(picture), packs_(picture.packs && parts > 1), x_(x), y_(y) {
    cut_ = Cut(picture.size, parts);
    plans_ = PlansOf({device.handle(), nullptr}, picture, cut_);
    size_t workspace_bytes = 0, x_rows = 0, y_rows = 0;
    for (const Part& part : cut_) {
      workspace_bytes = std::max(workspace_bytes, plans_.at(KindOf(part)).workspace_bytes);
      x_rows = std::max(x_rows, static_cast<size_t>(part.x_rows));
      y_rows = std::max(y_rows, static_cast<size_t>(part.rows));
    }
    workspace_.emplace(workspace_bytes);
    const auto row_bytes = static_cast<size_t>(picture.channels * picture.size) * kWidth;
    if (packs_) {
      packed_x_.emplace(x_rows * row_bytes);
      packed_y_.emplace(y_rows * row_bytes);
    }
    for (const Part& part : cut_) {
      char* const own_x = packs_ ? packed_x_->at(0) : x + Offset(part.x_first);
      char* const own_y = packs_ ? packed_y_->at(0) : y + Offset(part.first);
      variants_.push_back(
          Pack({{test::kUidX, test::kUidW, test::kUidY}, {own_x, w, own_y}}, workspace_->get()));
    }
  }

  void Enqueue(bool with_copies = true) const {
    for (size_t i = 0; i < cut_.size(); ++i) {
      const Part& part = cut_[i];
      const bool copies = packs_ && with_copies;
      if (copies) CopyRows(packed_x_->at(0), x_, part.x_first, part.x_rows, true);
      Execute(device_, plans_.at(KindOf(part)), variants_[i]);
      if (copies) CopyRows(packed_y_->at(0), y_, part.first, part.rows, false);
    }
  }

  bool packs() const { return packs_; }
  const std::map<Kind, Plan>& plans() const { return plans_; }

 private:
  // Returns the offset of a row in the image's first channel, in bytes.
  size_t Offset(int64_t row) const {
    return static_cast<size_t>(row * picture_.StridesOf(1, picture_.size)[3]) * kWidth;
  }
  void CopyRows(char* packed, char* image, int64_t first, int64_t rows, bool to_packed) const {
    const size_t own = static_cast<size_t>(rows * picture_.size) * kWidth;
    const size_t whole = static_cast<size_t>(picture_.size * picture_.size) * kWidth;
    char* const at = image + Offset(first);
    Check(
        cudaMemcpy2DAsync(to_packed ? packed : at, to_packed ? own : whole, to_packed ? at : packed,
                          to_packed ? whole : own, own, static_cast<size_t>(picture_.channels),
                          cudaMemcpyDeviceToDevice, device_.stream()),
        "cudaMemcpy2DAsync");
  }

  const Device& device_;
  const Picture picture_;
  const bool packs_;
  char *x_, *y_;
  std::vector<Part> cut_;
  std::map<Kind, Plan> plans_;
  std::optional<Memory> workspace_, packed_x_, packed_y_;
  std::vector<cudnn::BackendDescriptor> variants_;
};

class Bench {
 public:
  Bench(const Options& options, const Device& device, const Picture& picture)
      : options_(options),
        device_(device),
        picture_(picture),
        x_(picture.Elements() * kWidth),
        w_(FilterElements() * kWidth),
        y_(picture.Elements() * kWidth) {}

  // Computes the picture in `parts` parts once, on integers. Compares the result with the result of
  // the first call of this function. If this run took at most kLongMs, also times the parts on
  // random numbers. If parts > 1 and the picture does not pack, the uncut image is timed in turn
  // with the parts. If the picture packs, the uncut image runs only for parts == 1, and only if its
  // estimated time is at most kMostWholeMs.
  Json Parts(int64_t parts) {
    const Way way(device_, picture_, parts, x_.at(0), w_.at(0), y_.at(0));
    Json told = {{"parts", parts}, {"packed", way.packs()}, {"plans", Described(way.plans())}};
    if (picture_.packs && parts == 1) {
      const double estimated_ms = EstimatedMs(way.plans().begin()->second.engine);
      told["estimated_ms"] = estimated_ms;
      if (estimated_ms > kMostWholeMs) return told;
    }
    FillBoth(Filling::kWhole);
    Check(cudaMemset(y_.get(), 0xff, picture_.Elements() * kWidth), "cudaMemset");
    Check(cudaDeviceSynchronize(), "cudaMemset");
    const double first_ms = device_.EventMs([&] { way.Enqueue(); });
    told["first_ms"] = first_ms;
    const std::vector<uint16_t> result = Result();
    if (std::find(result.begin(), result.end(), kUnwritten) != result.end()) {
      throw Failure("elements of the output were not written");
    }
    if (std::count(result.begin(), result.end(), 0) == static_cast<ptrdiff_t>(result.size())) {
      throw Failure("the output is all zero");
    }
    if (expected_.empty()) {
      expected_ = result;
    } else {
      told["result"] = Compared(expected_, result);
    }
    if (first_ms > kLongMs) return told;
    FillBoth(Filling::kRandom);
    device_.WarmUp(options_, [&] { way.Enqueue(); });
    std::optional<Way> whole;
    if (!picture_.packs && parts > 1) {
      whole.emplace(device_, picture_, 1, x_.at(0), w_.at(0), y_.at(0));
      device_.EventMs([&] { whole->Enqueue(); });
    }
    for (int round = 0; round < (picture_.packs ? kLongRounds : kTileRounds); ++round) {
      told["event_ms"].push_back(device_.EventMs([&] { way.Enqueue(); }));
      if (whole) told["whole_ms"].push_back(device_.EventMs([&] { whole->Enqueue(); }));
      if (way.packs()) {
        told["without_copies_ms"].push_back(device_.EventMs([&] { way.Enqueue(false); }));
      }
    }
    return told;
  }

 private:
  // Estimates the engine's time for the undivided image from its time for one of kEstimated parts.
  double EstimatedMs(int64_t engine) const {
    const Part part = Cut(picture_.size, kEstimated)[1];
    const Plan plan = PlanOf({device_.handle(), nullptr}, picture_, part, true, engine);
    const Memory workspace(plan.workspace_bytes);
    const auto pack = Pack(
        {{test::kUidX, test::kUidW, test::kUidY}, {x_.get(), w_.get(), y_.get()}}, workspace.get());
    const auto run = [&] { Execute(device_, plan, pack); };
    device_.EventMs(run);  // loads the kernel, which is not to be timed
    return kEstimated * device_.EventMs(run);
  }
  size_t FilterElements() const {
    return static_cast<size_t>(picture_.channels * picture_.channels * 9);
  }
  void FillBoth(Filling filling) {
    Fill(x_.get(), picture_.Elements(), DataType::kBfloat16, filling, 1);
    Fill(w_.get(), FilterElements(), DataType::kBfloat16, filling, 2);
  }
  // Returns all of y, or only three of its channels if the picture packs.
  std::vector<uint16_t> Result() const {
    const auto image = static_cast<size_t>(picture_.size * picture_.size);
    const auto last = static_cast<size_t>(picture_.channels - 1);
    std::vector<size_t> firsts = {0};
    size_t elements = picture_.Elements();
    if (picture_.packs) {
      firsts = {0, last / 2 * image, last * image};
      elements = image;
    }
    std::vector<uint16_t> values(firsts.size() * elements);
    for (size_t i = 0; i < firsts.size(); ++i) {
      Check(cudaMemcpy(&values[i * elements], y_.at(firsts[i] * kWidth), elements * kWidth,
                       cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    }
    return values;
  }

  const Options& options_;
  const Device& device_;
  const Picture picture_;
  const Memory x_, w_, y_;
  std::vector<uint16_t> expected_;  // the result of the first case
};

}  // namespace

void Tiles(const Options& options) {
  const Target target(options);
  Cases cases(options);
  const int64_t channels = options.tiny ? 8 : 256, size = options.tiny ? 64 : 1024;
  const struct {
    Picture picture;
    std::vector<int64_t> parts;
  } kRows[] = {{{channels, size, Layout::kNchw, false}, {1, 4, 16, 32, 64}},
               {{channels, size, Layout::kNhwc, false}, {1, 4}},
               {{channels, 4 * size, Layout::kNchw, true}, {64, 4, 1}}};
  for (const auto& row : kRows) {
    std::optional<Bench> bench;
    for (const int64_t parts : row.parts) {
      cases.Run(row.picture.Name() + (parts == 1 ? " whole" : " in " + std::to_string(parts)),
                [&]() -> Json {
                  if (target.present == nullptr) {
                    const auto cut = Cut(row.picture.size, parts);
                    return {{"plans", Described(PlansOf(target.device, row.picture, cut))}};
                  }
                  if (!bench) bench.emplace(options, *target.present, row.picture);
                  return bench->Parts(parts);
                });
    }
  }
}

}  // namespace ucudnn::facts
