// The stand-in exports what the real library exports, under the same version node: a binary
// linked with one starts with the other.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

namespace {

using Names = std::set<std::string>;

constexpr int kNotSupported = 3000;  // CUDNN_STATUS_NOT_SUPPORTED

template <class Body>
void ForEachLine(const std::string& command, const Body& body) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 512> line;
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) body(line.data());
}

// Exported functions, as NAME@@NODE.
Names ExportsOf(const std::string& library) {
  Names names;
  ForEachLine("nm -D --defined-only '" + library + "'", [&](const char* line) {
    char kind = 0;
    char name[400];
    if (std::sscanf(line, "%*s %c %399s", &kind, name) == 2 && kind != 'A') names.insert(name);
  });
  return names;
}

TEST(Exports, AreTheRealLibrarysWithTheirVersionNodes) {
  if (!std::filesystem::exists(REAL_CUDNN)) GTEST_SKIP() << "no real cuDNN at " REAL_CUDNN;
  const Names real = ExportsOf(REAL_CUDNN);
  ASSERT_GT(real.size(), 200u) << "nm found no exports";
  EXPECT_EQ(ExportsOf(STANDIN_CUDNN), real);
}

TEST(Exports, AreTheCommittedList) {
  Names committed;
  std::ifstream list(EXPORT_LIST);
  for (std::string name; std::getline(list, name);) {
    if (!name.empty() && name[0] != '#') committed.insert(name + "@@libcudnn.so.9");
  }
  EXPECT_EQ(ExportsOf(STANDIN_CUDNN), committed);
}

TEST(Exports, LibraryNamesItselfAndFindsItsDriverBesideIt) {
  std::string dynamic;
  ForEachLine("readelf -d '" STANDIN_CUDNN "'", [&](const char* line) { dynamic += line; });
  EXPECT_NE(dynamic.find("Library soname: [libcudnn.so.9]"), std::string::npos) << dynamic;
  EXPECT_NE(dynamic.find("Shared library: [libcuda.so.1]"), std::string::npos) << dynamic;
  EXPECT_NE(dynamic.find("Library runpath: [$ORIGIN]"), std::string::npos) << dynamic;
}

TEST(Exports, WhatIsNotImplementedIsNotSupportedAndSaysItsNameOnce) {
  void* library = dlopen(STANDIN_CUDNN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto recurrent = reinterpret_cast<int (*)()>(dlsym(library, "cudnnRNNForward"));
  ASSERT_NE(recurrent, nullptr);
  testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) EXPECT_EQ(recurrent(), kNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "hostgpu: cudnnRNNForward is not implemented by the CPU stand-in: it returns "
            "CUDNN_STATUS_NOT_SUPPORTED\n");
}

}  // namespace
