// Tests that the graph API's descriptors answer like the real library's: status codes, values, and
// what a refused call leaves behind. Random calls work on a few long-lived descriptors, from
// tensors to operation graphs and variant packs, so that their state is compared, too.
//
// Some calls are left out, because the real library crashes, reads uninitialised memory or mistakes
// one object for another there: a descriptor of another kind as an attribute, operations passed as
// another type, masks of pointwise operations, handles, null results, tensors of a negative data
// type. Others are left out because the libraries differ by design: which engines a graph has, and
// the normalised form in which the operands of a convolution operation are read back.
#include <cstring>

#include "tests/unit/host/cudnn/graph_attributes.h"
#include "tests/unit/host/cudnn/random_calls.h"

namespace {

constexpr int kGraphCalls = 60000;
constexpr int kElements = 16;

using GraphTwin = Twin<cudnnBackendDescriptor_t>;

struct Values {
  int64_t words[kElements];
};

class GraphConformance : public RandomCalls {
 protected:
  void TearDown() override {
    for (auto& [kind, twins] : pools_) {
      for (GraphTwin& twin : twins) Destroy(twin);
    }
  }

  GraphTwin Create(Kind kind) {
    GraphTwin twin;
    Compare("Create", [&](const Library& l, const int* side) -> Outcome {
      return {
          l[CUDNN(BackendCreateDescriptor)](kind, *side == Sides::kReal ? &twin.real : &twin.ours)};
    });
    const int knob = CUDNN_KNOB_TYPE_TILE_SIZE;  // the real library leaves the type uninitialised
    if (kind == kKnobChoice) {
      Set(twin, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob);
    }
    return twin;
  }
  void Destroy(const GraphTwin& twin) { Call(CUDNN(BackendDestroyDescriptor), twin); }
  void Finalize(const GraphTwin& twin) { Call(CUDNN(BackendFinalize), twin); }
  void Set(const GraphTwin& twin, int name, int type, int64_t count, const void* values) {
    SCOPED_TRACE(std::to_string(name) + " " + std::to_string(type) + " " + std::to_string(count));
    Call(CUDNN(BackendSetAttribute), twin, name, type, count, values);
  }
  void SetChild(const GraphTwin& twin, int name, int64_t count, GraphTwin child) {
    Compare("SetChild", [&](const Library& l, const int* side) -> Outcome {
      void* const children[] = {On(child, side), On(child, side)};
      return {l[CUDNN(BackendSetAttribute)](On(twin, side),
                                            static_cast<cudnnBackendAttributeName_t>(name),
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, count, children),
              name};
    });
  }
  void Get(const GraphTwin& twin, int name, int type, int64_t count, bool somewhere) {
    Compare("Get", [&](const Library& l, const int* side) {
      int64_t words[4 * kElements];
      std::fill_n(words, 4 * kElements, int64_t{kUntouched});
      int64_t number = kUntouched;
      const auto status = l[CUDNN(BackendGetAttribute)](
          On(twin, side), static_cast<cudnnBackendAttributeName_t>(name),
          static_cast<cudnnBackendAttributeType_t>(type), count, &number,
          somewhere ? words : nullptr);
      Outcome outcome{status, number, name, type};
      outcome.insert(outcome.end(), words, words + kElements);
      return outcome;
    });
  }

  GraphTwin& Any(Kind kind) { return pools_.at(kind)[Between(0, kPool - 1)]; }

  int64_t Word(int name, int type) {
    switch (type) {
      case CUDNN_TYPE_DATA_TYPE:
        return Chance(80) ? Pick({0, 0, 0, 1, 2, 9, 3})
                          : Between(name == CUDNN_ATTR_TENSOR_DATA_TYPE ? 0 : -2, 18);
      case CUDNN_TYPE_POINTWISE_MODE:
        return Chance(60) ? Pick({0, 1, 9, 100, 101, 106, 200, 601, 501, 402, 21})
                          : Between(-1, 620);
      case CUDNN_TYPE_BOOLEAN:
        return Between(0, 1);
      case CUDNN_TYPE_FLOAT: {
        const float value = static_cast<float>(Pick({0, 1, 2, -1}));
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
      }
      case CUDNN_TYPE_DOUBLE: {
        const double value = Pick({0, 1, 2, -1});
        int64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
      }
      default:
        break;
    }
    switch (name) {
      case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
        return Chance(75) ? Pick({16, 32, 128}) : Pick({0, 1, 2, 3, 4, 8, -16, 1000});
      case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
        return Chance(85) ? 1 : Pick({0, 4, 32, 3, -1});
      case CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
        return Chance(70) ? -1 : Between(-2, 9);
      case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
        return Chance(80) ? Between(1, 3) : Between(-1, 9);
      case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
        return Window(0);
      case CUDNN_ATTR_CONVOLUTION_DILATIONS:
      case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
        return Window(1);
      default:
        return Chance(85) ? Extent() : int64_t{Extent()} << Between(1, 30);
    }
  }

