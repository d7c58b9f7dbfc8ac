// Tests that the graph API's descriptors answer like the real library's: status codes, values, and
// what a refused call leaves behind. Random calls work on a few long-lived descriptors, from
// tensors to operation graphs and variant packs, so that their state is compared, too.
//
// Some calls are left out, because the real library crashes, reads uninitialised memory or mistakes
// one object for another there: a descriptor of another kind as an attribute, operations passed as
// another type, masks of pointwise operations, handles, null results, tensors of a negative data
// type. Others are left out because the libraries differ by design: which engines a graph has, and
// the normalised form in which the operands of a convolution operation are read back.
#include <bit>

#include "tests/unit/host/cudnn/conformance.h"
#include "tests/unit/host/cudnn/graph_attributes.h"

namespace {

using GraphTwin = Twin<cudnnBackendDescriptor_t>;

// The random elements of attributes, by the type of the attribute.
const Draw kFew = {100, {0, 1, 2, -1}, {}};
const std::map<int, Draw> kElements = {
    {CUDNN_TYPE_DATA_TYPE, {80, {0, 0, 0, 1, 2, 9, 3}, Range(-2, 18)}},
    {CUDNN_TYPE_POINTWISE_MODE,
     {60, {0, 1, 9, 100, 101, 106, 200, 601, 501, 402, 21}, Range(-1, 620)}},
    {CUDNN_TYPE_BOOLEAN, Uniform(0, 1)},
    {CUDNN_TYPE_FLOAT, kFew},
    {CUDNN_TYPE_DOUBLE, kFew}};

// The number of elements of an attribute, and the random elements if kElements lacks the
// attribute's type. Without `elements`, the elements are extents.
struct Array {
  Draw count = {70, {1}, Range(-1, 3)};
  Draw elements = {};
};
const Draw kSpatialCount = {85, Range(1, 3), Range(-1, 9)};
const Array kTensorArray = {{85, Range(3, 5), Range(-1, 10)}};
const Array kPackArray = {{80, Range(1, 3), Range(-1, 9)}};
const std::map<int, Array> kArrays = {
    {CUDNN_ATTR_TENSOR_DIMENSIONS, kTensorArray},
    {CUDNN_ATTR_TENSOR_STRIDES, kTensorArray},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
     {.elements = {75, {16, 32, 128}, {0, 1, 2, 3, 4, 8, -16, 1000}}}},
    {CUDNN_ATTR_TENSOR_VECTOR_COUNT, {.elements = {85, {1}, {0, 4, 32, 3, -1}}}},
    {CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, {.elements = {70, {-1}, Range(-2, 9)}}},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {.elements = {80, Range(1, 3), Range(-1, 9)}}},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {kSpatialCount, kPad}},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {kSpatialCount, kPad}},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, {kSpatialCount, kStep}},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {kSpatialCount, kStep}},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kPackArray},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, kPackArray}};

const std::vector<Kind> kOperations = {kForward, kBackwardData, kBackwardFilter,
                                       kPointwiseOperation, kPointwiseOperation};

class GraphConformance : public Conformance {
 protected:
  void TearDown() override {
    for (const auto& [kind, twins] : pools_) {
      for (const GraphTwin& twin : twins) Destroy(twin);
    }
  }

