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

TEST(NetworkFile, FilesOfAnotherKindAreCalledByIt) {
  std::ifstream whole(DataFile("torch_gated.onnx"), std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(whole), {}};
  const struct {
    const char* ending;
    std::string content;
    const char* expected;
  } cases[] = {
      {"onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "a pointer of git-lfs"},
      {"prototxt", "version https://git-lfs.github.com/spec/v1\n", "a pointer of git-lfs"},
      {"onnx", "\n<!DOCTYPE HTML>\n<html>", "an HTML page"},
      {"prototxt", "<html lang='en'>", "an HTML page"},
      {"onnx", model.substr(0, model.size() / 2), "the file ends inside the model"},
      {"onnx", "", "the file is empty"},
      {"onnx", "hello", "no ONNX model"},
      {"prototxt", std::string("\x0a\0\x12", 3), "bytes that are no text, as of a .caffemodel"},
      {"prototxt", "layer { name: 'a'", "the text ends inside a message"},
  };
  for (const auto& [ending, content, expected] : cases) {
    const std::string path = ::testing::TempDir() + "/network_file_test_stray." + ending;
    std::ofstream(path, std::ios::binary) << content;
    const std::string message = LoadNetwork(path).message();
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    EXPECT_THAT(message, HasSubstr(expected));
    std::remove(path.c_str());
  }
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
