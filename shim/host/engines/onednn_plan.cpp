#include "shim/host/engines/onednn_plan.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "shim/host/engines/onednn_version.h"
#include "shim/host/engines/parallel.h"

namespace hostgpu {
namespace {

using dnnl::memory;
using Extents = std::array<int64_t, 5>;

// kBlocked uses the layouts that oneDNN chooses for this batch size, whatever the real batch size
// is. So a micro-batch uses the layouts of the undivided batch, and the result of each image is the
// same to the last bit. If oneDNN has no primitive with these layouts, it chooses others.
constexpr int64_t kLayoutBatch = 32;
constexpr size_t kAlign = 64;
constexpr size_t kBlends = 8;

size_t Aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

Extents DenseStrides(const Extents& extents, bool channels_last) {
  const std::array<int, 5> fast_to_slow =
      channels_last ? std::array<int, 5>{1, 4, 3, 2, 0} : std::array<int, 5>{4, 3, 2, 1, 0};
  Extents strides;
  int64_t stride = 1;
  for (int axis : fast_to_slow) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

// Returns true if the strides are equal on all axes with more than one element. Strides of other
// axes do not matter.
bool SameStrides(const Extents& extents, const Extents& a, const Extents& b) {
  for (int i = 0; i < 5; ++i) {
    if (extents[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

// Returns the values in oneDNN's order of axes. Axis d exists only if `has_depth`. A grouped filter
// has the number of groups as an additional first axis, and k / groups filters on the next one.
memory::dims Axes(const Extents& values, bool has_depth, int64_t groups, int64_t group_value) {
  memory::dims result;
  if (groups > 1) result.push_back(group_value);
  result.push_back(values[0]);
  result.push_back(values[1]);
  if (has_depth) result.push_back(values[2]);
  result.push_back(values[3]);
  result.push_back(values[4]);
  return result;
}

memory::dims SpatialAxes(const std::array<int64_t, 3>& values, bool has_depth) {
  return memory::dims(values.begin() + (has_depth ? 0 : 1), values.end());
}

struct TensorShape {
  Extents extents;
  bool has_depth;
  int64_t groups;  // number of groups for a filter; 1 for x and y

  memory::dims Dims() const {
    Extents values = extents;
    values[0] /= groups;
    return Axes(values, has_depth, groups, groups);
  }
  memory::desc Strided(const Extents& strides) const {
    return {Dims(), memory::data_type::f32,
            Axes(strides, has_depth, groups, extents[0] / groups * strides[0])};
  }
  memory::desc Any() const { return {Dims(), memory::data_type::f32, memory::format_tag::any}; }
};

// The layouts of x and y in which images are stored one after the other.
using Tag = memory::format_tag;
constexpr Tag kLayouts2d[] = {Tag::abcd, Tag::acdb, Tag::aBcd16b, Tag::aBcd8b, Tag::aBcd4b};
constexpr Tag kLayouts3d[] = {Tag::abcde, Tag::acdeb, Tag::aBcde16b, Tag::aBcde8b, Tag::aBcde4b};

// Changes `layout`, a layout of `shape`, to batch size `n`. Returns false if `layout` is none of
// the layouts above.
bool SetBatch(memory::desc* layout, const TensorShape& shape, int64_t n) {
  TensorShape resized = shape;
  resized.extents[0] = n;
  for (const auto tag : shape.has_depth ? kLayouts3d : kLayouts2d) {
    if (memory::desc(shape.Dims(), memory::data_type::f32, tag) != *layout) continue;
    *layout = memory::desc(resized.Dims(), memory::data_type::f32, tag);
    return true;
  }
  return false;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// The memory layouts and the primitive of a convolution in any direction.
struct Description {
  memory::desc x, w, y, scratchpad;
  dnnl::primitive primitive;
};

Description DescribePrimitive(const ConvolutionShape& shape, bool has_depth,
                              dnnl::algorithm algorithm, const memory::desc& x,
                              const memory::desc& w, const memory::desc& y, bool create) {
  ConvolutionGeometry geometry{
      SpatialAxes(shape.stride, has_depth), SpatialAxes(shape.dilation, has_depth),
      SpatialAxes(shape.pad, has_depth), SpatialAxes(shape.upper_pad, has_depth)};
  for (auto& value : geometry.dilation) --value;
  const dnnl::primitive_attr attr = UserScratchpad();
  dnnl::engine& engine = CpuEngine();
  const auto finish = [&](const auto& descriptor, const memory::desc& x_layout,
                          const memory::desc& w_layout, const memory::desc& y_layout,
                          auto primitive) {
    if (std::string_view(descriptor.impl_info_str()).substr(0, 3) == "ref") {
      throw dnnl::error(dnnl_unimplemented, "only reference loops");
    }
    Description result{x_layout, w_layout, y_layout, descriptor.scratchpad_desc(), {}};
    if (create) result.primitive = decltype(primitive)(descriptor);
    return result;
  };

  const bool forward = shape.operation == Operation::kForward;
  const auto forward_pd = DescribeForward(
      forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, algorithm,
      x, w, y, geometry, attr, engine);
  if (forward) {
    return finish(forward_pd, forward_pd.src_desc(), forward_pd.weights_desc(),
                  forward_pd.dst_desc(), dnnl::convolution_forward());
  }
  if (shape.operation == Operation::kBackwardData) {
    const auto pd = DescribeBackward<dnnl::convolution_backward_data>(algorithm, x, w, y, geometry,
                                                                      attr, engine, forward_pd);
    return finish(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(),
                  dnnl::convolution_backward_data());
  }
  const auto pd = DescribeBackward<dnnl::convolution_backward_weights>(algorithm, x, w, y, geometry,
                                                                       attr, engine, forward_pd);
  return finish(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(),
                dnnl::convolution_backward_weights());
}

}  // namespace

dnnl::engine& CpuEngine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

std::shared_ptr<const OnednnPlan> OnednnPlan::Create(const ConvolutionShape& shape,
                                                     OnednnVariant variant) {
  if (shape.type == DataType::kDouble) return nullptr;
  ScopedThreadCount threads(ThreadCount());
  auto plan = std::make_shared<OnednnPlan>();
  try {
    if (!plan->Describe(shape, variant)) return nullptr;
    bool created = false;
    for (const bool forced_layouts : {true, false}) {
      for (const FewChannels x : {FewChannels::kAsStored, FewChannels::kNchw, FewChannels::kAny}) {
        created = created || plan->CreateConvolution(shape, variant, x, forced_layouts);
      }
    }
    if (!created) return nullptr;
    plan->LayOutWorkspace();
  } catch (const std::exception&) {
    return nullptr;
  }
  return plan;
}

bool OnednnPlan::Describe(const ConvolutionShape& shape, OnednnVariant variant) {
  type_ = shape.type;
  operation_ = shape.operation;
  output_ = operation_ == Operation::kForward ? 2 : operation_ == Operation::kBackwardData ? 0 : 1;

  const std::array<Extents, 3> extents{
      Extents{shape.n, shape.c, shape.x[0], shape.x[1], shape.x[2]},
      Extents{shape.k, shape.c / shape.groups, shape.w[0], shape.w[1], shape.w[2]},
      Extents{shape.n, shape.k, shape.y[0], shape.y[1], shape.y[2]}};
  const std::array<Extents, 3> strides{shape.x_strides, DenseStrides(extents[1], shape.filter_nhwc),
                                       shape.y_strides};
  for (int i = 0; i < 3; ++i) {
    Operand& operand = operands_[i];
    const Extents first = DenseStrides(extents[i], false), last = DenseStrides(extents[i], true);
    const bool is_heuristics_first = SameStrides(extents[i], strides[i], first);
    const bool is_last = !is_heuristics_first && SameStrides(extents[i], strides[i], last);
    if (variant == OnednnVariant::kPlain && !is_heuristics_first && !is_last) return false;
    operand.copy = {extents[i], strides[i], is_last ? last : first};
    // On axes of one element, a dense tensor's strides replace the caller's, so that oneDNN treats
    // the tensor as dense.
    if (is_heuristics_first || is_last) operand.copy.user_strides = operand.copy.dense_strides;
    operand.staged = type_ != DataType::kFloat;
  }
  Operand& filter = operands_[1];
  if (variant == OnednnVariant::kWinograd && shape.filter_nhwc) {
    // For Winograd, oneDNN converts filters only from and to the order k, c, h, w.
    filter.staged = true;
    filter.copy.dense_strides = DenseStrides(extents[1], false);
  }
  if (shape.flip) {
    filter.staged = true;
    for (int axis = 0; axis < 3; ++axis) {
      int64_t& stride = filter.copy.user_strides[axis + 2];
      filter.user_offset += (shape.w[axis] - 1) * stride;
      stride = -stride;
    }
  }
  if (variant != OnednnVariant::kPlain) return true;
  return !operands_[0].staged && !operands_[1].staged;
}

bool OnednnPlan::CreateConvolution(const ConvolutionShape& shape, OnednnVariant variant,
                                   FewChannels few_channels, bool forced_layouts) try {
  const bool has_depth = shape.x[0] != 1 || shape.w[0] != 1 || shape.y[0] != 1 ||
                         shape.pad[0] != 0 || shape.upper_pad[0] != 0;
  const auto algorithm = variant == OnednnVariant::kWinograd ? dnnl::algorithm::convolution_winograd
                                                             : dnnl::algorithm::convolution_direct;
  const auto tensor = [&](int i, int64_t n) {
    TensorShape result{operands_[i].copy.extents, has_depth, i == 1 ? shape.groups : 1};
    if (i != 1) result.extents[0] = n;
    return result;
  };
  const auto wish = [&](int i, int64_t n) {
    const TensorShape t = tensor(i, n);
    const bool plain = variant == OnednnVariant::kPlain
                           ? i != 1 || operands_[1].copy.dense_strides[1] != 1 || t.extents[1] == 1
                           : i == 0 && t.extents[1] < 16 && few_channels != FewChannels::kAny;
    if (!plain) return t.Any();
    const bool as_stored =
        variant == OnednnVariant::kPlain || few_channels == FewChannels::kAsStored;
    const bool channels_last =
        as_stored && t.extents[1] != 1 && operands_[i].copy.dense_strides[1] == 1;
    return t.Strided(DenseStrides(t.extents, channels_last));
  };
  std::array<memory::desc, 3> layouts{wish(0, shape.n), wish(1, shape.n), wish(2, shape.n)};
  if (forced_layouts && shape.n != kLayoutBatch && variant == OnednnVariant::kBlocked) {
    const Description usual =
        DescribePrimitive(shape, has_depth, algorithm, wish(0, kLayoutBatch), wish(1, kLayoutBatch),
                          wish(2, kLayoutBatch), false);
    layouts = {usual.x, usual.w, usual.y};
    for (int i : {0, 2}) {
      if (!SetBatch(&layouts[i], tensor(i, kLayoutBatch), shape.n)) return false;
    }
  }
  Description description =
      DescribePrimitive(shape, has_depth, algorithm, layouts[0], layouts[1], layouts[2], true);
  convolution_ = description.primitive;
  scratchpad_ = description.scratchpad;
  const std::array<memory::desc, 3> chosen{description.x, description.w, description.y};
  for (int i = 0; i < 3; ++i) {
    Operand& operand = operands_[i];
    operand.plain =
        tensor(i, shape.n)
            .Strided(operand.staged ? operand.copy.dense_strides : operand.copy.user_strides);
    operand.primitive = chosen[i];
    operand.reordered = operand.plain != operand.primitive;
    // The convolution cannot add beta times the old output, so the output needs a buffer even if
    // its layout is right.
    operand.buffered =
        operand.staged || operand.reordered || (i == output_ && variant != OnednnVariant::kPlain);
  }
  return true;
} catch (const dnnl::error&) {
  return false;
}

void OnednnPlan::LayOutWorkspace() {
  size_t end = 0;
  for (Operand& operand : operands_) {
    if (!operand.buffered) continue;
    operand.buffer_offset = end;
    end += Aligned(operand.primitive.get_size());
  }
  shared_offset_ = end;
  size_t shared = scratchpad_.get_size();
  const auto need = [&](size_t bytes) { shared = std::max(shared, bytes); };
  for (int i = 0; i < 3; ++i) {
    const Operand& operand = operands_[i];
    if (!operand.reordered) continue;
    const size_t copy = operand.staged ? Aligned(operand.plain.get_size()) : 0;
    need(copy);
    dnnl::engine& engine = CpuEngine();
    if (i == output_) {
      // Reorders of the output depend on alpha and beta, so they are created when the plan runs. No
      // such reorder is known to need a scratchpad; BlendingReorder fails if one does.
      continue;
    }
    const dnnl::reorder::primitive_desc pd(engine, operand.plain, engine, operand.primitive,
                                           UserScratchpad());
    reorder_scratchpads_[i] = pd.scratchpad_desc();
    reorders_[i] = dnnl::reorder(pd);
    need(copy + pd.scratchpad_desc().get_size());
  }
  workspace_bytes_ = end + shared;
  // The caller's workspace is aligned to 16 bytes. Its contents need alignment to kAlign, so up to
  // kAlign - 16 bytes are skipped.
  if (workspace_bytes_ > 0) workspace_bytes_ += kAlign - 16;
}

dnnl::reorder OnednnPlan::BlendingReorder(float alpha, float beta) const {
  const std::lock_guard lock(mutex_);
  for (const Blend& blend : blends_) {
    if (std::memcmp(&blend.alpha, &alpha, sizeof alpha) == 0 &&
        std::memcmp(&blend.beta, &beta, sizeof beta) == 0) {
      return blend.reorder;
    }
  }
  const Operand& output = operands_[output_];
  dnnl::primitive_attr attr = UserScratchpad();
  if (!output.staged) {
    if (alpha != 1) SetReorderScale(&attr, alpha);
    if (beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(beta);
      attr.set_post_ops(sum);
    }
  }
  dnnl::engine& engine = CpuEngine();
  const dnnl::reorder::primitive_desc pd(engine, output.primitive, engine, output.plain, attr);
  if (pd.scratchpad_desc().get_size() > 0) {
    throw dnnl::error(dnnl_unimplemented, "a blending reorder with a scratchpad");
  }
  if (blends_.size() == kBlends) blends_.erase(blends_.begin());
  blends_.push_back({alpha, beta, dnnl::reorder(pd)});
  return blends_.back().reorder;
}

bool OnednnPlan::Run(float alpha, void* x, void* w, void* y, float beta, void* workspace) const {
  ScopedThreadCount threads(ThreadCount());
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  char* aligned = static_cast<char*>(workspace) + (Aligned(address) - address);
  try {
    Execute(alpha, {x, w, y}, beta, aligned);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void OnednnPlan::Execute(float alpha, std::array<void*, 3> user, float beta,
                         char* workspace) const {
  dnnl::engine& engine = CpuEngine();
  dnnl::stream stream(engine);
  char* shared = workspace + shared_offset_;
  const size_t element = type_ == DataType::kFloat ? 4 : 2;
  const bool blends = alpha != 1 || beta != 0;

  std::array<memory, 3> arguments;
  for (int i = 0; i < 3; ++i) {
    const Operand& operand = operands_[i];
    char* in_user = static_cast<char*>(user[i]) + operand.user_offset * element;
    user[i] = in_user;
    char* buffer = workspace + operand.buffer_offset;
    const bool direct =
        !operand.buffered || (i == output_ && !operand.staged && !operand.reordered && !blends);
    arguments[i] = memory(operand.primitive, engine, direct ? in_user : buffer);
    if (i == output_ || direct) continue;

    char* plain = in_user;
    size_t copy = 0;
    if (operand.staged) {
      plain = operand.reordered ? shared : buffer;
      LoadTensor(operand.copy, type_, in_user, reinterpret_cast<float*>(plain));
      copy = Aligned(operand.plain.get_size());
    }
    if (!operand.reordered) continue;
    reorders_[i].execute(
        stream, {{DNNL_ARG_FROM, memory(operand.plain, engine, plain)},
                 {DNNL_ARG_TO, arguments[i]},
                 {DNNL_ARG_SCRATCHPAD, memory(reorder_scratchpads_[i], engine, shared + copy)}});
  }

  const bool forward = operation_ == Operation::kForward;
  convolution_.execute(
      stream,
      {{operation_ == Operation::kBackwardData ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, arguments[0]},
       {operation_ == Operation::kBackwardFilter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
        arguments[1]},
       {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, arguments[2]},
       {DNNL_ARG_SCRATCHPAD, memory(scratchpad_, engine, shared)}});

  const Operand& output = operands_[output_];
  char* result = workspace + output.buffer_offset;
  if (output.reordered) {
    char* plain = output.staged ? shared : static_cast<char*>(user[output_]);
    const bool staged = output.staged;
    std::unordered_map<int, memory> blended{{DNNL_ARG_FROM, arguments[output_]},
                                            {DNNL_ARG_TO, memory(output.plain, engine, plain)}};
    if (!staged && alpha != 1) PassReorderScale(&blended, engine, &alpha);
    BlendingReorder(staged ? 1 : alpha, staged ? 0 : beta).execute(stream, blended);
    result = plain;
  }
  if (output.staged || (!output.reordered && output.buffered && blends)) {
    BlendTensor(output.copy, type_, reinterpret_cast<const float*>(result), user[output_], alpha,
                beta);
  }
  stream.wait();
}

}  // namespace hostgpu
