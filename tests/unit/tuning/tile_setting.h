// Provides single images and the stand-in's graph engines for them, for tests that measure and
// compare tiles.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cudnn/graph_engines.h"
#include "tests/support/device.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

class TileTest : public test::DeviceTest {
 protected:
  TileTest() { EXPECT_EQ(functions_.cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS); }
  ~TileTest() override { EXPECT_EQ(functions_.cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS); }

  // Returns the plan of the stand-in's engine number `engine`.
  cudnn::GraphTemplate PlanOf(const ConvolutionProblem& problem, int engine,
                              const test::GraphOptions& options = {}) {
    const test::Graph graph(problem, options, functions_, {handle_, nullptr});
    const auto plan = graph.Plan(engine);
    EXPECT_TRUE(plan);
    auto read = cudnn::ReadTemplate(functions_, plan->get());
    EXPECT_TRUE(read.ok()) << read.message();
    return std::move(*read);
  }

  GraphScope ScopeOf(const std::vector<cudnn::GraphTemplate>& plans) {
    std::vector<const cudnn::GraphTemplate*> pointers;
    for (const cudnn::GraphTemplate& plan : plans) pointers.push_back(&plan);
    const cudnn::FusedConvolution& first = plans[0].convolution;
    return {first.engine, NumericClass::kDirect, first.operands, [this, pointers](auto handle) {
              return std::make_unique<cudnn::GraphEngines>(
                  functions_, cudnn::PlanDevice{handle, nullptr}, pointers);
            }};
  }

  Device device() const { return {cuda::GetDriver(), &functions_, context, {}}; }

  const cudnn::Functions functions_ = test::StandInGraphs();
  cudnnHandle_t handle_ = nullptr;
};

inline ConvolutionProblem Image(Operation operation, DataType type) {
  return test::ProblemWith({.operation = operation,
                            .n = 1,
                            .c = 16,
                            .k = 16,
                            .x = {1, 64, 64},
                            .type = type,
                            .alignment = 16});
}

}  // namespace ucudnn::tuning
