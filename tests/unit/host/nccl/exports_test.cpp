// The stand-in exports exactly what the real library does, and what is not implemented says so.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/unit/host/nccl/api.h"

namespace {

// What `tools/generate-host-stubs --exports` writes, but for the first line, which names the file.
std::string Names(FILE* file) {
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text.substr(text.find('\n') + 1);
}

std::string ExportsOf(const std::string& library) {
  FILE* const pipe =
      popen((SOURCE_DIR "/tools/generate-host-stubs --exports " + library).c_str(), "r");
  const std::string names = Names(pipe);
  EXPECT_EQ(pclose(pipe), 0);
  return names;
}

std::string Committed() {
  FILE* const file = std::fopen(SOURCE_DIR "/shim/host/nccl/exports.txt", "r");
  const std::string names = Names(file);
  std::fclose(file);
  return names;
}

TEST(Exports, AreTheRealOnes) {
  EXPECT_EQ(ExportsOf(STANDIN_NCCL), Committed());
  if (access(REAL_NCCL, R_OK) != 0) GTEST_SKIP() << "no " REAL_NCCL;
  EXPECT_EQ(Committed(), ExportsOf(REAL_NCCL));
}

TEST(Exports, ProfilersFindEachFunctionUnderASecondName) {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  for (const std::string name :
       {"GetVersion",         "GetErrorString",    "GetLastError", "GetUniqueId",  "CommInitRank",
        "CommInitRankConfig", "CommInitAll",       "CommSplit",    "CommFinalize", "CommDestroy",
        "CommAbort",          "CommGetAsyncError", "CommCount",    "CommCuDevice", "CommUserRank",
        "GroupStart",         "GroupEnd",          "Send",         "Recv",         "AllReduce",
        "ReduceScatter",      "AllGather",         "Broadcast",    "Bcast",        "Reduce"}) {
    void* const function = dlsym(library, ("nccl" + name).c_str());
    EXPECT_NE(function, nullptr) << name;
    EXPECT_EQ(function, dlsym(library, ("pnccl" + name).c_str())) << name;
  }
}

TEST(Exports, WhatIsNotImplementedIsAnErrorAndSaysItsNameOnce) {
  const auto reserve =
      reinterpret_cast<int (*)(void**, size_t)>(dlsym(RTLD_DEFAULT, "ncclMemAlloc"));
  ASSERT_NE(reserve, nullptr);
  ::testing::internal::CaptureStderr();
  for (int call = 0; call < 3; ++call) EXPECT_EQ(reserve(nullptr, 1), ncclInvalidUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hostgpu: ncclMemAlloc is not implemented by the CPU stand-in: it returns "
            "ncclInvalidUsage\n");
}

TEST(Exports, ErrorTextsAreTheRealOnes) {
  if (access(REAL_NCCL, R_OK) != 0) GTEST_SKIP() << "no " REAL_NCCL;
  void* const real = dlopen(REAL_NCCL, RTLD_LAZY | RTLD_LOCAL);
  if (!real) GTEST_SKIP() << dlerror();
  const auto text =
      reinterpret_cast<decltype(&ncclGetErrorString)>(dlsym(real, "ncclGetErrorString"));
  ASSERT_NE(text, &ncclGetErrorString);
  for (int code = -1; code <= ncclNumResults + 1; ++code) {
    const auto result = static_cast<ncclResult_t>(code);
    EXPECT_STREQ(ncclGetErrorString(result), text(result)) << code;
  }
}

}  // namespace
