// Tests what the interposer remembers of the graph API's descriptors.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "convolution/tiles.h"
#include "interposer/graph/descriptor_shadows.h"
#include "interposer/graph/variant_packs.h"
#include "interposer/session/address_table.h"

namespace ucudnn::interposer {
namespace {

cudnnBackendDescriptor_t At(uintptr_t address) {
  return reinterpret_cast<cudnnBackendDescriptor_t>(address);
}

TEST(AddressTable, BehavesAsAMap) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto table = std::make_unique<AddressTable<int>>();
  std::vector<int> values(64);
  std::unordered_map<const void*, int*> expected;
  for (int i = 0; i < 200000; ++i) {
    // There are few addresses, so keys recur and probes collide.
    const void* const key = At(16 + 16 * (random() % 500));
    if (random() % 2 == 0) {
      int* const value = &values[random() % values.size()];
      ASSERT_TRUE(table->Insert(key, value));
      expected[key] = value;
    } else {
      EXPECT_EQ(table->Remove(key), expected.erase(key) > 0) << "seed " << kSeed;
    }
    const void* const asked = At(16 + 16 * (random() % 500));
    const auto found = expected.find(asked);
    ASSERT_EQ(table->Find(asked), found == expected.end() ? nullptr : found->second)
        << "seed " << kSeed << " step " << i;
  }
}

TEST(AddressTable, IsFullAtHalf) {
  const auto table = std::make_unique<AddressTable<int>>();
  int value = 0, taken = 0;
  while (table->Insert(At(16 * (taken + 1)), &value)) ++taken;
  EXPECT_EQ(taken, 32768);
  int other = 0;
  EXPECT_TRUE(table->Insert(At(16), &other));
  EXPECT_EQ(table->Find(At(16)), &other);
  EXPECT_TRUE(table->Remove(At(16)));
  EXPECT_TRUE(table->Insert(At(16), &value));
}

TEST(VariantPacks, AreFoundByTheirOwnThreadAndByOthers) {
  constexpr int kPacks = 100;  // more than one block of a thread holds
  for (int i = 1; i <= kPacks; ++i) {
    ASSERT_TRUE(OpenPack(At(i * 64)));
    void* const workspace = At(i);
    FindOwnPack(At(i * 64))->OnSet(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1, &workspace);
  }
  std::thread([&] {
    for (int i = 1; i <= kPacks; ++i) {
      EXPECT_EQ(FindOwnPack(At(i * 64)), nullptr);
      ASSERT_NE(FindPack(At(i * 64)), nullptr);
      EXPECT_EQ(FindPack(At(i * 64))->workspace, At(i));
      if (i % 2 == 0) {
        EXPECT_TRUE(ClosePack(At(i * 64)));
      }
    }
  }).join();
  for (int i = 1; i <= kPacks; ++i) {
    EXPECT_EQ(FindOwnPack(At(i * 64)) != nullptr, i % 2 == 1);
    EXPECT_EQ(CloseOwnPack(At(i * 64)), i % 2 == 1);
  }
  EXPECT_EQ(FindPack(At(64)), nullptr);
}

TEST(VariantPacks, OutliveTheirThread) {
  std::thread([] { ASSERT_TRUE(OpenPack(At(0x7000))); }).join();
  EXPECT_NE(FindPack(At(0x7000)), nullptr);
  EXPECT_TRUE(ClosePack(At(0x7000)));
}

TEST(VariantPacks, TooManyOperandsAreNotPlain) {
  VariantPack pack;
  std::vector<void*> pointers(17);
  pack.OnSet(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 16, pointers.data());
  EXPECT_TRUE(pack.plain);
  pack.OnSet(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 17, pointers.data());
  EXPECT_FALSE(pack.plain);
}

TEST(VariantPacks, ManyThreads) {
  std::vector<std::thread> threads;
  for (uintptr_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([thread] {
      for (uintptr_t i = 1; i <= 10000; ++i) {
        const auto pack = At(thread << 32 | i << 4);
        ASSERT_TRUE(OpenPack(pack));
        ASSERT_NE(FindOwnPack(pack), nullptr);
        ASSERT_TRUE(ClosePack(pack));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class Shadows : public ::testing::Test {
 protected:
  cudnnBackendDescriptor_t Make(cudnnBackendDescriptorType_t type) {
    const auto made = At(next_ += 16);
    shadows_.OnCreate(made, type);
    return made;
  }
  template <typename Value>
  void Set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name, Value value) {
    shadows_.OnSet(to, name, 1, &value);
  }
  cudnnBackendDescriptor_t Tensor(int64_t batch, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                                  int64_t side = 8) {
    const auto tensor = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t dims[] = {batch, 3, side, side};
    const int64_t strides[] = {3 * side * side, side * side, side, 1};
    shadows_.OnSet(tensor, CUDNN_ATTR_TENSOR_STRIDES, 4, strides);
    shadows_.OnSet(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, dims);
    Set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    return tensor;
  }
  cudnnBackendDescriptor_t Forward(cudnnBackendDescriptor_t x) {
    const auto operation = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    return operation;
  }
  cudnnBackendDescriptor_t Graph(cudnnBackendDescriptor_t operation) {
    const auto graph = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    Set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, At(0x99));
    return graph;
  }
  // Returns the plan of a graph. The plan is made through heuristics at `rank` or, if `rank` is
  // negative, through an engine.
  DescriptorShadow PlanOf(cudnnBackendDescriptor_t graph, int rank = -1) {
    const auto configuration = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (rank < 0) {
      const auto engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      Set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
      Set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    } else {
      const auto heuristics = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      Set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
      std::vector<cudnnBackendDescriptor_t> results(rank);
      for (auto& result : results) result = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      results.push_back(configuration);
      shadows_.OnGet(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                     static_cast<int64_t>(results.size()), results.data());
    }
    const auto plan = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    return *shadows_.Find(plan);
  }

  DescriptorShadows shadows_;
  uintptr_t next_ = 0x1000;
};

TEST_F(Shadows, APlanKnowsItsGraphAndItsHandle) {
  const auto graph = Graph(Forward(Tensor(32)));
  for (const int rank : {-1, 0, 3}) {
    const DescriptorShadow plan = PlanOf(graph, rank);
    EXPECT_EQ(plan.kind, GraphKind::kConvolution);
    EXPECT_EQ(plan.handle, reinterpret_cast<cudnnHandle_t>(0x99));
    EXPECT_EQ(plan.is_heuristics_first, rank == 0);
  }
}

TEST_F(Shadows, WhatCannotBeDividedIsSeenAtOnce) {
  EXPECT_EQ(PlanOf(Graph(Forward(Tensor(1)))).kind, GraphKind::kUndividable);
  for (const auto& [images, kind] :
       {std::pair{1, GraphKind::kUndividable}, {32, GraphKind::kConvolution}}) {
    const auto gradient = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    Set(gradient, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, Tensor(images));
    EXPECT_EQ(PlanOf(Graph(gradient)).kind, kind);
  }
}

// An image that spans 2^31 elements or more may run faster in tiles, so its span must be known.
TEST_F(Shadows, TheSpanOfAVastImageIsKnown) {
  const auto small = Tensor(1), vast = Tensor(1, CUDNN_DATA_FLOAT, 32768);
  for (const auto& [x, y] : {std::pair{vast, small}, {small, vast}}) {
    for (const bool x_first : {true, false}) {
      const auto operation = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
      if (x_first) Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
      Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
      if (!x_first) Set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
      EXPECT_GT(PlanOf(Graph(operation)).span, static_cast<double>(kMostViewSpan));
    }
  }
  EXPECT_LT(PlanOf(Graph(Forward(small))).span, 200);
}

TEST_F(Shadows, OtherGraphsAreSeenAtOnce) {
  EXPECT_EQ(PlanOf(Graph(Make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR))).kind, GraphKind::kOther);
  EXPECT_EQ(PlanOf(Graph(At(8))).kind, GraphKind::kUnknown);
}

TEST_F(Shadows, ConvolutionsOfRaggedOrDynamicShapesAreUnfamiliar) {
  for (const int64_t images : {1, 32}) {
    const auto ragged = Tensor(images);
    Set(ragged, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, Tensor(33));
    EXPECT_EQ(PlanOf(Graph(Forward(ragged))).kind, GraphKind::kUnfamiliar);
    const auto dynamic = Graph(Forward(Tensor(images)));
    Set(dynamic, CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, true);
    EXPECT_EQ(PlanOf(dynamic).kind, GraphKind::kUnfamiliar);
    // The order of the two attributes does not matter.
    const auto before = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set(before, CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, true);
    Set(before, CUDNN_ATTR_OPERATIONGRAPH_OPS, Forward(Tensor(images)));
    EXPECT_EQ(PlanOf(before).kind, GraphKind::kUnfamiliar);
  }
  const auto matmul = Graph(Make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
  Set(matmul, CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, true);
  EXPECT_EQ(PlanOf(matmul).kind, GraphKind::kOther);
}

TEST_F(Shadows, AListKnowsWhichOfItsConfigurationsAreLeft) {
  const auto heuristics = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const auto first = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const auto second = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const cudnnBackendDescriptor_t results[] = {first, second};
  shadows_.OnGet(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, 2, results);
  const auto plan = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, second);
  const auto list = shadows_.Find(plan)->list;
  ASSERT_NE(list, nullptr);
  cudnn::Functions functions;
  static std::vector<cudnnBackendDescriptor_t> destroyed;
  destroyed.clear();
  functions.cudnnBackendDestroyDescriptor = [](cudnnBackendDescriptor_t descriptor) {
    destroyed.push_back(descriptor);
    return CUDNN_STATUS_SUCCESS;
  };
  {
    const LentConfigurations lent(shadows_, functions, *list);
    EXPECT_EQ(lent.all(), (std::vector{first, second}));
    {
      const LentConfigurations also(shadows_, functions, *list);
      // The application destroys `first`, which the lists `lent` and `also` still use.
      shadows_.OnDestroy(first);
      EXPECT_TRUE(shadows_.DestroyLater(first));
    }
    EXPECT_TRUE(destroyed.empty());
    EXPECT_EQ(LentConfigurations(shadows_, functions, *list).all(), std::vector{second});
  }
  EXPECT_EQ(destroyed, std::vector{first});
  EXPECT_FALSE(shadows_.DestroyLater(second));
  // A new descriptor at the address of `first` is not in the list.
  shadows_.OnCreate(first, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_EQ(LentConfigurations(shadows_, functions, *list).all(), std::vector{second});
  EXPECT_EQ(destroyed, std::vector{first});
}

TEST_F(Shadows, WhatIsDestroyedIsForgotten) {
  const auto tensor = Tensor(32);
  EXPECT_EQ(shadows_.OnDestroy(tensor)->batch, 32);
  EXPECT_FALSE(shadows_.Find(tensor));
  EXPECT_FALSE(shadows_.OnDestroy(tensor));
}

}  // namespace
}  // namespace ucudnn::interposer