  // Returns random elements for an attribute. Types of less than 8 bytes are packed as 4-byte
  // values, so that arrays of them hold the same numbers.
  Values Words(int name, int type) {
    Values values;
    for (int64_t& word : values.words) word = Word(name, type);
    if (type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_DOUBLE || type == CUDNN_TYPE_VOID_PTR) {
      return values;
    }
    Values packed{};
    for (int i = 0; i < kElements; ++i) {
      const auto narrow = static_cast<int32_t>(values.words[i]);
      std::memcpy(reinterpret_cast<char*>(packed.words) + 4 * i, &narrow, 4);
    }
    return packed;
  }

  int64_t Count(int name) {
    switch (name) {
      case CUDNN_ATTR_TENSOR_DIMENSIONS:
      case CUDNN_ATTR_TENSOR_STRIDES:
        return Chance(85) ? Between(3, 5) : Between(-1, 10);
      case CUDNN_ATTR_CONVOLUTION_DILATIONS:
      case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
      case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
        return Chance(85) ? Between(1, 3) : Between(-1, 9);
      case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
      case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        return Chance(80) ? Between(1, 3) : Between(-1, 9);
      default:
        return Chance(70) ? 1 : Between(-1, 3);
    }
  }

  void RandomSet(Kind kind);
  void RandomGet(Kind kind);
  void Renew(Kind kind);
  void Build();
  GraphTwin BuildTensor(int64_t id, const std::vector<int64_t>& dims, int type, bool is_virtual);
  void BuildConvolution();
  void SetOperations();

  static constexpr int kPool = 5;
  std::map<Kind, std::array<GraphTwin, kPool>> pools_;
  size_t next_tensor_ = 0;
};

void GraphConformance::RandomSet(Kind kind) {
  if (kind == kGraph && Chance(75)) return SetOperations();
  const auto known = AttributesOf(kind);
  const Known attribute = known[Between(0, static_cast<int>(known.size()) - 1)];
  const GraphTwin twin = Chance(3) ? GraphTwin{} : Any(kind);
  int name = attribute.name;
  int type = attribute.type;
  if (Chance(40)) name = Pick({0, 100, 200, 300, 400, 600, 700, 750, 800, 900, 1000, 1200, 5000});
  if (name != attribute.name && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !Chance(12)) {
    const GraphTwin child = Chance(4) ? GraphTwin{} : Any(attribute.child);
    return SetChild(twin, name, Chance(88) ? 1 : Between(-1, 2), child);
  }
  if (Chance(50)) type = Between(0, 30);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_HANDLE) return;
  const Values values = Words(name, type);
  // The real library refuses attributes that cannot be set before it checks the pointer, so null is
  // passed only for attributes that can be set.
  const bool may_be_null =
      name == attribute.name && type == attribute.type && kind != kKnobInfo && kind != kVariantPack;
  Set(twin, name, type, Count(name), may_be_null && Chance(5) ? nullptr : values.words);
}

void GraphConformance::SetOperations() {
  const GraphTwin twin = Any(kGraph);
  const int count = Chance(85) ? Between(1, 3) : Between(-1, 4);
  std::array<GraphTwin, 4> operations;
  for (GraphTwin& operation : operations) {
    operation = Any(std::array{kForward, kBackwardData, kBackwardFilter, kPointwiseOperation,
                               kPointwiseOperation}[Between(0, 4)]);
    if (Chance(2)) operation = {};
  }
  Compare("SetOperations", [&](const Library& l, const int* side) -> Outcome {
    void* handles[4];
    for (int i = 0; i < 4; ++i) handles[i] = On(operations[i], side);
    return {l[CUDNN(BackendSetAttribute)](On(twin, side), CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles)};
  });
}

void GraphConformance::RandomGet(Kind kind) {
  const auto known = AttributesOf(kind);
  const Known attribute = known[Between(0, static_cast<int>(known.size()) - 1)];
  const GraphTwin twin = Chance(3) ? GraphTwin{} : Any(kind);
  int name = attribute.name;
  int type = attribute.type;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  if (name == CUDNN_ATTR_CONVOLUTION_CONV_MODE && Chance(50)) type = CUDNN_TYPE_DATA_TYPE;
  if (name == CUDNN_ATTR_TENSOR_REORDERING_MODE && Chance(50)) type = CUDNN_TYPE_INT64;
  if (Chance(40)) name = Pick({0, 100, 200, 300, 400, 600, 700, 750, 900, 1000, 1200, 5000});
  if (Chance(50)) type = Between(0, 30);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return;
  const bool somewhere = Chance(88);
  Get(twin, name, type, Chance(70) ? Count(name) : Between(-1, 12), somewhere);
}

void GraphConformance::Renew(Kind kind) {
  GraphTwin& twin = Any(kind);
  if (kind != kKnobChoice && Chance(50)) {
    return Call(CUDNN(BackendInitialize), twin);
  }
  Destroy(twin);
  twin = Create(kind);
}

