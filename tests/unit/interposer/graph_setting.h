// An interposer over the null library, whose graph API records executions. Unless the test says
// otherwise, the store has times of engine 38, undivided and in pieces, and of engine 0, which
// needs no workspace.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "interposer/interposer.h"
#include "planned_setting.h"
#include "tests/support/memory_store.h"
#include "tests/support/null_cudnn/null_graph.h"
#include "tests/support/recording_graphs.h"

namespace ucudnn::test {

struct GraphSetting {
  static constexpr int kImages = 16, kPart = 4;
  static constexpr size_t kNeed = 1024 * kImages, kPartBytes = 1024 * kPart;
  struct With {
    Operation operation = Operation::kForward;
    int images = kImages;
    int64_t x_step = 256, y_step = 512;  // elements from one image to the next
    bool fused = false;                  // a residual, a bias and an activation
    double whole_ms = 100, part_ms = 1, other_ms = 50;
    bool other = true;  // engine 0 is measured, too
    bool measured = true;
  };

  static Options Limited(size_t bytes, bool strict = false) {
    Options options = PlannedSetting::NotMeasuring();
    options.workspace_limit = bytes;
    options.strict_limit = strict;
    return options;
  }

  // `shared`, if not null, replaces the setting's own store. Two settings with the same store act
  // like two processes with the same store.
  explicit GraphSetting(Options given, const With& with, MemoryStore* shared = nullptr)
      : functions(RecordingGraphs()),
        options(PlannedSetting::WithPrimedSizes(given)),
        with(with),
        store(shared != nullptr ? *shared : own_store) {
    Executions() = {};
    MakeContextCurrent();
    if (with.measured) {
      Measured("graph:38", with.images, with.whole_ms, 1024 * static_cast<size_t>(with.images));
      if (with.images > kPart) Measured("graph:38", kPart, with.part_ms, kPartBytes);
    }
    if (with.other) Measured("graph:0", with.images, with.other_ms, 0);
    EXPECT_EQ(interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
  }
  explicit GraphSetting(const With& with) : GraphSetting(Limited(kPartBytes), with) {}
  GraphSetting() : GraphSetting(With()) {}
  ~GraphSetting() { interposer.sessions().Destroy(handle); }

  // Adds a measurement to the store.
  void Measured(const std::string& engine, int images, double time_ms, size_t bytes) {
    const std::string name = engine + (with.fused ? "+residual+bias+relu" : "");
    StoreRows(store, functions, Problem(), {{{name, images, time_ms, bytes, true}, 5, true}});
  }

  ConvolutionProblem Problem() const {
    ConvolutionProblem problem = PlannedSetting::Problem();
    problem.operation = with.operation;
    problem.n = with.images;
    problem.x_strides[0] = with.x_step;
    problem.y_strides[0] = with.y_step;
    return problem;
  }

  static std::string TensorJson(int64_t uid, const std::string& dims, const std::string& strides,
                                bool is_virtual = false) {
    return "{\"name\":\"" + std::to_string(uid) + "\",\"dataType\":\"CUDNN_DATA_FLOAT\",\"dim\":[" +
           dims + "],\"stride\":[" + strides +
           "],\"isVirtual\":" + (is_virtual ? "true" : "false") +
           ",\"isByValue\":false,\"vectCount\":1,\"vectDim\":-1,\"ptrAlignment\":16,"
           "\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"}";
  }
  static std::string PointwiseJson(const std::string& mode, const std::string& operands) {
    return ",{\"operation\":\"CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR\",\"pointwiseMode\":"
           "\"CUDNN_POINTWISE_" +
           mode + "\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",\"alpha1\":1.0,\"alpha2\":1.0," + operands +
           "}";
  }
  // Returns the plan of Problem() in the form that cuDNN 9.19 writes.
  std::string Json(int engine = 38, const std::string& knobs = "") const {
    const std::string n = std::to_string(with.images), y = n + ",8,8,8";
    const std::string x_strides = std::to_string(with.x_step) + ",64,8,1";
    const std::string y_strides = std::to_string(with.y_step) + ",64,8,1";
    struct Names {
      const char *operation, *mode, *x, *w, *y;
    };
    constexpr Names kNames[] = {{"FORWARD", "CONV_FORWARD", "X", "W", "Y"},
                                {"BACKWARD_DATA", "CONV_BWD_DATA", "dX", "W", "dY"},
                                {"BACKWARD_FILTER", "CONV_BWD_FILTER", "X", "dW", "dY"}};
    const Names& names = kNames[static_cast<int>(with.operation)];
    std::string tensors = TensorJson(kW, "8,4,3,3", "36,9,3,1") + "," +
                          TensorJson(kX, n + ",4,8,8", x_strides) + "," +
                          TensorJson(kY, y, y_strides);
    std::string nodes = std::string("{\"operation\":\"CUDNN_BACKEND_OPERATION_CONVOLUTION_") +
                        names.operation +
                        "_DESCRIPTOR\",\"mode\":\"CUDNN_CROSS_CORRELATION\",\"mathPrec\":"
                        "\"CUDNN_DATA_FLOAT\",\"alpha\":1.0,\"beta\":0.0,\"pad\":[1,1],"
                        "\"stride\":[1,1],\"dilation\":[1,1],\"" +
                        names.x + "\":\"120\",\"" + names.w + "\":\"119\",\"" + names.y + "\":\"" +
                        (with.fused ? "200" : "121") + "\"}";
    if (with.fused) {
      tensors +=
          "," + TensorJson(kResidual, y, y_strides) + "," + TensorJson(kBias, "1,8,1,1", "8,1,1,1");
      for (const int64_t uid : {200, 201, 202}) {
        tensors += "," + TensorJson(uid, y, y_strides, true);
      }
      nodes += PointwiseJson("ADD", "\"X\":\"200\",\"Y\":\"201\",\"B\":\"122\"") +
               PointwiseJson("ADD", "\"X\":\"201\",\"Y\":\"202\",\"B\":\"98\"") +
               PointwiseJson("RELU_FWD", "\"X\":\"202\",\"Y\":\"121\"");
    }
    return std::string(
               "{\"cudnnVersion\":91900,\"schemaVersion\":4,\"operationGraph\":"
               "{\"finalizeMode\":\"") +
           (with.fused ? "CONV_ADD_BIAS_ACT" : names.mode) + "\",\"tensors\":[" + tensors +
           "],\"nodes\":[" + nodes +
           "]},\"GPUProfile\":{},\"engine\":{\"engineId\":" + std::to_string(engine) +
           ",\"smVersion\":900,\"knobChoices\":{" + knobs + "}}}";
  }