  GraphTwin Create(Kind kind) {
    GraphTwin twin;
    Call(CUDNN(BackendCreateDescriptor), kind, &twin);
    const int knob = CUDNN_KNOB_TYPE_TILE_SIZE;  // the real library leaves the type uninitialised
    if (kind == kKnobChoice) {
      Set(twin, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob);
    }
    return twin;
  }
  void Destroy(const GraphTwin& twin) { Call(CUDNN(BackendDestroyDescriptor), twin); }
  GraphTwin& Replace(GraphTwin& twin, Kind kind) {
    Destroy(twin);
    return twin = Create(kind);
  }
  void Finalize(const GraphTwin& twin) { Call(CUDNN(BackendFinalize), twin); }
  void Set(const GraphTwin& twin, int name, int type, int64_t count, const void* values) {
    Call(CUDNN(BackendSetAttribute), twin, name, type, count, values);
  }
  void Set(const GraphTwin& twin, int name, const std::vector<int64_t>& values) {
    Set(twin, name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  void SetChildren(const GraphTwin& twin, int name, int64_t count,
                   const std::vector<GraphTwin>& children) {
    Call(CUDNN(BackendSetAttribute), twin, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, children);
  }

  GraphTwin& Any(Kind kind) { return pools_.at(kind)[Between(0, kPool - 1)]; }
  GraphTwin AnyOrNull(Kind kind, int null_percent) {
    return Chance(null_percent) ? GraphTwin{} : Any(kind);
  }

  static Array ArrayOf(int name) {
    const auto found = kArrays.find(name);
    return found != kArrays.end() ? found->second : Array();
  }
  int64_t Element(const Array& array, int name, int type) {
    if (const auto found = kElements.find(type); found != kElements.end()) {
      const int value = Int(found->second);
      if (type == CUDNN_TYPE_FLOAT) return std::bit_cast<uint32_t>(static_cast<float>(value));
      if (type == CUDNN_TYPE_DOUBLE) return std::bit_cast<int64_t>(static_cast<double>(value));
      return name == CUDNN_ATTR_TENSOR_DATA_TYPE ? std::max(value, 0) : value;
    }
    if (!array.elements.usual.empty()) return Int(array.elements);
    return Chance(85) ? Int(kExtent) : int64_t{Int(kExtent)} << Between(1, 30);
  }
  // Returns random elements for an attribute: as int64_t for INT64, DOUBLE and VOID_PTR, and as
  // int32_t for all other types. The next call overwrites the elements.
  const void* Elements(int name, int type) {
    const Array array = ArrayOf(name);
    for (int64_t& element : wide_) element = Element(array, name, type);
    if (type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_DOUBLE || type == CUDNN_TYPE_VOID_PTR) {
      return wide_.data();
    }
    std::transform(wide_.begin(), wide_.end(), narrow_.begin(),
                   [](int64_t element) { return static_cast<int32_t>(element); });
    return narrow_.data();
  }
  int Count(int name) { return Int(ArrayOf(name).count); }

  void Renew(Kind kind) {
    GraphTwin& twin = Any(kind);
    if (kind != kKnobChoice && Chance(50)) return Call(CUDNN(BackendInitialize), twin);
    Replace(twin, kind);
  }
  void RandomSet(Kind kind);
  void RandomGet(Kind kind);
  void SetOperations();
  GraphTwin BuildTensor(int64_t id, const std::vector<int64_t>& dims, int type, bool is_virtual);
  void BuildConvolution();
  void BuildPointwise();

  static constexpr int kPool = 5;
  std::map<Kind, std::array<GraphTwin, kPool>> pools_;
  size_t next_tensor_ = 0;
  std::array<int64_t, 16> wide_ = {};
  std::array<int32_t, 32> narrow_ = {};
};

void GraphConformance::RandomSet(Kind kind) {
  if (kind == kGraph && Chance(75)) return SetOperations();
  const Known attribute = OneOf(AttributesOf(kind));
  const GraphTwin twin = AnyOrNull(kind, 3);
  auto [name, type, child_kind] = attribute;
  if (Chance(40))
    name = OneOf<int>({0, 100, 200, 300, 400, 600, 700, 750, 800, 900, 1000, 1200, 5000});
  if (name != attribute.name && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !Chance(12)) {
    const GraphTwin child = AnyOrNull(child_kind, 4);
    return SetChildren(twin, name, Int({88, {1}, Range(-1, 2)}), {child, child});
  }
  if (Chance(50)) type = Between(0, 30);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_HANDLE) return;
  const void* const elements = Elements(name, type);
  // The real library checks first whether the attribute can be set, and then the pointer. So null
  // is passed only for attributes that can be set.
  const bool may_be_null =
      name == attribute.name && type == attribute.type && kind != kKnobInfo && kind != kVariantPack;
  Set(twin, name, type, Count(name), may_be_null && Chance(5) ? nullptr : elements);
}

void GraphConformance::SetOperations() {
  const GraphTwin twin = Any(kGraph);
  const int count = Int({85, {1, 2, 3}, Range(-1, 4)});
  std::vector<GraphTwin> operations(4);
  for (GraphTwin& operation : operations) {
    operation = Any(OneOf(kOperations));
    if (Chance(2)) operation = {};
  }
  SetChildren(twin, CUDNN_ATTR_OPERATIONGRAPH_OPS, count, operations);
}

void GraphConformance::RandomGet(Kind kind) {
  auto [name, type, child_kind] = OneOf(AttributesOf(kind));
  const GraphTwin twin = AnyOrNull(kind, 3);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  if (name == CUDNN_ATTR_CONVOLUTION_CONV_MODE && Chance(50)) type = CUDNN_TYPE_DATA_TYPE;
  if (name == CUDNN_ATTR_TENSOR_REORDERING_MODE && Chance(50)) type = CUDNN_TYPE_INT64;
  if (Chance(40)) name = OneOf<int>({0, 100, 200, 300, 400, 600, 700, 750, 900, 1000, 1200, 5000});
  if (Chance(50)) type = Between(0, 30);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  const bool somewhere = Chance(88);
  const int count = Chance(70) ? Count(name) : Between(-1, 12);
  const Out<int64_t> number;
  if (!somewhere) {
    return Call(CUDNN(BackendGetAttribute), twin, name, type, count, number, nullptr);
  }
  Call(CUDNN(BackendGetAttribute), twin, name, type, count, number, Out<int64_t>());
}

// Builds a tensor that replaces a tensor of the pool. The pool's tensors are replaced in turn, so
// that the tensors of one operation do not replace each other.
GraphTwin GraphConformance::BuildTensor(int64_t id, const std::vector<int64_t>& dims, int type,
                                        bool is_virtual) {
  const GraphTwin twin = Replace(pools_.at(kTensor)[next_tensor_++ % kPool], kTensor);
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) {
    strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) * dims[i]);
  }
  Set(twin, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  Set(twin, CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  Set(twin, CUDNN_ATTR_TENSOR_STRIDES, strides);
  Set(twin, CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
  Set(twin, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
  Set(twin, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  if (Chance(97)) Finalize(twin);
  return twin;
}

// Builds a convolution whose operands fit each other, or fit in all but one respect. Random
// operands would rarely fit.
void GraphConformance::BuildConvolution() {
  const int spatial = Between(1, 3);
  const int64_t groups = Chance(70) ? 1 : Between(2, 3);
  const int64_t channels = Between(1, 3);
  std::vector<int64_t> x = {Between(1, 4), groups * channels};
  std::vector<int64_t> w = {groups * Between(1, 2), channels};
  std::vector<int64_t> y = {x[0], w[0]};
  std::vector<int64_t> pre, post, stride, dilation;
  for (int i = 0; i < spatial; ++i) {
    pre.push_back(Between(0, 2));
    post.push_back(Chance(80) ? pre.back() : Between(0, 2));
    stride.push_back(Between(1, 3));
    dilation.push_back(Between(1, 2));
    w.push_back(Between(1, 3));
    x.push_back((w.back() - 1) * dilation.back() + 1 + Between(0, 6));
    y.push_back((x.back() + pre.back() + post.back() - (w.back() - 1) * dilation.back() - 1) /
                    stride.back() +
                1);
  }
  std::vector<int64_t>* const all[] = {&x, &w, &y, &pre, &post, &stride, &dilation};
  if (Chance(35)) {
    auto& broken = *all[Between(0, 6)];
    broken[Between(0, static_cast<int>(broken.size()) - 1)] += OneOf<int>({1, -1, 2, 1 << 20});
  }
  if (Chance(4)) all[Between(0, 2)]->push_back(1);
  const int type = OneOf<int>({0, 0, 2, 9, 1});
  const GraphTwin tensors[] = {BuildTensor(Between(0, 3), x, type, Chance(5)),
                               BuildTensor(Between(4, 6), w, type, false),
                               BuildTensor(Between(7, 12), y, type, Chance(30))};
  const GraphTwin convolution = Replace(Any(kConvolution), kConvolution);
  Set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {spatial});
  Set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pre);
  Set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, post);
  Set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
  Set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  if (Chance(97)) Finalize(convolution);
  const Kind kind = kOperations[Between(0, 2)];
  const GraphTwin operation = Replace(Any(kind), kind);
  // Attributes 3 to 5 are W, X and Y; `tensors` has the order x, w, y.
  const GraphTwin children[] = {convolution, tensors[1], tensors[0], tensors[2]};
  for (int i = 0; i < 4; ++i) {
    SetChildren(operation, AttributesOf(kind)[2 + i].name, 1, {children[i]});
  }
  Finalize(operation);
}

void GraphConformance::BuildPointwise() {
  for (int i = 0; i < 2; ++i) {
    const std::vector<int64_t> dims = {2, 3, 4, 4}, bias = {1, 3, 1, 1};
    BuildTensor(Between(7, 12), Chance(70) ? dims : bias, 0, Chance(40));
  }
  const GraphTwin operation = Replace(Any(kPointwiseOperation), kPointwiseOperation);
  for (const Known& attribute : AttributesOf(kPointwiseOperation)) {
    if (attribute.child == kNoChild || Chance(25)) continue;
    SetChildren(operation, attribute.name, 1, {Any(attribute.child)});
  }
  Finalize(operation);
}

TEST_F(GraphConformance, RandomCallsAnswerAlike) {
  const std::vector<Kind> kinds = {
      kTensor,         kConvolution,        kPointwise, kForward,     kBackwardData,
      kBackwardFilter, kPointwiseOperation, kGraph,     kVariantPack, kKnobChoice,
      kKnobInfo};
  for (const Kind kind : kinds) {
    for (GraphTwin& twin : pools_[kind]) twin = Create(kind);
  }
  const std::vector<Row> rows = {
      {195, [&] { RandomSet(OneOf(kinds)); }},
      {135, [&] { RandomGet(OneOf(kinds)); }},
      {55, [&] { Finalize(AnyOrNull(OneOf(kinds), 2)); }},
      {11, [&] { Renew(OneOf(kinds)); }},
      {4, [&] { Chance(60) ? BuildConvolution() : BuildPointwise(); }},
  };
  MakeCalls(60000, rows);
  EXPECT_GT(refused_, calls_ / 2);
}

TEST_F(GraphConformance, KindsOutsideTheHeaderAreRefusedAlike) {
  for (const int kind : {6, 44, 45, 1000}) {
    GraphTwin twin;
    Call(CUDNN(BackendCreateDescriptor), kind, &twin);
  }
  EXPECT_EQ(refused_, 4);
  Call(CUDNN(BackendExecute), nullptr, nullptr, nullptr);
}

}  // namespace
