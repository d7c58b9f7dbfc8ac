#include "planner/graph/network_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "planner/graph/connected.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/networks.h"
#include "unit/planner/imports.h"

namespace ucudnn::planner {
namespace {

using ::testing::HasSubstr;

TEST(NetworkFile, NamesAreBuiltInNetworksAndFilesAreRead) {
  EXPECT_EQ(LoadNetwork("resnet50")->name, "resnet50");
  const std::string path = ::testing::TempDir() + "/network_file_test.json";
  std::ofstream(path) << WriteNetJson(*BuildNetwork("unet"));
  const auto graph = LoadNetwork(path);
  std::remove(path.c_str());
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_EQ(graph->name, "unet");
  EXPECT_EQ(Listing(*graph), Listing(*BuildNetwork("unet")));
}

TEST(NetworkFile, WhatIsNeitherIsRefused) {
  EXPECT_THAT(LoadNetwork("lenet").message(), HasSubstr("'lenet' is no network; expected one of"));
  EXPECT_THAT(LoadNetwork("./model.pb").message(),
              HasSubstr("'./model.pb': expected FILE.onnx, FILE.prototxt, FILE.json or one of"));
  EXPECT_EQ(LoadNetwork("/nowhere/model.onnx").message(),
            "/nowhere/model.onnx: cannot be read: No such file or directory");
}

TEST(NetworkFile, AFolderIsNoFile) {
  const std::string folder = ::testing::TempDir() + "/network_file_test_folder.json";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(LoadNetwork(folder).message(), folder + ": cannot be read: Is a directory");
  std::filesystem::remove(folder);
}

TEST(NetworkFile, PartsThatAreNotConnectedAreNamed) {
  GraphBuilder builder("two");
  builder.Add("conv", Convolution{}, {builder.Add("a", Input{}, {})});
  builder.Add("pool", Pooling{}, {builder.Add("b", Input{}, {})});
  EXPECT_EQ(CheckConnected(*builder.Build()).message(),
            "two: nodes 'a' and 'b' are not connected; expected one network");
  EXPECT_EQ(CheckConnected(Graph{"none", {}}).message(), "none: no layers; expected a network");
  for (const std::string& name : NetworkNames()) {
    EXPECT_TRUE(CheckConnected(*BuildNetwork(name)).ok()) << name;
  }
}

}  // namespace
}  // namespace ucudnn::planner
