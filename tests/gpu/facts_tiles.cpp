// Runs a 3x3 convolution that keeps the size of one large bf16 image, whole and in parts along h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "facts_plans.h"

namespace ucudnn::facts {
namespace {

constexpr int kTileRounds = 5, kLongRounds = 3;
constexpr double kLongMs = 700;          // a whole image that takes longer runs once
constexpr int64_t kEstimated = 64;       // one of so many parts tells a whole image's time
constexpr double kMostWholeMs = 12000;   // a whole image that would take longer does not run
constexpr uint16_t kUnwritten = 0xffff;  // a NaN
constexpr size_t kWidth = 2;             // bytes of an element
constexpr int64_t kAlignment = 16;
using Extents = std::vector<int64_t>;

cudnn::BackendDescriptor New(cudnnBackendDescriptorType_t type) {
  return Take(cudnn::BackendDescriptor::Create(Linked(), type));
}
void Set(cudnn::BackendDescriptor& to, cudnnBackendAttributeName_t name, const Extents& values) {
  Check(to.Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data()));
}
void Set(cudnn::BackendDescriptor& to, cudnnBackendAttributeName_t name,
         const cudnn::BackendDescriptor& part) {
  const cudnnBackendDescriptor_t descriptor = part.get();
  Check(to.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor));
}

// Describes rows of an image in memory. The n stride is the span of these rows, since with a span
// of 2^31 elements or more only engine 0 is left.
cudnn::BackendDescriptor Tensor(int64_t uid, const Extents& dims, Extents strides) {
  strides[0] = 1;
  for (int axis = 1; axis < 4; ++axis) strides[0] += (dims[axis] - 1) * strides[axis];
  cudnn::BackendDescriptor tensor = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  Check(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, strides);
  Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, Extents{uid});
  Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Extents{kAlignment});
  Check(tensor.Finalize());
  return tensor;
}

// The y rows [first, first + rows) of an image, and the x rows that they read: `pre` and `post`
// rows of padding replace those outside the image.
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
  bool packs;  // parts are copied to packed tensors, since their channels lie too far apart for
               // views

  size_t Elements() const { return static_cast<size_t>(channels * size * size); }
  // Returns the strides of a part that lies in an image of `height` rows.
  Extents Strides(int64_t height) const {
    if (layout == Layout::kNhwc) return {0, 1, size * channels, channels};
    return {0, height * size, size, 1};
  }
  std::string Name() const {
    const std::string c = std::to_string(channels);
    return c + "->" + c + " " + std::to_string(size) + "^2 bf16 " +
           (layout == Layout::kNchw ? "nchw" : "nhwc");
  }
};

// Returns the plan of the first configuration that the library builds.
Plan PlanOf(const cudnn::PlanDevice& device, const Picture& picture, const Part& part, bool packed,
            int64_t engine = kAnyEngine) {
  const int64_t c = picture.channels, size = picture.size;
  const auto x =
      Tensor(test::kUidX, {1, c, part.x_rows, size}, picture.Strides(packed ? part.x_rows : size));
  const auto w =
      Tensor(test::kUidW, {c, c, 3, 3},
             picture.layout == Layout::kNchw ? Extents{0, 9, 3, 1} : Extents{0, 1, 3 * c, c});
  const auto y =
      Tensor(test::kUidY, {1, c, part.rows, size}, picture.Strides(packed ? part.rows : size));
  auto convolution = New(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Extents{2});
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
  Check(convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  Set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Extents{part.pre, 1});
  Set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Extents{part.post, 1});
  Set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, Extents{1, 1});
  Set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Extents{1, 1});
  Check(convolution.Finalize());
  auto operation = New(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const float alpha = 1, beta = 0;
  Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
  Check(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha));
  Check(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta));
  Check(operation.Finalize());
  auto graph = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  if (device.handle != nullptr) {
    Check(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle));
  }
  Check(graph.Finalize());
  return FirstPlan(graph.get(), device, engine);
}

float FromBfloat(uint16_t narrow) {
  const uint32_t bits = uint32_t{narrow} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Returns "equal", "equal when rounded" (for engines with intermediate rounding), or how many
// differ.
std::string Compared(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  if (a == b) return "equal";
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different +=
        a[i] != b[i] && !(std::nearbyint(FromBfloat(a[i])) == std::nearbyint(FromBfloat(b[i])));
  }
  if (different == 0) return "equal when rounded";
  return std::to_string(different) + " of " + std::to_string(a.size()) + " DIFFER";
}

// Parts with the same padding and as many rows share a plan.
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

// One way to compute the picture: its parts' plans and where they run.
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
  // Returns the bytes from the image's beginning to the row's in the image's first channel.
  size_t Offset(int64_t row) const {
    return static_cast<size_t>(row * picture_.Strides(picture_.size)[2]) * kWidth;
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

  // The whole image runs first, and again in turn with each division. If it is too slow for that,
  // it runs last, and once.
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
  // Estimates the engine's time for the whole image from its time for some rows.
  double EstimatedMs(int64_t engine) const {
    const Part part = Cut(picture_.size, kEstimated)[1];
    const Plan plan = PlanOf({device_.handle(), nullptr}, picture_, part, true, engine);
    const Memory workspace(plan.workspace_bytes);
    const auto pack = Pack(
        {{test::kUidX, test::kUidW, test::kUidY}, {x_.get(), w_.get(), y_.get()}}, workspace.get());
    const auto run = [&] { Execute(device_, plan, pack); };
    device_.EventMs(run);  // loads the kernel
    return kEstimated * device_.EventMs(run);
  }
  size_t FilterElements() const {
    return static_cast<size_t>(picture_.channels * picture_.channels * 9);
  }
  void FillBoth(Filling filling) {
    Fill(x_.get(), picture_.Elements(), DataType::kBfloat16, filling, 1);
    Fill(w_.get(), FilterElements(), DataType::kBfloat16, filling, 2);
  }
  // Returns all of y, or three of its channels if it is too large.
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