GraphTwin GraphConformance::BuildTensor(int64_t id, const std::vector<int64_t>& dims, int type,
                                        bool is_virtual) {
  // The tensors of the pool are replaced in turn, so that the tensors of one operation do not
  // replace each other.
  GraphTwin& twin = pools_.at(kTensor)[next_tensor_++ % kPool];
  Destroy(twin);
  twin = Create(kTensor);
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) {
    strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) * dims[i]);
  }
  const int64_t alignment = 16;
  const auto count = static_cast<int64_t>(dims.size());
  Set(twin, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  Set(twin, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count, dims.data());
  Set(twin, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, count, strides.data());
  Set(twin, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  Set(twin, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
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
    broken[Between(0, static_cast<int>(broken.size()) - 1)] += Pick({1, -1, 2, 1 << 20});
  }
  if (Chance(4)) all[Between(0, 2)]->push_back(1);
  const int type = Pick({0, 0, 2, 9, 1});
  const GraphTwin tensors[] = {BuildTensor(Between(0, 3), x, type, Chance(5)),
                               BuildTensor(Between(4, 6), w, type, false),
                               BuildTensor(Between(7, 12), y, type, Chance(30))};
  GraphTwin& convolution = Any(kConvolution);
  Destroy(convolution);
  convolution = Create(kConvolution);
  const int64_t count = spatial;
  Set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &count);
  Set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, count, pre.data());
  Set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, count, post.data());
  Set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, count, stride.data());
  Set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, count, dilation.data());
  if (Chance(97)) Finalize(convolution);
  const Kind kind = std::array{kForward, kBackwardData, kBackwardFilter}[Between(0, 2)];
  GraphTwin& operation = Any(kind);
  Destroy(operation);
  operation = Create(kind);
  const auto known = AttributesOf(kind);
  // Attributes 3 to 5 are W, X and Y; `tensors` has the order x, w, y.
  SetChild(operation, known[2].name, 1, convolution);
  SetChild(operation, known[3].name, 1, tensors[1]);
  SetChild(operation, known[4].name, 1, tensors[0]);
  SetChild(operation, known[5].name, 1, tensors[2]);
  Finalize(operation);
}

void GraphConformance::Build() {
  if (Chance(60)) return BuildConvolution();
  const std::vector<int64_t> dims = {2, 3, 4, 4};
  const std::vector<int64_t> bias = {1, 3, 1, 1};
  for (int i = 0; i < 2; ++i) {
    BuildTensor(Between(7, 12), Chance(70) ? dims : bias, 0, Chance(40));
  }
  GraphTwin& operation = Any(kPointwiseOperation);
  Destroy(operation);
  operation = Create(kPointwiseOperation);
  for (const Known& attribute : AttributesOf(kPointwiseOperation)) {
    if (attribute.child == kNoChild || Chance(25)) continue;
    SetChild(operation, attribute.name, 1, Any(attribute.child));
  }
  Finalize(operation);
}

TEST_F(GraphConformance, RandomCallsAnswerAlike) {
  const Kind kinds[] = {
      kTensor,         kConvolution,        kPointwise, kForward,     kBackwardData,
      kBackwardFilter, kPointwiseOperation, kGraph,     kVariantPack, kKnobChoice,
      kKnobInfo};
  for (Kind kind : kinds) {
    for (GraphTwin& twin : pools_[kind]) twin = Create(kind);
  }
  while (calls_ < kGraphCalls && !HasFailure()) {
    const Kind kind = kinds[Between(0, 10)];
    const int action = Between(1, 400);
    if (action <= 195) {
      RandomSet(kind);
    } else if (action <= 330) {
      RandomGet(kind);
    } else if (action <= 385) {
      Finalize(Chance(2) ? GraphTwin{} : Any(kind));
    } else if (action <= 396) {
      Renew(kind);
    } else {
      Build();
    }
  }
  ReportCalls();
  EXPECT_GT(refused_, calls_ / 2);
}

TEST_F(GraphConformance, KindsOutsideTheHeaderAreRefusedAlike) {
  for (int kind : {6, 44, 45, 1000}) {
    cudnnBackendDescriptor_t real = nullptr, ours = nullptr;
    const cudnnStatus_t refused =
        real_[CUDNN(BackendCreateDescriptor)](static_cast<Kind>(kind), &real);
    EXPECT_NE(refused, CUDNN_STATUS_SUCCESS) << kind;
    EXPECT_EQ(ours_[CUDNN(BackendCreateDescriptor)](static_cast<Kind>(kind), &ours), refused)
        << kind;
  }
  EXPECT_EQ(ours_[CUDNN(BackendExecute)](nullptr, nullptr, nullptr),
            real_[CUDNN(BackendExecute)](nullptr, nullptr, nullptr));
}

}  // namespace
