// Tests that each stand-in exports what the real library exports, under the same version node, so
// that a binary linked with one runs with the other. Also tests that functions which are not
// implemented return an error, and that the texts of errors are the real library's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string>

namespace {

using Names = std::set<std::string>;

struct StandIn {
  const char* folder;  // folder of the stand-in's sources
  const char* soname;
  const char* real;
  const char* node;  // the version node that follows each export's name
  // Names an export that is not implemented, and what it returns, as a number and by name.
  const char* missing;
  int answer;
  const char* answer_name;
};

constexpr StandIn kStandIns[] = {
    {"cuda", "libcuda.so.1", REAL_CUDA_DIR "/stubs/libcuda.so", "", "cuLinkDestroy", 801,
     "CUDA_ERROR_NOT_SUPPORTED"},
    {"cudart", "libcudart.so.13", REAL_CUDA_DIR "/libcudart.so.13", "@@libcudart.so.13",
     "cudaGraphAddEmptyNode", 801, "cudaErrorNotSupported"},
    {"curand", "libcurand.so.10", REAL_CUDA_DIR "/libcurand.so.10", "@@libcurand.so.10",
     "curandGeneratePoisson", 204, "CURAND_STATUS_ARCH_MISMATCH"},
    {"nccl", "libnccl.so.2", REAL_CUDA_DIR "/libnccl.so.2", "", "ncclMemAlloc", 5,
     "ncclInvalidUsage"},
    {"cudnn", "libcudnn.so.9", REAL_CUDNN, "@@libcudnn.so.9", "cudnnRNNForward", 3000,
     "CUDNN_STATUS_NOT_SUPPORTED"},
};

template <class Body>
void ForEachLine(const std::string& command, const Body& body) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 512> line;
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) body(line.data());
}

// Returns the exported functions with their version nodes, but not those that only stand-ins call.
Names ExportsOf(const std::string& library) {
  Names names;
  ForEachLine("nm -D --defined-only '" + library + "'", [&](const char* line) {
    char kind = 0;
    char name[400];
    if (std::sscanf(line, "%*s %c %399s", &kind, name) != 2) return;
    if (std::string("TWi").find(kind) == std::string::npos) return;
    if (std::string(name).ends_with("@@HOSTGPU_PRIVATE")) return;
    names.insert(name);
  });
  return names;
}

class Exports : public testing::TestWithParam<StandIn> {
 protected:
  std::string Path() const { return std::string(HOST_DIR "/") + GetParam().soname; }
};

TEST_P(Exports, AreTheCommittedList) {
  Names committed;
  std::ifstream list(SOURCE_DIR "/shim/host/" + std::string(GetParam().folder) + "/exports.txt");
  for (std::string name; std::getline(list, name);) {
    if (!name.empty() && name[0] != '#') committed.insert(name + GetParam().node);
  }
  EXPECT_EQ(ExportsOf(Path()), committed);
}

TEST_P(Exports, AreTheRealLibrarysWithTheirVersionNodes) {
  if (access(GetParam().real, R_OK) != 0) GTEST_SKIP() << "no " << GetParam().real;
  const Names real = ExportsOf(GetParam().real);
  ASSERT_GT(real.size(), 20u) << "nm found no exports";
  EXPECT_EQ(ExportsOf(Path()), real);
}

TEST_P(Exports, LibraryNamesItselfAndFindsTheDriverBesideIt) {
  std::string dynamic;
  ForEachLine("readelf -d '" + Path() + "'", [&](const char* line) { dynamic += line; });
  const std::string soname = GetParam().soname;
  EXPECT_NE(dynamic.find("Library soname: [" + soname + "]"), std::string::npos) << dynamic;
  EXPECT_NE(dynamic.find("Library runpath: [$ORIGIN]"), std::string::npos) << dynamic;
  EXPECT_EQ(dynamic.find("Shared library: [libcuda.so.1]") == std::string::npos,
            soname == "libcuda.so.1")
      << dynamic;
}

TEST_P(Exports, WhatIsNotImplementedIsAnErrorAndSaysItsNameOnce) {
  void* const library = dlopen(Path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto missing = reinterpret_cast<int (*)()>(dlsym(library, GetParam().missing));
  ASSERT_NE(missing, nullptr);
  testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) EXPECT_EQ(missing(), GetParam().answer);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            std::string("hostgpu: ") + GetParam().missing +
                " is not implemented by the CPU stand-in: it returns " + GetParam().answer_name +
                "\n");
}

INSTANTIATE_TEST_SUITE_P(StandIns, Exports, testing::ValuesIn(kStandIns),
                         [](const auto& row) { return std::string(row.param.folder); });

struct ErrorText {
  const char* soname;
  const char* function;
  int last;
};

TEST(ErrorTexts, AreTheRealLibrarys) {
  using Text = const char* (*)(int);
  const ErrorText rows[] = {{"libcudart.so.13", "cudaGetErrorName", 1100},
                            {"libcudart.so.13", "cudaGetErrorString", 1100},
                            {"libnccl.so.2", "ncclGetErrorString", 10}};
  for (const ErrorText& row : rows) {
    const std::string real_path = REAL_CUDA_DIR "/" + std::string(row.soname);
    void* const real = dlopen(real_path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!real) GTEST_SKIP() << dlerror();
    void* const ours =
        dlopen((HOST_DIR "/" + std::string(row.soname)).c_str(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(ours, nullptr) << dlerror();
    const auto expected = reinterpret_cast<Text>(dlsym(real, row.function));
    const auto text = reinterpret_cast<Text>(dlsym(ours, row.function));
    ASSERT_NE(text, expected);
    for (int code = -1; code < row.last; ++code) {
      EXPECT_STREQ(text(code), expected(code)) << row.function << " " << code;
    }
  }
}

}  // namespace