  // Makes a plan through the interposer, as an application does.
  cudnnBackendDescriptor_t Plan(cudnnStatus_t* finalized = nullptr, std::string json = "") {
    if (json.empty()) json = Json();
    interposer::GraphPlans& graph = interposer.graph();
    cudnnBackendDescriptor_t plan = nullptr;
    EXPECT_EQ(graph.Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                        static_cast<int64_t>(json.size()), json.data()),
              CUDNN_STATUS_SUCCESS);
    const cudnnStatus_t status = graph.Finalize(plan);
    if (finalized != nullptr) *finalized = status;
    return plan;
  }
  // Makes the plan of the configuration at `rank` of a heuristics' list. `listed` has the JSON of
  // the list's plans; where it is empty, the listed configurations have no JSON.
  cudnnBackendDescriptor_t PlanOfRank(int rank, const std::vector<std::string>& listed = {},
                                      cudnnStatus_t* finalized = nullptr) {
    interposer::GraphPlans& graph = interposer.graph();
    cudnnBackendDescriptor_t heuristics = nullptr, plan = nullptr;
    std::vector<cudnnBackendDescriptor_t> results(std::max<size_t>(rank + 1, listed.size()));
    std::vector<const char*> texts;
    for (const std::string& json : listed) texts.push_back(json.c_str());
    nullGraphSetListed(texts.data(), static_cast<int64_t>(texts.size()));
    graph.Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    for (auto& result : results) graph.Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &result);
    int64_t count = 0;
    graph.Get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<int64_t>(results.size()), &count, results.data());
    nullGraphSetListed(nullptr, 0);
    const std::string json = listed.empty() ? Json() : listed[rank];
    graph.Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
              &results[rank]);
    graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
              static_cast<int64_t>(json.size()), json.data());
    const cudnnStatus_t status = graph.Finalize(plan);
    if (finalized != nullptr) {
      *finalized = status;
    } else {
      EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
    }
    return plan;
  }
  std::string ReportText() { return interposer.report().Json("on", 0); }
  size_t Workspace(cudnnBackendDescriptor_t plan) {
    int64_t bytes = -1, count = 0;
    EXPECT_EQ(interposer.graph().Get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &count, &bytes),
              CUDNN_STATUS_SUCCESS);
    return static_cast<size_t>(bytes);
  }

  static void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }
  cudnnBackendDescriptor_t Pack() {
    interposer::GraphPlans& graph = interposer.graph();
    cudnnBackendDescriptor_t pack = nullptr;
    const int64_t uids[] = {kX, kW, kY, kResidual, kBias};
    void* const pointers[] = {Pointer(0x10000000), Pointer(0x20000000), Pointer(0x30000000),
                              Pointer(0x50000000), Pointer(0x60000000)};
    void* const workspace = Pointer(0x40000000);
    const int64_t operands = with.fused ? 5 : 3;
    graph.Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    graph.Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, operands, pointers);
    graph.Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, operands, uids);
    graph.Set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    graph.Finalize(pack);
    return pack;
  }
  // Returns a pack that gives x other shapes than the plan.
  cudnnBackendDescriptor_t PackOfOtherShapes() {
    const cudnnBackendDescriptor_t pack = Pack();
    const int64_t shapes[] = {8, 4, 8, 8};
    interposer.graph().Set(pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, CUDNN_TYPE_INT64, 4,
                           shapes);
    return pack;
  }
  // Executes the plan with a new pack, as frameworks do.
  cudnnStatus_t Execute(cudnnBackendDescriptor_t plan) {
    const cudnnBackendDescriptor_t pack = Pack();
    const cudnnStatus_t status = interposer.graph().Execute(handle, plan, pack);
    interposer.graph().Destroy(pack);
    return status;
  }

  const cudnn::Functions functions;
  const Options options;
  const With with;
  MemoryStore own_store;
  MemoryStore& store;
  interposer::Interposer interposer{options, functions, cuda::GetDriver(), &store};
  cudnnHandle_t handle = nullptr;
};

// Returns a With for a setting whose store has no measurements.
inline GraphSetting::With Unmeasured() { return {.other = false, .measured = false}; }

// Expects one execution of all images by `engine`.
inline void ExpectUndivided(int engine) {
  ASSERT_EQ(Executions().calls.size(), 1u);
  EXPECT_EQ(Executions().calls[0].engine, engine);
  EXPECT_EQ(Executions().calls[0].images, GraphSetting::kImages);
}
// Expects one execution of all images by engine 0, which needs no workspace.
inline void ExpectSubstitute() { ExpectUndivided(0); }

}  // namespace ucudnn::test
